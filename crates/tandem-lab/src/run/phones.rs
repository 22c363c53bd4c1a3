//! The phones: a node that starts units when they are due, and responds to requests.
//!
//! Requests of phones have transactions ([`sip_transaction`]). A phone can repeat its responses from the request alone, so it stores only
//! a few bytes per call.

use super::attacking::{Attack, Strangers};
use super::callee::Callees;
use super::commanded::Command;
use super::dialog::Dialog;
use super::figures::{Delay, Figures, Kind};
use super::messages::Port;
use super::options::PhoneOrder;
use super::profile::CallShape;
use super::shared::Shared;
use super::subscribers::{Phone, Subscribers};
use super::timetable::Due;
use rustc_hash::FxHashMap;
use sip_message::Message;
use sip_transaction::{Event, TimerWheel, Transactions};
use sip_transport::{Flow, Input, Node, Output, Received, Time, Undelivered};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Parameters that all workers of a run share.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The server; `None` if callers call callees directly.
    pub(super) server: Option<SocketAddr>,
    pub(super) subscribers: Subscribers,
    pub(super) call: CallShape,
    /// Whether to reuse nonces. Otherwise every unit is challenged.
    pub(super) reuse_nonces: bool,
    /// Registration lifetime to request, in seconds.
    pub(super) expires: u32,
    /// Maximum number of units in progress.
    pub(super) most: usize,
    pub(super) order: PhoneOrder,
    /// Whether a request that causes an ICMP error is retransmitted, as for any lost datagram. Otherwise its unit fails.
    pub(super) ignore_icmp: bool,
    /// Whether OPTIONS go to other phones instead of the server.
    pub(super) asks_phones: bool,
}

/// Failure reason of a unit whose request caused an ICMP error.
const UNREACHABLE: &str = "unreachable";
/// How long a unit may take to count as goodput, beyond the time that calls ring and talk. Callers who wait longer hang up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Units of a closed loop to start before messages are read again. Responses must not wait behind a burst of new units.
const STARTED_AT_ONCE: usize = 8;

/// Bits of a unit's number: those of the thread's counter, and those of the thread above them. The rest distinguishes runs.
const COUNTER_BITS: u32 = 40;
const THREAD_BITS: u32 = 8;

/// Deregistrations in progress per worker.
const LEAVING_AT_A_TIME: u32 = 64;

/// Failure reason of a unit that needs a server (`--direct`).
pub(super) const NOBODY: &str = "there is no server to ask";

/// Orders for the phones.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Register all phones, this many at a time.
    Populate(u32),
    /// End all units, and deregister all phones.
    Leave,
    /// Start units from these sources, for this long.
    Begin(Vec<Source>, Duration),
    /// Start the units that were due until the end, and no more.
    End,
    /// Start no more units, before the end of the run.
    Break,
    /// Report the figures since the last time.
    Tell,
    /// Execute one command.
    Do(Command),
}

/// Reply to [`Order::Tell`].
#[derive(Debug)]
pub(super) struct Told {
    pub(super) figures: Figures,
    /// Units in progress, and phones still to be registered.
    pub(super) in_progress: usize,
}

/// Units of one kind, and their start times.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) kind: Kind,
    pub(super) arrivals: Due,
}

/// A unit in progress.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) phone: u32,
    /// When the unit was due.
    pub(super) due: Time,
    /// When the current request was due.
    pub(super) asked: Time,
    pub(super) cseq: u32,
    pub(super) stage: Stage,
}

/// Stage of a unit.
#[derive(Debug)]
pub(super) enum Stage {
    /// OPTIONS, NOTIFY, REGISTER or a datagram to be echoed sent.
    Asked { kind: Kind, has_credentials: bool },
    Invited {
        callee: u32,
        has_credentials: bool,
        heard_100: bool,
        rang: bool,
    },
    /// A hostile request sent.
    Attacking {
        attack: Attack,
        has_credentials: bool,
    },
    /// Established.
    Up {
        dialog: Box<Dialog>,
        /// BYE sent.
        leaving: bool,
    },
}

