//! The calls of a gateway: it answers them, repeats its 200 until the ACK arrives, and knows which ones have ended.

use super::{Behaviour, Counts};
use crate::run::respond;
use rustc_hash::{FxHashMap, FxHasher};
use sip_message::{Message, Method};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// How long a call without ACK is up, and how long an ended one is remembered: 64*T1.
const LIFETIME: Duration = Duration::from_secs(32);
/// Maximum number of calls to remember. Further ones get 503.
const MOST: usize = 1_000_000;

/// Sends a message to an address.
pub(super) type Send<'s> = &'s mut dyn FnMut(&[u8], SocketAddr);

/// The calls, by Call-ID and tag of the caller.
pub(super) struct Calls {
    pub(super) counts: Counts,
    contact: Vec<u8>,
    port: u16,
    known: FxHashMap<u64, Call>,
    /// When to repeat the 200 of a call.
    repeats: BinaryHeap<Reverse<(Instant, u64)>>,
    /// When to forget a call, in that order.
    ended: VecDeque<(Instant, u64)>,
}

struct Call {
    stage: Stage,
    /// `CSeq` and hash of the branch of its INVITE.
    cseq: u32,
    branch: u64,
    /// Where the INVITE came from.
    caller: SocketAddr,
    /// The INVITE while it is pending, then the final response until it is acknowledged.
    kept: Box<[u8]>,
    answered: Instant,
    interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It got 100 only.
    Pending,
    /// It got a final response other than 200.
    Refused,
    /// It got 200, and has not acknowledged it.
    Answered,
    Up,
    Over,
}

/// A request and where it came from.
struct Request<'r, 'm> {
    message: &'r Message<'m>,
    from: SocketAddr,
    key: u64,
}

