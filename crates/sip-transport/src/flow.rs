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

/// Names a stream connection of this worker; `DATAGRAM` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// The flow runs over datagrams.
    pub const DATAGRAM: Self = Self(0);
}

/// The path between us and one peer: answers go back through the flow their request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Our end.
    pub listener: ListenerId,
    /// The connection, for stream transports.
    pub connection: ConnectionId,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl Flow {
    /// A flow of datagrams between a listener and a peer.
    pub const fn datagram(listener: ListenerId, remote: SocketAddr) -> Self {
        Self {
            listener,
            connection: ConnectionId::DATAGRAM,
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
