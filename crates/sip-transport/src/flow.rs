//! Where a message came from and where one goes: listeners and flows.

use std::net::{IpAddr, SocketAddr};

/// The transport protocols of RFC 3261 section 18 and RFC 7118.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Datagrams; the only unreliable one: transactions retransmit over it.
    Udp,
    /// Streams in the clear.
    Tcp,
    /// Streams over TLS.
    Tls,
    /// WebSocket in the clear.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// The token in a Via header field, in upper case.
    pub const fn via_token(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// Whether the transport delivers by itself, so that transactions need not retransmit.
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether nobody on the way can read along: TLS below.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The port when a URI or Via names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

/// Names one of the node's listeners: its place in the configured list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u16);

/// Names a stream connection of the process and its one owner, a worker. No two connections of a process have the same
/// name, unless thousands came and went in between; whoever uses an old one is told by the peer's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    worker: u16,
    /// Place and number of use; 0: no connection.
    slot: u32,
}

impl ConnectionId {
    /// No connection: datagrams, or a stream to whoever is at the remote address, opened where there is none.
    pub const NONE: Self = Self { worker: 0, slot: 0 };

    /// The connection that the worker calls `slot`, which is not 0.
    pub const fn new(worker: u16, slot: u32) -> Self {
        Self { worker, slot }
    }

    /// The worker that owns it.
    pub const fn worker(self) -> u16 {
        self.worker
    }

    /// What its owner calls it.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Whether it names a connection.
    pub const fn is_some(self) -> bool {
        self.slot != 0
    }
}

/// The path between us and one peer: answers go back through the flow their request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Our end.
    pub listener: ListenerId,
    /// The connection, for stream transports. A message for a connection that is no more is undeliverable: none is opened in its
    /// place, the peer may be behind a translator.
    pub connection: ConnectionId,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl Flow {
    /// From a listener to an address: datagrams, or a stream over the connection that leads there, opened where there is none.
    pub const fn to(listener: ListenerId, remote: SocketAddr) -> Self {
        Self {
            listener,
            connection: ConnectionId::NONE,
            remote,
        }
    }
}

/// One of our own addresses. A wildcard address never appears here: the runtime's caller expands
/// it into one listener for each address of the machine before the node is built.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Which transport it speaks.
    pub protocol: Protocol,
    /// Where the socket is bound.
    pub address: SocketAddr,
    /// Length of the network prefix of the interface, to choose a listener for a destination.
    pub prefix_length: u8,
    /// What goes into Via and Record-Route: `host` or `host:port`, IPv6 in brackets.
    pub advertised: String,
    /// A balancer stands before it, which says with each connection who is connected (PROXY protocol, version 2).
    pub behind_balancer: bool,
}

impl Listener {
    /// Whether `address` lies in the network this listener is attached to.
    pub fn reaches_directly(&self, address: IpAddr) -> bool {
        fn share_prefix(a: &[u8], b: &[u8], bits: u8) -> bool {
            let whole = usize::from(bits / 8).min(a.len());
            let rest = bits % 8;
            a.iter().zip(b).take(whole).all(|(x, y)| x == y)
                && (rest == 0
                    || a.get(whole)
                        .zip(b.get(whole))
                        .is_none_or(|(x, y)| (x ^ y) >> (8 - rest) == 0))
        }
        match (self.address.ip(), address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                share_prefix(&own.octets(), &other.octets(), self.prefix_length)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                share_prefix(&own.octets(), &other.octets(), self.prefix_length)
            }
            _ => false,
        }
    }
}
