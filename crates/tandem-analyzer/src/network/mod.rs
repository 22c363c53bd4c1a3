//! From the octets of a packet to UDP datagrams and TCP segments, and from segments to messages.

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

/// What a message went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
}

impl Transport {
    /// As exports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Who sent.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// Over what.
    pub transport: Transport,
}

impl Path {
    /// The way back.
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
