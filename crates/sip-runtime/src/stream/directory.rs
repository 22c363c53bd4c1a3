//! The connection that leads to an address, across all workers (RFC 3261 section 18.1.1, RFC 5923).
//!
//! If a URI named the peer, only a connection on which the peer has proved that name leads to it. One address may host many
//! peers, and DNS may lie (RFC 5922 section 7.3, RFC 5923 section 6). A message without a name takes any connection to the
//! address. An example is the CANCEL of a request that named the peer.

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use sip_transport::{ConnectionId, ListenerId, Protocol};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// The destination that a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    protocol: Protocol,
    address: SocketAddr,
    /// A keyed hash of the name that the peer must prove with its certificate; 0 means any peer.
    name: u64,
    /// The listener it was opened from, if each listener has its own connections.
    listener: Option<ListenerId>,
}

/// Connections by destination. Lookups take no lock.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    connections: HashMap<Destination, ConnectionId, FxBuildHasher>,
    names: RandomState,
}

impl Directory {
    /// The destination of an address. The name counts over TLS only.
    pub(super) fn destination(
        &self,
        protocol: Protocol,
        address: SocketAddr,
        name: Option<&str>,
    ) -> Destination {
        let name = name.filter(|_| protocol.is_secure());
        Destination {
            protocol,
            address,
            name: name.map_or(0, |name| {
                self.names.hash_one(name.to_ascii_lowercase()).max(1)
            }),
            listener: None,
        }
    }

    /// The connection that leads to a destination.
    pub(super) fn find(&self, destination: Destination) -> Option<ConnectionId> {
        self.connections.pin().get(&destination).copied()
    }

    /// Adds a connection. The latest one to a destination replaces earlier ones.
    pub(super) fn enter(&self, destination: Destination, connection: ConnectionId) {
        self.connections.pin().insert(destination, connection);
    }

    /// Removes a connection, unless another one has replaced it.
    pub(super) fn leave(&self, destination: Destination, connection: ConnectionId) {
        // An error means that another one has replaced it.
        let _ = self
            .connections
            .pin()
            .remove_if(&destination, |_, entered| *entered == connection);
    }
}

impl Destination {
    /// The same address, for any peer.
    pub(super) const fn for_any_peer(self) -> Self {
        Self { name: 0, ..self }
    }

    /// The same destination, from one of our listeners only.
    pub(super) const fn from(self, listener: ListenerId) -> Self {
        Self {
            listener: Some(listener),
            ..self
        }
    }

    /// The same destination at another address.
    pub(super) const fn at(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        "192.0.2.1:5060".parse().expect("an address")
    }

    #[test]
    fn the_latest_leads_and_an_older_one_does_not_take_it_out() {
        let directory = Directory::default();
        let tcp = directory.destination(Protocol::Tcp, address(), None);
        let (old, new) = (ConnectionId::new(0, 1), ConnectionId::new(3, 9));
        directory.enter(tcp, old);
        directory.enter(tcp, new);
        directory.leave(tcp, old);
        assert_eq!(directory.find(tcp), Some(new));
        let tls = directory.destination(Protocol::Tls, address(), None);
        assert_eq!(directory.find(tls), None);
        directory.leave(tcp, new);
        assert_eq!(directory.find(tcp), None);
    }

    #[test]
    fn a_name_counts_over_tls_and_whatever_the_case() {
        let directory = Directory::default();
        let to = |protocol, name| directory.destination(protocol, address(), name);
        let bob = Some("bob.example");
        assert_eq!(to(Protocol::Tcp, bob), to(Protocol::Tcp, None));
        assert_eq!(
            to(Protocol::Tls, bob),
            to(Protocol::Tls, Some("Bob.Example"))
        );
        assert_ne!(
            to(Protocol::Tls, bob),
            to(Protocol::Tls, Some("carol.example"))
        );
        assert_ne!(to(Protocol::Tls, bob), to(Protocol::Tls, None));
    }
}
