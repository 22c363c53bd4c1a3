//! What the edge knows about the health of one node. All workers write it, and worker 0 decides.

use sip_transport::{Counter, Time};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

/// Messages of a busy node do not write [`Health::heard`] more often than this, because all workers share it.
const COARSE: Duration = Duration::from_millis(50);

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeState {
    /// It has not answered a probe yet.
    Unknown,
    /// It answers.
    Alive,
    /// It answers probes with 503: it drains, or it is not ready. It gets no new calls.
    Unavailable,
    /// It has not answered in time. Its calls go to other nodes.
    Dead,
}

impl NodeState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Alive, Self::Unavailable, Self::Dead];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Alive => "alive",
            Self::Unavailable => "unavailable",
            Self::Dead => "dead",
        }
    }
}

/// The health of a node, and the requests that it got.
#[derive(Debug)]
pub struct Health {
    state: AtomicU8,
    /// When the node last proved that it lives, in microseconds.
    heard: AtomicU64,
    /// The address at which the node sees this edge: the halves of the IPv6 address, and the port, 0 if unknown. A reader may see parts of two
    /// addresses: the node then takes one probe for a copy.
    seen_at: ([AtomicU64; 2], AtomicU16),
    /// By worker.
    requests: Box<[Requests]>,
}

/// The requests that a node got from one worker. Workers on different processors must not write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Requests {
    all: Counter,
    /// Of these, requests without a hint: new calls and registrations.
    unhinted: Counter,
}

impl Health {
    /// A node that has not answered yet.
    pub(crate) fn new(workers: u16) -> Self {
        Self {
            state: AtomicU8::new(NodeState::Unknown as u8),
            heard: AtomicU64::new(0),
            seen_at: Default::default(),
            requests: (0..workers).map(|_| Requests::default()).collect(),
        }
    }

    /// The current state.
    pub fn state(&self) -> NodeState {
        let state = self.state.load(Ordering::Relaxed);
        NodeState::ALL
            .get(usize::from(state))
            .copied()
            .unwrap_or(NodeState::Unknown)
    }

    /// The requests that the node got from this edge.
    pub fn requests(&self) -> u64 {
        self.requests.iter().map(|it| it.all.value()).sum()
    }

    /// The requests that the node got because of the hash of their Call-ID.
    pub fn unhinted(&self) -> u64 {
        self.requests.iter().map(|it| it.unhinted.value()).sum()
    }

    pub(crate) fn count(&self, worker: u16, is_hinted: bool) {
        let Some(requests) = self.requests.get(usize::from(worker)) else {
            return;
        };
        requests.all.increment();
        if !is_hinted {
            requests.unhinted.increment();
        }
    }

    /// The node has sent something that only it can have sent.
    pub(crate) fn heard(&self, now: Time) {
        let last = Time::from_micros(self.heard.load(Ordering::Relaxed));
        if now - last > COARSE {
            self.heard.store(now.as_micros(), Ordering::Relaxed);
        }
        if matches!(self.state(), NodeState::Dead) {
            self.set(NodeState::Alive);
        }
    }

    /// When the node was last heard.
    pub(crate) fn last_heard(&self) -> Time {
        Time::from_micros(self.heard.load(Ordering::Relaxed))
    }

    /// The node sees this edge at this address.
    pub(crate) fn saw_us_at(&self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let ([high, low], port) = &self.seen_at;
        high.store((ip >> 64) as u64, Ordering::Relaxed);
        low.store(ip as u64, Ordering::Relaxed);
        port.store(address.port(), Ordering::Relaxed);
    }

    /// The address at which the node sees this edge.
    pub(crate) fn seen_at(&self) -> Option<SocketAddr> {
        let ([high, low], port) = &self.seen_at;
        let [high, low] = [high, low].map(|half| u128::from(half.load(Ordering::Relaxed)));
        let ip = IpAddr::from(Ipv6Addr::from_bits(high << 64 | low)).to_canonical();
        let port = port.load(Ordering::Relaxed);
        (port != 0).then_some(SocketAddr::new(ip, port))
    }

    /// Changes the state. Returns whether it was another one.
    pub(crate) fn set(&self, state: NodeState) -> bool {
        self.state.swap(state as u8, Ordering::Relaxed) != state as u8
    }
}
