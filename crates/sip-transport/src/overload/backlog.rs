//! The queue of messages while a driver is behind, and which message is served next.

use super::{Controller, OverloadSettings, Urgency};
use crate::flow::Flow;
use crate::node::Received;
use crate::time::Time;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// The cost of a message in addition to its bytes.
const OVERHEAD: usize = 128;

/// After this many messages from a more urgent queue, the next queue is served once. A flood of made-up credentials or tags
/// therefore cannot starve other callers.
const SHARE_OF_NEW: u32 = 8;

/// In overload, one source may use one part in this many of the room for requests. Serving a request frees its room, so this
/// limits how much of a source waits, not how much of it is served.
const SHARE_OF_SOURCE: usize = 4;

/// Number of counters that the sources share.
const COUNTERS: usize = 1_024;

/// Number of messages to serve before one refusal may be sent over UDP, and the most refusals that can be saved up. Further
/// requests are dropped, so that an attacker gains little from its datagrams.
const SERVED_PER_REFUSAL: u32 = 2;
const MAX_REFUSALS: u32 = 1_000;

/// A message in the queue.
#[derive(Debug)]
pub struct Waiting {
    arrived: Time,
    flow: Flow,
    handed_over: bool,
    over_our_connection: bool,
    /// Over a reliable transport the sender does not retransmit, so it needs a response.
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

    /// The counter of its source: an IPv4 address, or an IPv6 /64.
    fn counter(&self) -> usize {
        let bits = match self.flow.remote.ip().to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        // Fibonacci hashing.
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTERS.ilog2())) as usize
    }
}

/// Why a request is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// Rejected: its sender still waits.
    Refused,
    /// Dropped: over UDP the sender has retransmitted it, and the newer copy has its own chance.
    TooOld,
    /// Dropped: too many requests were refused recently.
    TooMany,
    /// Dropped: there is no room, or its source exceeds its share.
    NoRoom,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Refused, Self::TooOld, Self::TooMany, Self::NoRoom];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TooOld => "too_old",
            Self::TooMany => "too_many",
            Self::NoRoom => "no_room",
        }
    }
}

/// What to do with the next message.
#[derive(Debug)]
pub enum Taken {
    /// Serve it.
    Serve(Waiting),
    /// Shed it.
    Shed(Waiting, Shed),
}

/// Waiting messages, in the order in which they are served.
#[derive(Debug)]
pub struct Backlog {
    controller: Controller,
    t1: Duration,
    most_bytes: usize,
    first: VecDeque<Waiting>,
    proven: VecDeque<Waiting>,
    new: VecDeque<Waiting>,
    bytes: usize,
    /// Bytes of new and proven requests.
    request_bytes: usize,
    /// Bytes of requests by the counter of their source.
    source_bytes: Box<[usize]>,
    /// Messages of existing calls served since the last request.
    first_in_a_row: u32,
    /// Proven requests served since the last new one.
    proven_in_a_row: u32,
    /// Messages served that no refusal has used up.
    credit: u32,
}

impl Backlog {
    /// Creates an empty backlog.
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
            credit: MAX_REFUSALS * SERVED_PER_REFUSAL,
        }
    }

    /// Whether the backlog is empty.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.proven.is_empty() && self.new.is_empty()
    }

    /// The number of waiting messages.
    pub fn len(&self) -> usize {
        self.first.len() + self.proven.len() + self.new.len()
    }

    /// Their cost in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is room for more messages. If not, they have to wait where they are.
    pub const fn has_room(&self) -> bool {
        self.bytes < self.most_bytes
    }

    /// Whether requests are being shed.
    pub const fn is_overloaded(&self) -> bool {
        self.controller.is_overloaded()
    }

    /// Adds a message. Requests use at most half of the room, and in overload those of one source at most a quarter of that. If
    /// there is no room, the oldest requests are evicted. A request beyond the share of its source is not added. Either goes to
    /// `shed`.
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

    /// Takes the next message; `None` if none waits.
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

    /// Updates the overload state after serving, from the requests that still wait.
    pub fn observe(&mut self, now: Time) {
        let oldest = oldest([&self.proven, &self.new]);
        let longest = oldest.map_or(Duration::ZERO, |arrived| now - arrived);
        self.controller.observe(now, longest);
    }

    /// Arrival time of the message that has waited longest; `None` if none waits.
    pub fn oldest(&self) -> Option<Time> {
        oldest([&self.first, &self.proven, &self.new])
    }

    /// Takes the oldest request if it has waited so long that it will not be served. This is decided before its sender
    /// retransmits, so that a refusal does not cross with a retransmission.
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
            // A refusal could cross with the retransmission.
            Shed::TooOld
        } else if self.spend() {
            Shed::Refused
        } else {
            Shed::TooMany
        };
        Some(Taken::Shed(late, reason))
    }

    /// In overload the newest request goes first. Its sender certainly still waits, while the oldest is soon shed anyway.
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

    /// Subtracts a request that has left the queue.
    fn forget(&mut self, request: &Waiting) {
        let cost = request.cost();
        self.bytes -= cost;
        self.request_bytes -= cost;
        if let Some(of_source) = self.source_bytes.get_mut(request.counter()) {
            *of_source -= cost;
        }
    }

    fn earn(&mut self) {
        self.credit = (self.credit + 1).min(MAX_REFUSALS * SERVED_PER_REFUSAL);
    }

    fn spend(&mut self) -> bool {
        let rest = self.credit.checked_sub(SERVED_PER_REFUSAL);
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }
}

/// Arrival time of the message that has waited longest in these queues.
fn oldest<const N: usize>(lanes: [&VecDeque<Waiting>; N]) -> Option<Time> {
    let oldest = lanes.into_iter().filter_map(VecDeque::front);
    oldest.map(|waiting| waiting.arrived).min()
}
