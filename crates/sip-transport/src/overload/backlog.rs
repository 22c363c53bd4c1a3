//! What waits while a driver is behind, and what is next.

use super::{Controller, OverloadSettings, Urgency};
use crate::flow::Flow;
use crate::node::Received;
use crate::time::Time;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// What a message costs beside its octets.
const OVERHEAD: usize = 128;

/// One of so many messages is a new request although others wait that come before it, so that a flood of made-up credentials, or of
/// made-up tags, shuts no caller out.
const SHARE_OF_NEW: u32 = 8;

/// The part of the room for requests that those of one source take at most in overload. What is served makes place at once, so it bounds
/// how much of a source waits, not how much of it is served.
const SHARE_OF_SOURCE: usize = 4;

/// Sources share counters: so many there are.
const COUNTERS: usize = 1_024;

/// Messages that must be served before one refusal may be sent over UDP, and for how many refusals that is remembered. What is
/// refused beyond that is dropped: an attacker gets little for his datagrams.
const SERVED_PER_REFUSAL: u32 = 2;
const MOST_REFUSALS: u32 = 1_000;

/// A message that waits.
#[derive(Debug)]
pub struct Waiting {
    arrived: Time,
    flow: Flow,
    handed_over: bool,
    over_our_connection: bool,
    /// Its sender does not send it again, so it needs an answer.
    reliable: bool,
    bytes: Vec<u8>,
}

impl Waiting {
    /// The message as it was received.
    pub fn received(&self) -> Received<'_> {
        Received {
            arrived: self.arrived,
            flow: self.flow,
            bytes: &self.bytes,
            handed_over: self.handed_over,
            over_our_connection: self.over_our_connection,
        }
    }

    fn cost(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }

    /// The counter of its source: an IPv4 address, or an IPv6 network of 64 bits.
    fn counter(&self) -> usize {
        let bits = match self.flow.remote.ip().to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        // Fibonacci hashing.
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTERS.ilog2())) as usize
    }
}

/// Why a request was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// Refuse it: its sender still waits.
    Refused,
    /// Over UDP it has been sent again meanwhile, and the newer one has its own chance.
    TooOld,
    /// Too many were refused lately.
    TooMany,
    /// There was no room, or it was more than the share of its source.
    NoRoom,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Refused, Self::TooOld, Self::TooMany, Self::NoRoom];

    /// The label of a metric.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TooOld => "too_old",
            Self::TooMany => "too_many",
            Self::NoRoom => "no_room",
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub enum Taken {
    /// Serve it.
    Serve(Waiting),
    /// Give it up.
    Shed(Waiting, Shed),
}

/// Messages in the order in which they are served.
#[derive(Debug)]
pub struct Backlog {
    controller: Controller,
    t1: Duration,
    most_bytes: usize,
    first: VecDeque<Waiting>,
    proven: VecDeque<Waiting>,
    new: VecDeque<Waiting>,
    bytes: usize,
    /// Those of new and proven requests.
    request_bytes: usize,
    /// The same by the counter of their source.
    source_bytes: Box<[usize]>,
    /// Messages of calls that exist served since a request was.
    first_in_a_row: u32,
    /// Proven requests served since a new one was.
    proven_in_a_row: u32,
    /// Messages served for which no refusal was sent.
    credit: u32,
}

