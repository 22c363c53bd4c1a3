//! The addresses of the server, and the direction of messages.

use crate::network::Path;
use sip_message::{Host, Via};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// An address of the server, with one port or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The address.
    pub address: IpAddr,
    /// The port; `None` means all.
    pub port: Option<u16>,
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Ok(Self {
                address,
                port: None,
            });
        }
        let with_port: SocketAddr = text.parse().map_err(|_| {
            "use an IP address, with or without a port: 192.0.2.1, 192.0.2.1:5060, 2001:db8::1, [2001:db8::1]:5060"
                .to_owned()
        })?;
        Ok(Self {
            address: with_port.ip(),
            port: Some(with_port.port()),
        })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl ServerAddress {
    fn is(&self, end: SocketAddr) -> bool {
        self.address == end.ip() && self.port.is_none_or(|port| port == end.port())
    }

    /// Whether this sent-by names the address. The default port is 5060, or 5061 with TLS (RFC 3261 section 18.2.2).
    fn is_named(&self, via: &Via<'_>) -> bool {
        let named = matches!(via.host, Host::Address(address) if address == self.address);
        named
            && self
                .port
                .is_none_or(|port| port == via.port.unwrap_or(5060))
    }
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the server.
    In,
    /// From the server.
    Out,
    /// Between two addresses of the server.
    Internal,
    /// Neither to nor from the server.
    Foreign,
}

impl Direction {
    /// The name in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Internal => "internal",
            Self::Foreign => "foreign",
        }
    }
}

/// All addresses of the server.
#[derive(Clone, Debug)]
pub struct Servers(Vec<ServerAddress>);

impl Servers {
    /// A server with these addresses.
    pub fn new(addresses: Vec<ServerAddress>) -> Self {
        Self(addresses)
    }

    /// The addresses.
    pub fn addresses(&self) -> &[ServerAddress] {
        &self.0
    }

    /// The direction of a message with this source and destination.
    pub fn direction(&self, path: &Path) -> Direction {
        let is_server = |end: SocketAddr| self.0.iter().any(|address| address.is(end));
        match (is_server(path.source), is_server(path.destination)) {
            (false, true) => Direction::In,
            (true, false) => Direction::Out,
            (true, true) => Direction::Internal,
            (false, false) => Direction::Foreign,
        }
    }

    /// The direction of a message whose addresses do not tell, for example on a connection that the server opened from another port. The
    /// topmost Via of a request names its sender, that of a response its receiver.
    pub fn direction_by_via(&self, via: &Via<'_>, is_request: bool) -> Option<Direction> {
        let names_server = self.0.iter().any(|address| address.is_named(via));
        names_server.then_some(if is_request {
            Direction::Out
        } else {
            Direction::In
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Transport;

    fn servers(addresses: &[&str]) -> Servers {
        Servers::new(addresses.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn direction(servers: &Servers, source: &str, destination: &str) -> Direction {
        servers.direction(&Path {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            transport: Transport::Udp,
        })
    }

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (text, port) in [
            ("192.0.2.1", None),
            ("192.0.2.1:5060", Some(5060)),
            ("2001:db8::1", None),
            ("[2001:db8::1]", None),
            ("[2001:db8::1]:5070", Some(5070)),
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().port, port, "{text}");
        }
        for text in [
            "",
            "sip.example.org",
            "192.0.2.1:",
            "192.0.2.1:99999",
            "[::1",
        ] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_ends_of_a_path_tell_the_direction() {
        let loopback = servers(&["127.0.0.1:5060"]);
        assert_eq!(
            direction(&loopback, "127.0.0.1:7000", "127.0.0.1:5060"),
            Direction::In
        );
        assert_eq!(
            direction(&loopback, "127.0.0.1:5060", "127.0.0.1:7000"),
            Direction::Out
        );
        assert_eq!(
            direction(&loopback, "127.0.0.1:7000", "127.0.0.1:7001"),
            Direction::Foreign
        );
        let any_port = servers(&["192.0.2.1", "2001:db8::1"]);
        assert_eq!(
            direction(&any_port, "192.0.2.1:40000", "192.0.2.9:5060"),
            Direction::Out
        );
        assert_eq!(
            direction(&any_port, "[2001:db8::9]:1", "[2001:db8::1]:2"),
            Direction::In
        );
        assert_eq!(
            direction(&any_port, "192.0.2.1:1", "192.0.2.1:2"),
            Direction::Internal
        );
    }

    #[test]
    fn via_tells_the_direction_where_addresses_do_not() {
        let servers = servers(&["192.0.2.1:5060"]);
        let via = |text: &'static str| Via::parse(text.as_bytes()).unwrap();
        for ours in [
            "SIP/2.0/TCP 192.0.2.1:5060;branch=a",
            "SIP/2.0/TCP 192.0.2.1",
        ] {
            assert_eq!(
                servers.direction_by_via(&via(ours), true),
                Some(Direction::Out)
            );
            assert_eq!(
                servers.direction_by_via(&via(ours), false),
                Some(Direction::In)
            );
        }
        for other in [
            "SIP/2.0/TCP 192.0.2.1:5070",
            "SIP/2.0/TCP h",
            "SIP/2.0/TCP 192.0.2.2",
        ] {
            assert_eq!(servers.direction_by_via(&via(other), true), None, "{other}");
        }
    }
}
