//! Target selection (RFC 3263): from the host part of a URI to the protocols, addresses and ports to try, best first.
//!
//! This module sends no DNS queries. [`Selection`] returns the records that it needs as a [`Step`], takes the records, and
//! returns the next step:
//!
//! ```text
//! begin() ── neither port nor transport ──▶ Naptr ──▶ naptr() ──┐
//!    │──────── transport, no port ─────────────────────────────▶ Srv ──▶ srv() ──┐
//!    └──────── port ────────────────────────────────────────────────────────────▶ Addresses ──▶ addresses()
//! ```
//! Randomness is an argument. With the same number for all requests of a call, all of them get the same order while the records
//! are the same: the ACK goes where the INVITE went.

mod length;
mod naptr;
mod reach;
mod srv;

#[cfg(test)]
mod tests;

pub use length::{MAX_OVER_UDP, prefers_stream, streams_first};
pub use naptr::Naptr;
pub use reach::Reach;
pub use srv::Srv;

use crate::Protocol;
use sip_message::{Host, Scheme, Uri};
use std::net::{IpAddr, SocketAddr};

/// The maximum number of candidates of one selection.
pub const MAX_CANDIDATES: usize = 32;

/// The parts of a URI that say where it leads: RFC 3263's TARGET, port and transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// `maddr`, else the host: a name, or an address as written in a URI.
    pub host: Box<str>,
    /// The port, if the URI has one.
    pub port: Option<u16>,
    /// The protocol of the `transport` parameter, if the URI has one.
    pub protocol: Option<Protocol>,
    /// Whether the URI is a `sips` URI, which requires TLS.
    pub secure: bool,
}

/// One way to reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The protocol to speak.
    pub protocol: Protocol,
    /// The address and port.
    pub address: SocketAddr,
}

/// The records that a [`Selection`] needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The NAPTR records of a name; continue with [`Selection::naptr`].
    Naptr(Box<str>),
    /// The SRV records of these services; continue with [`Selection::srv`].
    Srv(Vec<Service>),
    /// The A and AAAA records of these servers; continue with [`Selection::addresses`]. If empty, the destination is unreachable.
    Addresses(Vec<Server>),
}

/// A service with SRV records, such as `_sip._udp.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of its SRV records.
    pub name: Box<str>,
    /// The protocol of its servers.
    pub protocol: Protocol,
}

/// A server whose addresses are not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// The selection for one destination.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'d> {
    destination: &'d Destination,
    reach: Reach,
}

impl Destination {
    /// Where a URI leads: `maddr`, else the host; `transport`; the port (section 4). `None` if it is neither a SIP nor a SIPS URI, or if it
    /// names an unknown transport or a host that is not UTF-8.
    pub fn of_uri(uri: &Uri<'_>) -> Option<Self> {
        let secure = match uri.scheme {
            Scheme::Sip => false,
            Scheme::Sips => true,
            Scheme::Tel | Scheme::Other(_) => return None,
        };
        let protocol = match uri.params.value(b"transport") {
            None => None,
            Some(token) => Some(Protocol::from_token(token)?),
        };
        let host = uri.params.value(b"maddr").unwrap_or(uri.host_bytes);
        Some(Self {
            host: std::str::from_utf8(host).ok()?.into(),
            port: uri.port,
            protocol,
            secure,
        })
    }

    /// The address, if the host is one and needs no lookup.
    pub fn literal(&self) -> Option<IpAddr> {
        match Host::parse(self.host.as_bytes()) {
            Some(Host::Address(address)) => Some(address),
            _ => None,
        }
    }

    fn protocol(&self, reach: Reach) -> Option<Protocol> {
        protocol_without_records(self.protocol, self.secure, |it| reach.speaks(it))
    }
}

/// The protocol if no record specifies one: that of the URI, else UDP, or TLS for `sips` (section 4.1). Without a UDP listener it
/// is TCP, which every SIP server supports too (RFC 3261 section 18). `None` if no listener speaks a suitable protocol.
pub fn protocol_without_records(
    protocol: Option<Protocol>,
    secure: bool,
    speaks: impl Fn(Protocol) -> bool,
) -> Option<Protocol> {
    let choice: &[Protocol] = match (protocol, secure) {
        (None, false) => &[Protocol::Udp, Protocol::Tcp],
        (None | Some(Protocol::Tcp | Protocol::Tls), true) => &[Protocol::Tls],
        (Some(Protocol::Ws | Protocol::Wss), true) => &[Protocol::Wss],
        // TLS over datagrams is not supported.
        (Some(Protocol::Udp), true) => &[],
        (Some(protocol), false) => return Some(protocol).filter(|it| speaks(*it)),
    };
    choice.iter().copied().find(|it| speaks(*it))
}