impl Backlog {
    /// An empty one.
    pub fn new(settings: &OverloadSettings) -> Self {
        Self {
            controller: Controller::new(settings),
            t1: settings.t1,
            most_bytes: settings.most_bytes,
            first: VecDeque::new(),
            proven: VecDeque::new(),
            new: VecDeque::new(),
            bytes: 0,
            request_bytes: 0,
            source_bytes: vec![0; COUNTERS].into(),
            first_in_a_row: 0,
            proven_in_a_row: 0,
            credit: MOST_REFUSALS * SERVED_PER_REFUSAL,
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.proven.is_empty() && self.new.is_empty()
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.first.len() + self.proven.len() + self.new.len()
    }

    /// What they cost.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether more may be put in. If not, it has to wait where it is.
    pub const fn has_room(&self) -> bool {
        self.bytes < self.most_bytes
    }

    /// Whether requests are given up.
    pub const fn is_overloaded(&self) -> bool {
        self.controller.is_overloaded()
    }

    /// Puts a message in. Requests take half of the room at most, and in overload those of one source a quarter of that: the oldest make
    /// way, or the new one of that source does not get in. What makes way goes to `shed`.
    pub fn push(
        &mut self,
        urgency: Urgency,
        message: Received<'_>,
        reliable: bool,
        mut shed: impl FnMut(Waiting, Shed),
    ) {
        let waiting = Waiting {
            arrived: message.arrived,
            flow: message.flow,
            handed_over: message.handed_over,
            over_our_connection: message.over_our_connection,
            reliable,
            bytes: message.bytes.to_vec(),
        };
        let cost = waiting.cost();
        if urgency == Urgency::First {
            self.bytes += cost;
            return self.first.push_back(waiting);
        }
        let without_room = |waiting: &Waiting| {
            if waiting.reliable {
                Shed::Refused
            } else {
                Shed::NoRoom
            }
        };
        let room = self.most_bytes / 2;
        let is_overloaded = self.is_overloaded();
        if let Some(of_source) = self.source_bytes.get_mut(waiting.counter()) {
            if is_overloaded && *of_source + cost > room / SHARE_OF_SOURCE {
                let reason = without_room(&waiting);
                return shed(waiting, reason);
            }
            *of_source += cost;
        }
        self.bytes += cost;
        self.request_bytes += cost;
        match urgency {
            Urgency::Proven => self.proven.push_back(waiting),
            _ => self.new.push_back(waiting),
        }
        while self.request_bytes > room {
            let oldest = self.new.pop_front().or_else(|| self.proven.pop_front());
            let Some(oldest) = oldest else { return };
            self.forget(&oldest);
            let reason = without_room(&oldest);
            shed(oldest, reason);
        }
    }

    /// What is next; `None` when nothing waits.
    pub fn take(&mut self, now: Time) -> Option<Taken> {
        let is_turn_of_requests = self.first_in_a_row >= SHARE_OF_NEW && self.request_bytes > 0;
        if !is_turn_of_requests && let Some(message) = self.first.pop_front() {
            self.first_in_a_row += 1;
            self.bytes -= message.cost();
            self.earn();
            return Some(Taken::Serve(message));
        }
        self.first_in_a_row = 0;
        if self.is_overloaded()
            && let Some(given_up) = self.give_up(now)
        {
            return Some(given_up);
        }
        let request = self.take_request()?;
        self.forget(&request);
        self.earn();
        Some(Taken::Serve(request))
    }

    /// What was taken has been served: is it overload, by what still waits?
    pub fn observe(&mut self, now: Time) {
        let oldest = [self.proven.front(), self.new.front()];
        let oldest = oldest.into_iter().flatten().map(|it| it.arrived).min();
        let longest = oldest.map_or(Duration::ZERO, |arrived| now - arrived);
        self.controller.observe(now, longest);
    }

    /// The oldest request, where it has waited so long that its turn will not come. That is decided before its sender sends it
    /// again, so that no refusal crosses with a retransmission.
    fn give_up(&mut self, now: Time) -> Option<Taken> {
        let t1 = self.t1;
        let is_late = |waiting: &Waiting| now - waiting.arrived > t1 / 2;
        let lanes = [&mut self.new, &mut self.proven];
        let late = lanes
            .into_iter()
            .find(|lane| lane.front().is_some_and(is_late))?
            .pop_front()?;
        self.forget(&late);
        let reason = if late.reliable {
            Shed::Refused
        } else if now - late.arrived >= t1 / 8 * 7 {
            // A refusal might cross with the retransmission.
            Shed::TooOld
        } else if self.spend() {
            Shed::Refused
        } else {
            Shed::TooMany
        };
        Some(Taken::Shed(late, reason))
    }

    /// In overload the newest goes first: it is the one whose sender waits for certain, while the oldest is given up soon anyhow.
    fn take_request(&mut self) -> Option<Waiting> {
        let is_overloaded = self.is_overloaded();
        let next = |lane: &mut VecDeque<Waiting>| {
            if is_overloaded {
                lane.pop_back()
            } else {
                lane.pop_front()
            }
        };
        if self.proven_in_a_row >= SHARE_OF_NEW || self.proven.is_empty() {
            self.proven_in_a_row = 0;
            if let Some(request) = next(&mut self.new) {
                return Some(request);
            }
        }
        self.proven_in_a_row += 1;
        next(&mut self.proven)
    }

    /// A request is no longer here.
    fn forget(&mut self, request: &Waiting) {
        let cost = request.cost();
        self.bytes -= cost;
        self.request_bytes -= cost;
        if let Some(of_source) = self.source_bytes.get_mut(request.counter()) {
            *of_source -= cost;
        }
    }

    fn earn(&mut self) {
        self.credit = (self.credit + 1).min(MOST_REFUSALS * SERVED_PER_REFUSAL);
    }

    fn spend(&mut self) -> bool {
        let rest = self.credit.checked_sub(SERVED_PER_REFUSAL);
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }
}
