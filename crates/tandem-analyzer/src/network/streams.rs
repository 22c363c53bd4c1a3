//! TCP connections (RFC 9293): reorders the bytes of both sides, and finds the SIP messages in them.
//!
//! Segments may arrive out of order, repeated and overlapping, and some may not have been captured. A connection may have begun before
//! the capture. Then its first message is the first one that begins with a segment. Bytes that cannot be followed are skipped until a
//! message begins again, and counted.

use super::Path;
use super::half::{Bytes, Half, Segment};
use crate::capture::Moment;
use crate::counters::{Counter, Counters};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end with the lower address.
    Lower,
    /// The other one.
    Higher,
}

impl Side {
    /// The end that sent a packet with this path.
    pub fn sender(path: &Path) -> Self {
        if path.source <= path.destination {
            Self::Lower
        } else {
            Self::Higher
        }
    }

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Lower => Self::Higher,
            Self::Higher => Self::Lower,
        }
    }
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// The bytes that each side sent.
    halves: [Half; 2],
    /// The end that is known to be the server's, if the addresses do not tell.
    pub server: Option<Side>,
    /// Whether it was used since it was last considered for eviction.
    used: bool,
}

type Key = (SocketAddr, SocketAddr);

/// All connections.
#[derive(Debug)]
pub struct Streams {
    connections: HashMap<Key, Connection>,
    /// The order of eviction.
    order: VecDeque<Key>,
    most: usize,
    /// Waiting bytes in all connections.
    waiting: Bytes,
}

impl Streams {
    /// For `most` connections, and `most_bytes` waiting bytes.
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            connections: HashMap::new(),
            order: VecDeque::new(),
            most: most.max(1),
            waiting: Bytes::new(most_bytes),
        }
    }

    /// Processes a segment. Passes each message that it completes to `take`, with its path and the packet that completed it. An
    /// acknowledgment may complete messages of the other side that waited for segments that were not captured.
    pub fn segment(
        &mut self,
        path: &Path,
        segment: Segment<'_>,
        counters: &mut Counters,
        mut take: impl FnMut(&[u8], Moment, &Path, &mut Option<Side>, &mut Counters),
    ) {
        let side = Side::sender(path);
        let key = match side {
            Side::Lower => (path.source, path.destination),
            Side::Higher => (path.destination, path.source),
        };
        if segment.rst {
            self.forget(&key);
            return;
        }
        if !self.connections.contains_key(&key) {
            if segment.payload.is_empty() && !segment.syn {
                return;
            }
            self.make_room(counters);
            self.connections.insert(key, Connection::default());
            self.order.push_back(key);
        }
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.used = true;
        let Connection { halves, server, .. } = connection;
        let [lower, higher] = halves;
        let (own, other) = match side {
            Side::Lower => (lower, higher),
            Side::Higher => (higher, lower),
        };
        if let Some(acknowledged) = segment.acknowledgment {
            let back = path.reversed();
            let mut take = |bytes: &[u8], moment: Moment, counters: &mut Counters| {
                take(bytes, moment, &back, server, counters);
            };
            other.acknowledged(acknowledged, &mut self.waiting, counters, &mut take);
        }
        let mut take = |bytes: &[u8], moment: Moment, counters: &mut Counters| {
            take(bytes, moment, path, server, counters);
        };
        own.segment(&segment, &mut self.waiting, counters, &mut take);
        if own.is_finished() && other.is_finished() {
            self.forget(&key);
        }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Waiting bytes.
    pub fn waiting(&self) -> usize {
        self.waiting.used()
    }

    /// Evicts the least recently used connections if there is no room.
    fn make_room(&mut self, counters: &mut Counters) {
        // Ended connections leave their entries in the order, which is at most twice as long as the table.
        while self.connections.len() >= self.most || self.order.len() >= self.most * 2 {
            let Some(key) = self.order.pop_front() else {
                return;
            };
            match self.connections.get_mut(&key) {
                None => {}
                Some(connection) if connection.used => {
                    connection.used = false;
                    self.order.push_back(key);
                }
                Some(_) => {
                    self.forget(&key);
                    counters.add(Counter::TcpForgotten, 1);
                }
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(connection) = self.connections.remove(key) {
            for half in connection.halves {
                half.release(&mut self.waiting);
            }
        }
    }
}