impl Stage {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Asked { kind, .. } => *kind,
            Self::Attacking { .. } => Kind::Attack,
            Self::Invited { .. } | Self::Up { .. } => Kind::Call,
        }
    }
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alarm {
    /// Hang up the call with this number.
    HangUp(u64),
    /// Answer the call.
    Lift(u64),
    /// Retransmit the 200 of the call: there was no ACK.
    Repeat(u64),
    /// Retry the deferred registration with this number.
    AskAgain(u64),
}

/// The phones of one worker.
pub(super) struct Phones {
    pub(super) plan: Plan,
    pub(super) strangers: Strangers,
    pub(super) shared: Arc<Shared>,
    pub(super) ports: Arc<[Port]>,
    pub(super) memories: Vec<Phone>,
    /// Number of the first phone.
    pub(super) first: u32,
    sources: Vec<Source>,
    /// When units began; `None` while none are started.
    begun: Option<Time>,
    /// Start of the last series of units, even after it has ended.
    counted_from: Option<Time>,
    /// Duration of the series.
    length: Duration,
    /// The next phone to register during the initial registration, and the number of registrations at a time.
    populating: Option<(u32, u32)>,
    /// During the initial registration: retry registrations that the server defers.
    pub(super) is_populating: bool,
    /// During deregistration: registrations request a lifetime of zero.
    pub(super) is_leaving: bool,
    pub(super) transactions: Transactions<u64>,
    pub(super) units: FxHashMap<u64, Unit>,
    pub(super) callees: Callees,
    pub(super) wheel: TimerWheel<Alarm>,
    pub(super) figures: Figures,
    /// Retransmissions that were already reported: of all requests, and of INVITEs.
    told_retransmissions: (u64, u64),
    /// Number of the next unit. The bits above the counter distinguish threads and runs.
    next: u64,
    /// Index of the next phone, and the distance to the one after it.
    turn: u32,
    stride: u32,
    /// Phones, one per unused port. The next connection takes one of them.
    idle: Vec<u32>,
    events: Vec<Event<u64>>,
}

pub(super) type Out<'o> = &'o mut Output<Box<Told>>;