impl<'d> Selection<'d> {
    /// Creates the selection for a destination, for a node with this reach.
    pub const fn new(destination: &'d Destination, reach: Reach) -> Self {
        Self { destination, reach }
    }

    /// The candidates of an address, which needs no records: one, or none if no listener can reach it. `None` if the host is a name.
    pub fn literal(&self) -> Option<Vec<Candidate>> {
        let address = self.destination.literal()?;
        let Step::Addresses(servers) =
            self.addresses_of_host(self.destination.protocol(self.reach))
        else {
            return None;
        };
        let found: Vec<_> = servers.into_iter().map(|it| (it, vec![address])).collect();
        Some(self.addresses(&found))
    }

    /// The first step.
    pub fn begin(&self) -> Step {
        let wanted = self.destination;
        match (wanted.port, wanted.protocol) {
            (None, None) => Step::Naptr(wanted.host.clone()),
            (None, Some(_)) => self.services(wanted.protocol(self.reach)),
            (Some(_), _) => self.addresses_of_host(wanted.protocol(self.reach)),
        }
    }

    /// Section 4.1, the NAPTR records: those that name a usable service decide. If the domain has none for SIP at all, its
    /// services are looked up under their usual names.
    pub fn naptr(&self, records: &[Naptr]) -> Step {
        let is_usable = |protocol: Protocol| {
            (!self.destination.secure || protocol.is_secure()) && self.reach.speaks(protocol)
        };
        match naptr::services(records, is_usable) {
            Some(services) if services.is_empty() => Step::Addresses(Vec::new()),
            Some(services) => Step::Srv(services),
            None if self.destination.secure => self.services([Protocol::Tls]),
            None => self.services([Protocol::Udp, Protocol::Tcp, Protocol::Tls]),
        }
    }

    /// Section 4.2, the SRV records of each service, in the order of the queries. Records are sorted by priority, and among
    /// equals by weight and `seed` (RFC 2782). Without any record, the host itself is the server.
    pub fn srv(&self, found: &[(Service, Vec<Srv>)], seed: u64) -> Step {
        if found.iter().all(|(_, records)| records.is_empty()) {
            let first = found.first().map(|(service, _)| service.protocol);
            return self.addresses_of_host(first);
        }
        let servers = found.iter().flat_map(|(service, records)| {
            let in_order = srv::in_order(records, seed).into_iter();
            in_order.map(|record| Server {
                host: record.target.clone(),
                port: record.port,
                protocol: service.protocol,
            })
        });
        Step::Addresses(servers.take(MAX_CANDIDATES).collect())
    }

    /// The candidates, best first: the addresses of each server in order, if a listener can reach them.
    pub fn addresses(&self, found: &[(Server, Vec<IpAddr>)]) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (server, addresses) in found {
            for address in families_in_turn(addresses) {
                let candidate = Candidate {
                    protocol: server.protocol,
                    address: SocketAddr::new(address, server.port),
                };
                if self.reach.leads_to(candidate.protocol, address)
                    && !candidates.contains(&candidate)
                {
                    candidates.push(candidate);
                }
                if candidates.len() == MAX_CANDIDATES {
                    return candidates;
                }
            }
        }
        candidates
    }

    /// The usual names of the services that the node can speak.
    fn services(&self, protocols: impl IntoIterator<Item = Protocol>) -> Step {
        let spoken = protocols
            .into_iter()
            .filter(|protocol| self.reach.speaks(*protocol));
        let services: Vec<Service> = spoken
            .map(|protocol| Service {
                name: format!("{}.{}", srv::prefix(protocol), self.destination.host).into(),
                protocol,
            })
            .collect();
        if services.is_empty() {
            return Step::Addresses(Vec::new());
        }
        Step::Srv(services)
    }

    fn addresses_of_host(&self, protocol: Option<Protocol>) -> Step {
        let server = protocol.map(|protocol| Server {
            host: self.destination.host.clone(),
            port: self
                .destination
                .port
                .unwrap_or_else(|| protocol.default_port()),
            protocol,
        });
        Step::Addresses(server.into_iter().collect())
    }
}

/// IPv6 before IPv4 as in RFC 6724, then alternating, so that a family without connectivity costs one attempt (RFC 8305 section
/// 4).
fn families_in_turn(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    let mut v6 = addresses
        .iter()
        .copied()
        .filter(|address| address.to_canonical().is_ipv6());
    let mut v4 = addresses
        .iter()
        .copied()
        .filter(|address| address.to_canonical().is_ipv4());
    let mut turn_of_v6 = false;
    std::iter::from_fn(move || {
        turn_of_v6 = !turn_of_v6;
        if turn_of_v6 {
            v6.next().or_else(|| v4.next())
        } else {
            v4.next().or_else(|| v6.next())
        }
    })
}
