//! The phones: a node that begins units when they are due, and answers what comes.
//!
//! Requests of phones have transactions ([`sip_transaction`]); what a phone answers to others it can say again from the request
//! alone, so it keeps but a few octets for each call.

use super::arrivals::Arrivals;
use super::callee::Callees;
use super::commanded::Command;
use super::dialog::Dialog;
use super::figures::{Delay, Figures, Kind};
use super::messages::Port;
use super::profile::CallShape;
use super::subscribers::{Phone, Subscribers};
use rustc_hash::FxHashMap;
use sip_message::Message;
use sip_transaction::{Event, TimerWheel, Transactions};
use sip_transport::{Flow, Node, Output, Time};
use std::net::SocketAddr;

/// What all workers of a run have in common.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Where requests go; `None`: callers call callees directly.
    pub(super) server: Option<SocketAddr>,
    pub(super) subscribers: Subscribers,
    pub(super) call: CallShape,
    /// Whether nonces are used again; otherwise every unit is challenged anew.
    pub(super) reuse_nonces: bool,
    /// Seconds that registrations ask for.
    pub(super) expires: u32,
    /// Units in progress beyond which none begins.
    pub(super) most: usize,
}

/// What the phones are told.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Register all phones, so many at a time.
    Populate(u32),
    /// Begin units from now on.
    Begin,
    /// Begin no more units.
    End,
    /// Tell the figures since the last time.
    Tell,
    /// Do this one thing.
    Do(Command),
}

/// What they tell.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) figures: Figures,
    /// Units in progress, and phones that are still to be registered.
    pub(super) in_progress: usize,
}

/// Units of one kind, and when they begin.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) kind: Kind,
    pub(super) arrivals: Arrivals,
}

/// What is under way.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) phone: u32,
    /// When it was to begin.
    pub(super) due: Time,
    /// When the request was due that is being answered.
    pub(super) asked: Time,
    pub(super) cseq: u32,
    pub(super) stage: Stage,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// OPTIONS, NOTIFY or REGISTER sent.
    Asked { kind: Kind, has_credentials: bool },
    Invited {
        callee: u32,
        has_credentials: bool,
        heard_100: bool,
        rang: bool,
    },
    /// Answered.
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
            _ => Kind::Call,
        }
    }
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alarm {
    /// The call of that number has been talked enough.
    HangUp(u64),
    /// The called phone lifts.
    Lift(u64),
    /// The 200 of that call has not been acknowledged.
    Repeat(u64),
}

/// Phones of one worker.
pub(super) struct Phones {
    pub(super) plan: Plan,
    pub(super) ports: Vec<Port>,
    pub(super) memories: Vec<Phone>,
    /// Number of the first of them.
    pub(super) first: u32,
    sources: Vec<Source>,
    /// When they began; `None`: nothing begins.
    begun: Option<Time>,
    /// The phone that registers next while all are registered, and how many may at a time.
    populating: Option<(u32, u32)>,
    pub(super) transactions: Transactions,
    pub(super) units: FxHashMap<u64, Unit>,
    pub(super) callees: Callees,
    pub(super) wheel: TimerWheel<Alarm>,
    pub(super) figures: Figures,
    /// Retransmissions that were told already.
    told_retransmissions: u64,
    /// Number of the next unit; what is above the counter tells runs and workers apart.
    next: u64,
    pub(super) turn: u32,
    events: Vec<Event>,
}

pub(super) type Out<'o> = &'o mut Output<Box<Told>>;