impl Phones {
    pub(super) fn new(
        plan: Plan,
        (shared, thread): (&Arc<Shared>, u16),
        transactions: Transactions<u64>,
        (salt, now): (u64, Time),
    ) -> Self {
        let own = shared.division.phones(thread);
        let (first, count) = (own.start, own.end - own.start);
        let ports = shared.ports_of(thread);
        let own_ports = (ports.len() as u32).min(count);
        Self {
            strangers: Strangers::among(&plan.subscribers),
            stride: match plan.order {
                PhoneOrder::Spread => stride(count),
                PhoneOrder::Ascending => 1,
            },
            plan,
            shared: Arc::clone(shared),
            ports,
            idle: (first..first + own_ports).collect(),
            memories: vec![Phone::default(); count as usize],
            first,
            sources: Vec::new(),
            begun: None,
            counted_from: None,
            length: Duration::ZERO,
            populating: None,
            is_populating: false,
            is_leaving: false,
            transactions,
            units: FxHashMap::default(),
            callees: Callees::default(),
            wheel: TimerWheel::new(now),
            figures: Figures::default(),
            told_retransmissions: (0, 0),
            next: (salt << THREAD_BITS | u64::from(thread)) << COUNTER_BITS,
            turn: 0,
            events: Vec::new(),
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The port of a phone.
    pub(super) fn port_of(&self, phone: u32) -> &Port {
        &self.ports[(phone - self.first) as usize % self.ports.len()]
    }

    /// The next phone in turn. Every phone has its turn before any repeats.
    fn next_phone(&mut self) -> u32 {
        let phone = self.first + self.turn;
        let count = self.memories.len() as u64;
        self.turn = ((u64::from(self.turn) + u64::from(self.stride)) % count) as u32;
        phone
    }

    /// Starts all units that are due by `then`.
    fn begin_due(&mut self, now: Time, then: Time, output: Out<'_>) {
        let Some(begun) = self.begun else { return };
        for place in 0..self.sources.len() {
            while let Some(since) = self.sources[place].arrivals.peek()
                && since < self.length
                && let due = begun + since
                && due <= then
            {
                let parties = self.sources[place].arrivals.advance();
                let kind = self.sources[place].kind;
                self.begin_unit(now, due, kind, parties, output);
            }
        }
    }

    /// The kind of which a closed loop has room for another unit.
    fn kind_with_room(&self) -> Option<Kind> {
        let has_room = |source: &&Source| match source.arrivals {
            Due::Window(window) => self.units.len() < window,
            Due::Paced(_) | Due::Planned(_) => false,
        };
        self.begun?;
        self.sources.iter().find(has_room).map(|source| source.kind)
    }

    /// Starts units of a closed loop.
    fn fill_window(&mut self, now: Time, output: Out<'_>) {
        for _ in 0..STARTED_AT_ONCE {
            let is_over = self.begun.is_none_or(|begun| now >= begun + self.length);
            let Some(kind) = self.kind_with_room().filter(|_| !is_over) else {
                return;
            };
            self.begin_unit(now, now, kind, None, output);
        }
    }

    /// Whether no unit is in progress and none is to be started.
    pub(super) fn is_at_rest(&self) -> bool {
        self.begun.is_none() && self.units.is_empty() && self.populating.is_none()
    }

    pub(super) fn begin_unit(
        &mut self,
        now: Time,
        due: Time,
        kind: Kind,
        parties: Option<(u32, u32)>,
        output: Out<'_>,
    ) {
        if self.units.len() >= self.plan.most {
            self.figures.ends_mut(kind).skipped += 1;
            return;
        }
        self.figures
            .record(Delay::Lateness, now.saturating_since(due));
        self.count_in_cohort(due, false);
        match (kind, parties) {
            (Kind::Call, Some((caller, callee))) => self.call(now, due, caller, callee, output),
            (Kind::Call, None) => {
                let caller = self.next_phone();
                let callee = self.shared.division.opposite(caller);
                self.call(now, due, caller, callee, output);
            }
            (Kind::Attack, _) => self.attack(now, due, output),
            (Kind::Connection, _) => match self.idle.pop() {
                Some(phone) => self.ask(now, due, kind, phone, output),
                None => self.figures.ends_mut(kind).skipped += 1,
            },
            (kind, _) => {
                let phone = self.next_phone();
                self.ask(now, due, kind, phone, output);
            }
        }
    }

    /// Stops starting units. The remaining calls of a scenario count as skipped.
    fn end(&mut self, now: Time, until: Time, output: Out<'_>) {
        self.begin_due(now, until, output);
        self.begun = None;
        for source in &mut self.sources {
            if let Due::Planned(share) = &mut source.arrivals {
                self.figures.ends_mut(source.kind).skipped += share.skip_rest();
            }
        }
    }

    fn populate(&mut self, now: Time, output: Out<'_>) {
        while let Some((next, at_a_time)) = self.populating
            && (self.units.len() as u32) < at_a_time
        {
            self.populating =
                (next + 1 < self.memories.len() as u32).then_some((next + 1, at_a_time));
            let is_wanted = !self.is_leaving || self.memories[next as usize].is_registered;
            if is_wanted {
                self.ask(now, now, Kind::Register, self.first + next, output);
            }
        }
    }

    /// Abandons all units, and deregisters all phones.
    fn deregister(&mut self, now: Time, output: Out<'_>) {
        self.begun = None;
        self.sources.clear();
        self.units.clear();
        self.is_leaving = true;
        self.is_populating = true;
        self.populating = Some((0, LEAVING_AT_A_TIME));
        self.populate(now, output);
    }

    /// Counts a unit in the cohort of its due time, and whether it succeeded in time.
    fn count_in_cohort(&mut self, due: Time, has_succeeded: bool) {
        let Some(begun) = self.counted_from else {
            return;
        };
        let tenth = due.saturating_since(begun).as_millis() / 100;
        let cohort = self.figures.cohorts.entry(tenth as u32).or_default();
        if has_succeeded {
            cohort.succeeded += 1;
        } else {
            cohort.attempted += 1;
        }
    }

    fn tell(&mut self, output: Out<'_>) {
        let stats = self.transactions.stats();
        let (requests, invites) = (stats.requests_retransmitted, stats.invites_retransmitted);
        self.figures.retransmissions_sent += requests - self.told_retransmissions.0;
        self.figures.invites_retransmitted += invites - self.told_retransmissions.1;
        self.told_retransmissions = (requests, invites);
        let left = self
            .populating
            .map_or(0, |(next, _)| self.memories.len() - next as usize);
        output.ask(Box::new(Told {
            figures: std::mem::take(&mut self.figures),
            in_progress: self.units.len() + left,
        }));
    }

    /// Fails a unit.
    pub(super) fn fail(&mut self, number: u64, reason: &dyn std::fmt::Display) {
        if let Some(kind) = self.end_unit(number) {
            self.figures.fail(kind, reason);
        }
    }

    /// Closes a connection that gets a late response to an abandoned unit, so that the next unit opens another one. If that unit has
    /// already started, the connection stays open.
    fn close_idle(&self, flow: Flow, output: Out<'_>) {
        let mut sources = self.sources.iter();
        let is_churn = sources.any(|source| source.kind == Kind::Connection);
        let phone = self.first + u32::from(flow.listener.0);
        if is_churn && self.idle.contains(&phone) {
            output.close(flow.connection);
        }
    }

    /// A unit succeeds.
    pub(super) fn succeed(&mut self, now: Time, number: u64) {
        let due = self.units.get(&number).map(|unit| unit.due);
        if let Some((kind, due)) = self.end_unit(number).zip(due) {
            self.figures.succeed(kind);
            let wanted = self.plan.call.ringing + self.plan.call.talking;
            if now.saturating_since(due) <= wanted + PATIENCE {
                self.count_in_cohort(due, true);
            }
        }
    }

    /// A transaction timed out. For an attack that is a success.
    fn time_out(&mut self, now: Time, number: u64) {
        match self.units.get(&number).map(|unit| &unit.stage) {
            Some(Stage::Attacking { .. }) => self.refused(now, number, 0),
            _ => self.fail(number, &"timeout"),
        }
    }

    fn end_unit(&mut self, number: u64) -> Option<Kind> {
        let unit = self.units.remove(&number)?;
        let kind = unit.stage.kind();
        if kind == Kind::Connection {
            self.idle.push(unit.phone);
        }
        Some(kind)
    }

    fn response(&mut self, now: Time, flow: Flow, response: &Message<'_>, output: Out<'_>) {
        let matched = self
            .transactions
            .receive_response(now, flow, response, output);
        let unit = matched
            .told()
            .and_then(|told| Some((told.owner, self.units.get(&told.owner)?)));
        let Some((number, unit)) = unit else {
            self.figures.late_messages += 1;
            self.close_idle(flow, output);
            return;
        };
        match unit.stage {
            Stage::Asked { .. } => {
                self.answered(now, number, flow.connection, response, output);
            }
            Stage::Attacking { .. } => self.attack_answered(now, number, response, output),
            _ => self.call_answered(now, number, response, output),
        }
    }

    fn undeliverable(&mut self, message: &Undelivered<'_>) {
        let Undelivered { flow, bytes, .. } = *message;
        let port = self.ports.get(usize::from(flow.listener.0));
        // For a datagram, an ICMP error reports it: no listener, or no route.
        let is_datagram = port.is_some_and(|port| !port.is_reliable);
        if is_datagram && self.plan.ignore_icmp {
            return;
        }
        let found = if is_datagram {
            self.transactions.client_unreached(flow.remote, bytes)
        } else {
            self.transactions.client_that_sent(bytes)
        };
        if let Some(client) = found {
            self.transactions.abandon_client(client.id);
            let reason = if is_datagram {
                UNREACHABLE
            } else {
                "transport"
            };
            self.fail(client.owner, &reason);
        }
    }

    fn obey(&mut self, now: Time, order: Order, output: Out<'_>) {
        match order {
            Order::Populate(at_a_time) => {
                self.populating = Some((0, at_a_time));
                self.is_populating = true;
                self.populate(now, output);
            }
            Order::Leave => self.deregister(now, output),
            Order::Begin(sources, length) => {
                self.sources = sources;
                self.length = length;
                self.is_populating = false;
                self.begun = Some(now);
                self.counted_from = Some(now);
                self.begin_due(now, now, output);
            }
            Order::End => {
                // Includes units that fall into the delay with which this worker started.
                let end = self.begun.map_or(now, |begun| now.max(begun + self.length));
                self.end(now, end, output);
            }
            Order::Break => self.end(now, now, output),
            Order::Tell => self.tell(output),
            Order::Do(command) => self.command(now, command, output),
        }
    }
}

/// The thread that numbered a unit.
pub(super) const fn thread_of(number: u64) -> u16 {
    (number >> COUNTER_BITS) as u16 & ((1 << THREAD_BITS) - 1)
}

/// Distance between consecutive phones: coprime to the count and near the golden section, so that all have their turn and neighbours are
/// far apart.
fn stride(count: u32) -> u32 {
    let section = (u64::from(count) * 618 / 1_000) as u32;
    let prime_to_count = |stride: &u32| {
        let (mut a, mut b) = (count, *stride);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (section..count).find(prime_to_count).unwrap_or(1)
}

impl Node for Phones {
    type Question = Box<Told>;
    type Record = std::convert::Infallible;
    type Control = Order;

    fn handle(&mut self, now: Time, input: Input<'_, Order>, output: Out<'_>) {
        match input {
            Input::Received(Received { flow, bytes, .. }) => {
                match Message::parse(bytes) {
                    Ok(message) if message.is_request() => {
                        self.request(now, flow, &message, output);
                    }
                    Ok(message) => self.response(now, flow, &message, output),
                    // Keep-alives and the responses to them.
                    Err(_) if bytes.len() <= 4 => {}
                    Err(_) => self.figures.nonsense += 1,
                }
                self.populate(now, output);
            }
            Input::Undeliverable(message) => {
                self.undeliverable(&message);
                self.populate(now, output);
            }
            Input::Control(order) => self.obey(now, order, output),
            Input::ConnectionEnded(_) => {}
        }
    }

    fn expire(&mut self, now: Time, output: Out<'_>) {
        let mut events = std::mem::take(&mut self.events);
        self.transactions.expire(now, output, &mut events);
        for event in events.drain(..) {
            if let Event::ClientTimeout { owner, .. } = event {
                self.time_out(now, owner);
            }
        }
        self.events = events;
        while let Some(alarm) = self.wheel.pop_due(now) {
            match alarm {
                Alarm::HangUp(number) => self.hang_up(now, number, output),
                Alarm::Lift(number) => self.lift(now, number, output),
                Alarm::Repeat(number) => self.repeat(now, number, output),
                Alarm::AskAgain(number) => self.ask_again(now, number, output),
            }
        }
        self.callees.forget(now);
        self.begin_due(now, now, output);
        self.fill_window(now, output);
        self.populate(now, output);
    }

    fn next_deadline(&self) -> Option<Time> {
        let begun = self.begun;
        let arrivals = self
            .sources
            .iter()
            .filter_map(|source| source.arrivals.peek())
            .filter(|since| *since < self.length)
            .filter_map(|since| Some(begun? + since));
        let timers = [
            self.transactions.next_deadline(),
            self.wheel.next_deadline(),
            // At once.
            self.kind_with_room().and(begun),
        ];
        arrivals.chain(timers.into_iter().flatten()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phone_has_its_turn_before_any_has_two() {
        for count in [1_u32, 2, 3, 4, 6, 7, 12, 100, 1_000, 1_001, 30_030] {
            let stride = stride(count);
            let mut turns = vec![0; count as usize];
            let mut turn = 0;
            for _ in 0..count {
                turns[turn as usize] += 1;
                turn = (turn + stride) % count;
            }
            assert!(turns.iter().all(|turns| *turns == 1), "{count}: {stride}");
        }
    }
}
