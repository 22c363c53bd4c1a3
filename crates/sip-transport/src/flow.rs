//! Listeners and flows: where a message came from and where it goes.

use std::net::{IpAddr, SocketAddr};

/// The transport protocols of RFC 3261 section 18 and RFC 7118.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Datagrams. The only unreliable transport: transactions retransmit over it.
    Udp,
    /// Plain streams.
    Tcp,
    /// Streams over TLS.
    Tls,
    /// Plain WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Protocol {
    /// All protocols.
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

    /// The protocol that a `transport` parameter or a Via names, in any case.
    pub fn from_token(token: &[u8]) -> Option<Self> {
        let is_named = |it: &Self| it.via_token().as_bytes().eq_ignore_ascii_case(token);
        Self::ALL.into_iter().find(is_named)
    }

    /// Whether the transport delivers reliably, so that transactions need not retransmit.
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether the transport is encrypted (TLS).
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The default port if a URI or Via has none.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

/// Identifies one of the node's listeners: its index in the configured list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u16);

/// Identifies a stream connection of the process, and the worker that owns it. Identifiers are unique within a process, unless
/// thousands of connections have been opened and closed in between. The peer's address in the flow reveals the use of an outdated
/// identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    worker: u16,
    /// Slot and generation; 0: no connection.
    slot: u32,
}

impl ConnectionId {
    /// No connection: datagrams, or a stream to the remote address, which is opened if necessary.
    pub const NONE: Self = Self { worker: 0, slot: 0 };

    /// The connection that the worker knows as `slot`, which must not be 0.
    pub const fn new(worker: u16, slot: u32) -> Self {
        Self { worker, slot }
    }

    /// The worker that owns it.
    pub const fn worker(self) -> u16 {
        self.worker
    }

    /// The owner's number for it.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Whether this identifies a connection.
    pub const fn is_some(self) -> bool {
        self.slot != 0
    }
}

/// The path between the node and one peer. A response goes back through the flow of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The local end.
    pub listener: ListenerId,
    /// The connection, for stream transports. A message for a connection that has ended is undeliverable. No new connection
    /// replaces it, because the peer may be behind NAT.
    pub connection: ConnectionId,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl Flow {
    /// A flow from a listener to an address: datagrams, or a stream over the existing connection to that address, opened if there
    /// is none.
    pub const fn to(listener: ListenerId, remote: SocketAddr) -> Self {
        Self {
            listener,
            connection: ConnectionId::NONE,
            remote,
        }
    }
}

/// One of the node's own addresses. It is never a wildcard address: the caller of the runtime expands a wildcard into one
/// listener for each address of the machine before it builds the node.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Where the socket is bound.
    pub address: SocketAddr,
    /// Length of the interface's network prefix in bits, used to choose a listener for a destination.
    pub prefix_length: u8,
    /// The value for Via and Record-Route: `host` or `host:port`, IPv6 in brackets.
    pub advertised: String,
    /// Whether a balancer in front sends the client's address on each connection (PROXY protocol, version 2).
    pub behind_balancer: bool,
}

impl Listener {
    /// Whether `address` is in the network that this listener is attached to.
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
