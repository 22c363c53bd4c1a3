//! Decodes packets to UDP datagrams and TCP segments, and segments to messages.

mod fragments;
mod half;
mod ip;
mod link;
mod streams;

pub use fragments::{FragmentKey, Fragments};
pub use half::Segment;
pub use ip::{Carried, IpPacket, NotIp};
pub use link::ip_of;
pub use streams::{Connection, Side, Streams};

use std::fmt;
use std::net::SocketAddr;

/// Transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Transport {
    /// The name in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// Source, destination and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Source address.
    pub source: SocketAddr,
    /// Destination address.
    pub destination: SocketAddr,
    /// Transport.
    pub transport: Transport,
}

impl Path {
    /// The opposite direction.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            transport: self.transport,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} {}",
            self.source,
            self.destination,
            self.transport.name()
        )
    }
}