impl Calls {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            counts: Counts::default(),
            contact: format!("sip:gateway@{address}").into_bytes(),
            port: address.port(),
            known: FxHashMap::default(),
            repeats: BinaryHeap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Handles a datagram.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        datagram: &[u8],
        from: SocketAddr,
        behaviour: Behaviour,
        send: Send<'_>,
    ) {
        let parsed = Message::parse(datagram);
        let message = match &parsed {
            Ok(message) if message.is_request() && !behaviour.is_away() => message,
            _ => {
                self.counts.ignored += 1;
                return;
            }
        };
        let key = key_of(message);
        let request = Request { message, from, key };
        match message.method() {
            Method::Invite => self.invite(now, &request, behaviour, send),
            Method::Ack => self.acknowledge(&request, behaviour, send),
            Method::Bye => self.hang_up(now, &request, behaviour, send),
            Method::Cancel => self.cancel(now, &request, behaviour, send),
            Method::Options => {
                self.counts.probes += 1;
                let status = match behaviour {
                    Behaviour::FailingProbes(status) => status,
                    _ => 200,
                };
                self.respond(status, &request, send);
            }
            _ => self.respond(200, &request, send),
        }
    }

    fn invite(
        &mut self,
        now: Instant,
        request: &Request<'_, '_>,
        behaviour: Behaviour,
        send: Send<'_>,
    ) {
        let (cseq, branch) = (cseq_of(request.message), branch_of(request.message));
        if request.message.to().is_some_and(|to| to.tag().is_some()) {
            return self.respond(200, request, send);
        }
        match self.known.get(&request.key) {
            Some(call) if call.branch == branch => {
                self.counts.retransmissions_received += 1;
                match call.stage {
                    Stage::Pending => self.respond(100, request, send),
                    Stage::Refused | Stage::Answered => send(&call.kept, call.caller),
                    Stage::Up | Stage::Over => {}
                }
                return;
            }
            Some(call) if cseq <= call.cseq => {
                self.counts.merged += 1;
                return self.respond(482, request, send);
            }
            // The caller has sent its INVITE with new credentials, to a server that does not know the first one any more.
            Some(_) => {
                self.counts.replaced += 1;
                self.end(now, request.key);
            }
            None if self.known.len() >= MOST => return self.respond(503, request, send),
            None => {}
        }
        self.counts.calls += 1;
        let call = Call {
            stage: Stage::Pending,
            cseq,
            branch,
            caller: request.from,
            kept: request.message.bytes().into(),
            answered: now,
            interval: T1,
        };
        self.known.insert(request.key, call);
        match behaviour {
            Behaviour::Trying => self.respond(100, request, send),
            Behaviour::Refusing(status) => {
                self.counts.refused += 1;
                self.refuse(now, status, request, send);
            }
            _ => self.answer(now, request, send),
        }
    }

    fn answer(&mut self, now: Instant, request: &Request<'_, '_>, send: Send<'_>) {
        self.respond(180, request, send);
        let answer = self.written(200, request.message, request.from);
        send(&answer, request.from);
        self.counts.answered += 1;
        self.counts.live += 1;
        self.repeats.push(Reverse((now + T1, request.key)));
        if let Some(call) = self.known.get_mut(&request.key) {
            call.stage = Stage::Answered;
            call.kept = answer.into();
        }
    }

    fn refuse(&mut self, now: Instant, status: u16, request: &Request<'_, '_>, send: Send<'_>) {
        let refusal = self.written(status, request.message, request.from);
        send(&refusal, request.from);
        if let Some(call) = self.known.get_mut(&request.key) {
            call.stage = Stage::Refused;
            call.kept = refusal.into();
            self.ended.push_back((now + LIFETIME, request.key));
        }
    }

    fn acknowledge(&mut self, request: &Request<'_, '_>, behaviour: Behaviour, send: Send<'_>) {
        match self.known.get_mut(&request.key) {
            Some(call) if call.stage == Stage::Answered => {
                call.stage = Stage::Up;
                call.kept = Box::default();
                self.counts.acknowledged += 1;
            }
            Some(call) if call.stage == Stage::Refused => {}
            Some(_) => self.counts.retransmissions_received += 1,
            None => self.counts.unknown += 1,
        }
        if behaviour == Behaviour::Agreeing {
            self.respond(200, request, send);
        }
    }

    fn hang_up(
        &mut self,
        now: Instant,
        request: &Request<'_, '_>,
        behaviour: Behaviour,
        send: Send<'_>,
    ) {
        let stage = self.known.get(&request.key).map(|call| call.stage);
        let status = match stage {
            Some(Stage::Answered | Stage::Up) => {
                self.end(now, request.key);
                200
            }
            Some(Stage::Over) => {
                self.counts.retransmissions_received += 1;
                200
            }
            Some(Stage::Pending | Stage::Refused) | None => {
                self.counts.unknown += 1;
                if behaviour == Behaviour::Agreeing {
                    200
                } else {
                    481
                }
            }
        };
        self.respond(status, request, send);
    }

    fn cancel(
        &mut self,
        now: Instant,
        request: &Request<'_, '_>,
        behaviour: Behaviour,
        send: Send<'_>,
    ) {
        let Some(call) = self.known.get_mut(&request.key) else {
            self.counts.unknown += 1;
            let agrees = behaviour == Behaviour::Agreeing;
            return self.respond(if agrees { 200 } else { 481 }, request, send);
        };
        let invite = (call.stage == Stage::Pending).then(|| std::mem::take(&mut call.kept));
        let caller = call.caller;
        self.respond(200, request, send);
        if let Some(invite) = invite
            && let Ok(invite) = Message::parse(&invite)
        {
            self.counts.cancelled += 1;
            let invite = Request {
                message: &invite,
                from: caller,
                key: request.key,
            };
            self.refuse(now, 487, &invite, send);
        }
    }

    /// Ends a call, and remembers it for a while to recognise retransmissions.
    fn end(&mut self, now: Instant, key: u64) {
        if let Some(call) = self.known.get_mut(&key)
            && call.stage != Stage::Over
        {
            if matches!(call.stage, Stage::Answered | Stage::Up) {
                self.counts.ended += 1;
                self.counts.live -= 1;
            }
            call.stage = Stage::Over;
            call.kept = Box::default();
            self.ended.push_back((now + LIFETIME, key));
        }
    }

    /// Repeats each 200 that was not acknowledged (RFC 3261 section 13.3.1.4), and forgets calls that ended long ago.
    pub(super) fn expire(&mut self, now: Instant, send: Send<'_>) {
        while let Some(&Reverse((at, key))) = self.repeats.peek()
            && at <= now
        {
            self.repeats.pop();
            let Some(call) = self.known.get_mut(&key) else {
                continue;
            };
            if call.stage != Stage::Answered {
                continue;
            }
            if now.duration_since(call.answered) >= LIFETIME {
                self.counts.unacknowledged += 1;
                self.end(now, key);
                continue;
            }
            self.counts.retransmissions_sent += 1;
            send(&call.kept, call.caller);
            call.interval = (call.interval * 2).min(T2);
            self.repeats.push(Reverse((now + call.interval, key)));
        }
        while let Some(&(at, key)) = self.ended.front()
            && at <= now
        {
            self.ended.pop_front();
            let is_over = |call: &Call| matches!(call.stage, Stage::Over | Stage::Refused);
            if self.known.get(&key).is_some_and(is_over) {
                self.known.remove(&key);
            }
        }
    }

    fn respond(&self, status: u16, request: &Request<'_, '_>, send: Send<'_>) {
        send(
            &self.written(status, request.message, request.from),
            request.from,
        );
    }

    fn written(&self, status: u16, request: &Message<'_>, from: SocketAddr) -> Vec<u8> {
        // Tells this gateway's dialog from that of another one that the same INVITE has reached.
        let tag = format!("gw{}-{}", self.port, cseq_of(request));
        let contact = |into: &mut Vec<u8>| into.extend_from_slice(&self.contact);
        let mut written = Vec::with_capacity(1_024);
        respond(
            request,
            (status, tag.as_bytes()),
            from,
            contact,
            &mut written,
        );
        written
    }
}

fn key_of(request: &Message<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(request.call_id().unwrap_or_default());
    if let Some(tag) = request.from().and_then(|from| from.tag()) {
        hasher.write(tag);
    }
    hasher.finish()
}

fn cseq_of(request: &Message<'_>) -> u32 {
    request.cseq().map_or(0, |cseq| cseq.number)
}

fn branch_of(request: &Message<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    let via = request.top_via();
    hasher.write(via.and_then(|via| via.branch()).unwrap_or_default());
    hasher.finish()
}