impl Phones {
    pub(super) fn new(
        plan: Plan,
        ports: Vec<Port>,
        (first, count): (u32, u32),
        sources: Vec<Source>,
        transactions: Transactions,
        (salt, now): (u64, Time),
    ) -> Self {
        Self {
            plan,
            ports,
            memories: vec![Phone::default(); count as usize],
            first,
            sources,
            begun: None,
            populating: None,
            transactions,
            units: FxHashMap::default(),
            callees: Callees::default(),
            wheel: TimerWheel::new(now),
            figures: Figures::default(),
            told_retransmissions: 0,
            next: salt << 40,
            turn: 0,
            events: Vec::new(),
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Where a phone is.
    pub(super) fn port_of(&self, phone: u32) -> &Port {
        &self.ports[(phone - self.first) as usize % self.ports.len()]
    }

    /// The next phone in turn.
    fn next_phone(&mut self) -> u32 {
        let place = self.turn % self.memories.len() as u32;
        self.turn = self.turn.wrapping_add(1);
        self.first + place
    }

    /// Begins all units that are due.
    fn begin_due(&mut self, now: Time, output: Out<'_>) {
        let Some(begun) = self.begun else { return };
        for place in 0..self.sources.len() {
            while let Some(due) = self.sources[place]
                .arrivals
                .peek()
                .map(|since| begun + since)
                && due <= now
            {
                self.sources[place].arrivals.advance();
                let kind = self.sources[place].kind;
                self.begin_unit(now, due, kind, output);
            }
        }
    }

    fn begin_unit(&mut self, now: Time, due: Time, kind: Kind, output: Out<'_>) {
        if self.units.len() >= self.plan.most {
            self.figures.ends_mut(kind).skipped += 1;
            return;
        }
        self.figures
            .record(Delay::Lateness, now.saturating_since(due));
        let phone = self.next_phone();
        match kind {
            Kind::Call => self.call(now, due, phone, output),
            kind => self.ask(now, due, kind, phone, output),
        }
    }

    fn populate(&mut self, now: Time, output: Out<'_>) {
        while let Some((next, at_a_time)) = self.populating
            && (self.units.len() as u32) < at_a_time
        {
            self.populating =
                (next + 1 < self.memories.len() as u32).then_some((next + 1, at_a_time));
            self.ask(now, now, Kind::Register, self.first + next, output);
        }
    }

    fn tell(&mut self, output: Out<'_>) {
        let retransmitted = self.transactions.stats().requests_retransmitted;
        self.figures.retransmissions_sent += retransmitted - self.told_retransmissions;
        self.told_retransmissions = retransmitted;
        let left = self
            .populating
            .map_or(0, |(next, _)| self.memories.len() - next as usize);
        output.ask(Box::new(Told {
            figures: std::mem::take(&mut self.figures),
            in_progress: self.units.len() + left,
        }));
    }

    /// A unit has come to a bad end.
    pub(super) fn fail(&mut self, number: u64, reason: &dyn std::fmt::Display) {
        if let Some(unit) = self.units.remove(&number) {
            self.figures.fail(unit.stage.kind(), reason);
        }
    }

    fn response(&mut self, now: Time, response: &Message<'_>, output: Out<'_>) {
        let Some(told) = self.transactions.receive_response(now, response, output) else {
            self.figures.late_messages += 1;
            return;
        };
        let Some(unit) = self.units.get(&told.owner) else {
            self.figures.late_messages += 1;
            return;
        };
        match unit.stage {
            Stage::Asked { .. } => self.answered(now, told.owner, response, output),
            _ => self.call_answered(now, told.owner, response, output),
        }
    }
}

impl Node for Phones {
    type Question = Box<Told>;
    type Answer = Order;

    fn receive(&mut self, now: Time, flow: Flow, bytes: &[u8], output: Out<'_>) {
        match Message::parse(bytes) {
            Ok(message) if message.is_request() => self.request(now, flow, &message, output),
            Ok(message) => self.response(now, &message, output),
            // Keep-alives and their answers.
            Err(_) if bytes.len() <= 4 => {}
            Err(_) => self.figures.nonsense += 1,
        }
        self.populate(now, output);
    }

    fn receive_handed_over(&mut self, now: Time, flow: Flow, bytes: &[u8], output: Out<'_>) {
        self.receive(now, flow, bytes, output);
    }

    fn undeliverable(&mut self, now: Time, _: Flow, bytes: &[u8], output: Out<'_>) {
        if let Some(client) = self.transactions.client_that_sent(bytes) {
            self.transactions.abandon_client(client.id);
            self.fail(client.owner, &"transport");
        }
        self.populate(now, output);
    }

    fn answer(&mut self, now: Time, order: Order, output: Out<'_>) {
        match order {
            Order::Populate(at_a_time) => {
                self.populating = Some((0, at_a_time));
                self.populate(now, output);
            }
            Order::Begin => {
                self.begun = Some(now);
                self.begin_due(now, output);
            }
            Order::End => self.begun = None,
            Order::Tell => self.tell(output),
            Order::Do(command) => self.command(now, command, output),
        }
    }

    fn expire(&mut self, now: Time, output: Out<'_>) {
        let mut events = std::mem::take(&mut self.events);
        self.transactions.expire(now, output, &mut events);
        for event in events.drain(..) {
            if let Event::ClientTimeout { owner, .. } = event {
                self.fail(owner, &"timeout");
            }
        }
        self.events = events;
        while let Some(alarm) = self.wheel.pop_due(now) {
            match alarm {
                Alarm::HangUp(number) => self.hang_up(now, number, output),
                Alarm::Lift(number) => self.lift(now, number, output),
                Alarm::Repeat(number) => self.repeat(now, number, output),
            }
        }
        self.callees.forget(now);
        self.begin_due(now, output);
        self.populate(now, output);
    }

    fn next_deadline(&self) -> Option<Time> {
        let begun = self.begun;
        let arrivals = self
            .sources
            .iter()
            .filter_map(|source| Some(begun? + source.arrivals.peek()?));
        let timers = [
            self.transactions.next_deadline(),
            self.wheel.next_deadline(),
        ];
        arrivals.chain(timers.into_iter().flatten()).min()
    }
}
