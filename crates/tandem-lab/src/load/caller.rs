//! The callers: all units in progress, looked up by the number in their Call-ID.

use super::messages::{Nonce, Unit, Writer};
use super::socket::Socket;
use super::{Options, Workload};
use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use sip_message::{Message, Method};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Timers A and E of the generator: interval after which a unit without progress is retransmitted.
const RETRANSMIT_AFTER: Duration = Duration::from_millis(500);
/// Time after which an unfinished unit fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(8);

/// Exact counts.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) begun: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) retransmitted: u64,
    pub(crate) unexpected: u64,
    pub(crate) responses: BTreeMap<u16, u64>,
    /// Microseconds from the due time of a unit to its final 2xx (the first one, for calls).
    pub(crate) delay: Histogram<u64>,
}

impl Default for Counts {
    fn default() -> Self {
        // Microseconds up to a minute: no unit takes that long.
        let delay = Histogram::new_with_max(60_000_000, 3)
            .unwrap_or_else(|_| unreachable!("the bounds are sound"));
        Self {
            begun: 0,
            succeeded: 0,
            failed: 0,
            retransmitted: 0,
            unexpected: 0,
            responses: BTreeMap::new(),
            delay,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Floor,
    KeepAlive,
    Register { challenged: bool },
    Invite { challenged: bool },
    Bye,
}

#[derive(Debug)]
struct InProgress {
    unit: Unit,
    stage: Stage,
    due: Instant,
    /// The message to retransmit.
    last: Vec<u8>,
    provisional: bool,
}

#[derive(Debug)]
pub(crate) struct Caller {
    workload: Workload,
    users: u32,
    writer: Writer,
    /// Added to a user's number, it is the number of the user's registration. Calls have higher numbers.
    registrations: u64,
    next: u64,
    units: FxHashMap<u64, InProgress>,
    /// Retransmission checks, sorted by time because all intervals are equal.
    checks: VecDeque<(Instant, u64, u32)>,
    nonces: FxHashMap<u32, Nonce>,
    /// `CSeq` of each user's last REGISTER.
    sequence: FxHashMap<u32, u32>,
    counts: Counts,
}

impl Caller {
    pub(crate) fn new(options: &Options, local: SocketAddr, contact: SocketAddr) -> Self {
        Self {
            workload: options.workload,
            users: options.users.max(2),
            writer: Writer {
                own_addresses: options.own_addresses,
                domain: options.domain.clone(),
                transport: "UDP",
                local,
                contact,
            },
            // Distinguishes our Call-IDs from those of other runs.
            registrations: u64::from(std::process::id()) << 34,
            next: (u64::from(std::process::id()) << 34) + (1 << 32),
            units: FxHashMap::default(),
            checks: VecDeque::new(),
            nonces: FxHashMap::default(),
            sequence: FxHashMap::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    pub(crate) fn in_progress(&self) -> u64 {
        self.units.len() as u64
    }

    /// A unit without a subscriber.
    fn nobodys(&self) -> Unit {
        Unit {
            number: self.next,
            // In turns, so that phones with an address of their own all send.
            user: (self.next % u64::from(self.users)) as u32,
            callee: 0,
            cseq: 1,
        }
    }

    /// A datagram of ordinary length, which should come back unchanged.
    pub(crate) fn floor(&mut self, due: Instant, socket: &mut Socket) -> io::Result<()> {
        let unit = self.nobodys();
        let mut message = Vec::with_capacity(1024);
        self.writer.keep_alive(unit, &mut message);
        message.resize(600, b' ');
        self.begin(unit, Stage::Floor, due, message, socket)
    }

    pub(crate) fn keep_alive(&mut self, due: Instant, socket: &mut Socket) -> io::Result<()> {
        let unit = self.nobodys();
        let mut message = Vec::with_capacity(512);
        self.writer.keep_alive(unit, &mut message);
        self.begin(unit, Stage::KeepAlive, due, message, socket)
    }

    /// Sends a REGISTER. With `fresh` it has no credentials, so that the server challenges it.
    pub(crate) fn register(
        &mut self,
        user: u32,
        fresh: bool,
        due: Instant,
        socket: &mut Socket,
    ) -> io::Result<()> {
        let sequence = self.sequence.entry(user).or_insert(0);
        *sequence += 1;
        // All registrations of a user share one Call-ID.
        let unit = Unit {
            number: self.registrations + u64::from(user),
            user,
            callee: user,
            cseq: *sequence,
        };
        let nonce = if fresh {
            None
        } else {
            self.nonces.get_mut(&user)
        };
        let challenged = nonce.is_some();
        let mut message = Vec::with_capacity(1024);
        self.writer.register(unit, nonce, &mut message);
        self.begin(unit, Stage::Register { challenged }, due, message, socket)
    }

    pub(crate) fn call(
        &mut self,
        user: u32,
        callee: u32,
        due: Instant,
        socket: &mut Socket,
    ) -> io::Result<()> {
        let unit = Unit {
            number: self.next,
            user,
            callee,
            cseq: 1,
        };
        let mut message = Vec::with_capacity(1024);
        self.writer.invite(unit, None, &mut message);
        self.begin(
            unit,
            Stage::Invite {
                challenged: self.workload == Workload::W3,
            },
            due,
            message,
            socket,
        )
    }

    fn begin(
        &mut self,
        unit: Unit,
        stage: Stage,
        due: Instant,
        last: Vec<u8>,
        socket: &Socket,
    ) -> io::Result<()> {
        self.next += 1;
        self.counts.begun += 1;
        socket.send(&last, self.writer.local_of(unit.user).ip())?;
        self.checks
            .push_back((Instant::now() + RETRANSMIT_AFTER, unit.number, unit.cseq));
        self.units.insert(
            unit.number,
            InProgress {
                unit,
                stage,
                due,
                last,
                provisional: false,
            },
        );
        Ok(())
    }

    pub(crate) fn receive(&mut self, bytes: &[u8], socket: &Socket) -> io::Result<()> {
        let Ok(response) = Message::parse(bytes) else {
            self.counts.unexpected += 1;
            return Ok(());
        };
        let status = response.status();
        *self.counts.responses.entry(status).or_default() += 1;
        let number = response.call_id().and_then(number_of);
        let Some((number, unit)) =
            number.and_then(|number| Some((number, self.units.get_mut(&number)?)))
        else {
            self.counts.unexpected += 1;
            return Ok(());
        };
        let cseq = response.cseq();
        if cseq.is_none_or(|cseq| cseq.number != unit.unit.cseq) {
            self.counts.unexpected += 1;
            return Ok(());
        }
        match (unit.stage, status) {
            (_, 100..=199) => {
                unit.provisional = true;
                Ok(())
            }
            // The reply to Floor is a request.
            (Stage::Floor, _) | (Stage::KeepAlive | Stage::Register { .. }, 200..=299) => {
                let delay = unit.due.elapsed();
                self.end(number, Some(delay));
                Ok(())
            }
            (Stage::Bye, 200..=299) => {
                self.end(number, None);
                Ok(())
            }
            (Stage::Register { challenged: false }, 401)
            | (Stage::Invite { challenged: false }, 407) => {
                self.answer_challenge(number, &response, socket)
            }
            (Stage::Invite { .. }, 200..=299)
                if cseq.is_some_and(|cseq| cseq.method == Method::Invite) =>
            {
                self.acknowledge_and_hang_up(number, &response, socket)
            }
            _ => self.fail(number, &response, socket),
        }
    }

    fn answer_challenge(
        &mut self,
        number: u64,
        response: &Message<'_>,
        socket: &Socket,
    ) -> io::Result<()> {
        let invite = self
            .units
            .get(&number)
            .is_some_and(|unit| matches!(unit.stage, Stage::Invite { .. }));
        let Some(mut nonce) = Nonce::of(response, invite) else {
            return self.fail(number, response, socket);
        };
        let Some(progress) = self.units.get_mut(&number) else {
            return Ok(());
        };
        if invite {
            progress.last.clear();
            self.writer
                .ack_refusal(progress.unit, response, &mut progress.last);
            socket.send(
                &progress.last,
                self.writer.local_of(progress.unit.user).ip(),
            )?;
        }
        progress.unit.cseq += 1;
        progress.last.clear();
        progress.provisional = false;
        if invite {
            progress.stage = Stage::Invite { challenged: true };
            self.writer
                .invite(progress.unit, Some(&mut nonce), &mut progress.last);
        } else {
            progress.stage = Stage::Register { challenged: true };
            self.sequence.insert(progress.unit.user, progress.unit.cseq);
            self.writer
                .register(progress.unit, Some(&mut nonce), &mut progress.last);
            self.nonces.insert(progress.unit.user, nonce);
        }
        self.checks.push_back((
            Instant::now() + RETRANSMIT_AFTER,
            number,
            progress.unit.cseq,
        ));
        socket.send(
            &progress.last,
            self.writer.local_of(progress.unit.user).ip(),
        )
    }

    fn acknowledge_and_hang_up(
        &mut self,
        number: u64,
        response: &Message<'_>,
        socket: &Socket,
    ) -> io::Result<()> {
        let Some(progress) = self.units.get_mut(&number) else {
            return Ok(());
        };
        let delay = progress.due.elapsed();
        self.counts
            .delay
            .saturating_record(delay.as_micros() as u64);
        progress.last.clear();
        self.writer
            .in_dialog(Method::Ack, progress.unit, response, &mut progress.last);
        socket.send(
            &progress.last,
            self.writer.local_of(progress.unit.user).ip(),
        )?;
        progress.unit.cseq += 1;
        progress.stage = Stage::Bye;
        progress.provisional = false;
        progress.last.clear();
        self.writer
            .in_dialog(Method::Bye, progress.unit, response, &mut progress.last);
        self.checks.push_back((
            Instant::now() + RETRANSMIT_AFTER,
            number,
            progress.unit.cseq,
        ));
        socket.send(
            &progress.last,
            self.writer.local_of(progress.unit.user).ip(),
        )
    }

    fn fail(&mut self, number: u64, response: &Message<'_>, socket: &Socket) -> io::Result<()> {
        if let Some(progress) = self.units.remove(&number) {
            self.counts.failed += 1;
            if matches!(progress.stage, Stage::Invite { .. }) {
                let mut ack = Vec::with_capacity(512);
                self.writer.ack_refusal(progress.unit, response, &mut ack);
                socket.send(&ack, self.writer.local_of(progress.unit.user).ip())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, number: u64, delay: Option<Duration>) {
        if self.units.remove(&number).is_some() {
            self.counts.succeeded += 1;
            if let Some(delay) = delay {
                self.counts
                    .delay
                    .saturating_record(delay.as_micros() as u64);
            }
        }
    }

    /// Retransmits units without progress, and fails those that take too long.
    pub(crate) fn expire(&mut self, now: Instant, socket: &Socket) -> io::Result<()> {
        while let Some((due, number, cseq)) = self.checks.front().copied() {
            if due > now {
                break;
            }
            self.checks.pop_front();
            let Some(progress) = self
                .units
                .get(&number)
                .filter(|progress| progress.unit.cseq == cseq)
            else {
                continue;
            };
            if progress.due + GIVE_UP_AFTER < now {
                self.units.remove(&number);
                self.counts.failed += 1;
                continue;
            }
            if !(progress.provisional && matches!(progress.stage, Stage::Invite { .. })) {
                self.counts.retransmitted += 1;
                socket.send(
                    &progress.last,
                    self.writer.local_of(progress.unit.user).ip(),
                )?;
            }
            self.checks
                .push_back((now + RETRANSMIT_AFTER, number, cseq));
        }
        Ok(())
    }
}

/// The number in one of our Call-IDs: `prefix-NUMBER@address`.
fn number_of(call_id: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(call_id).ok()?;
    text.split_once('-')?.1.split_once('@')?.0.parse().ok()
}
