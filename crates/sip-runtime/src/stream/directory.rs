//! Which connection leads to an address, over all workers (RFC 3261 section 18.1.1, RFC 5923).

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use sip_transport::{ConnectionId, Protocol};
use std::net::SocketAddr;

/// Connections by protocol and the peer's address. Read without a lock.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    connections: HashMap<(Protocol, SocketAddr), ConnectionId, FxBuildHasher>,
}

impl Directory {
    /// The connection that leads to an address.
    pub(super) fn find(&self, protocol: Protocol, address: SocketAddr) -> Option<ConnectionId> {
        self.connections.pin().get(&(protocol, address)).copied()
    }

    /// Enters a connection; the latest one leads to the address.
    pub(super) fn enter(&self, protocol: Protocol, address: SocketAddr, connection: ConnectionId) {
        self.connections
            .pin()
            .insert((protocol, address), connection);
    }

    /// Takes a connection out, unless another one leads to the address by now.
    pub(super) fn leave(&self, protocol: Protocol, address: SocketAddr, connection: ConnectionId) {
        // An error says that another one does.
        let _ = self
            .connections
            .pin()
            .remove_if(&(protocol, address), |_, entered| *entered == connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_leads_and_an_older_one_does_not_take_it_out() {
        let directory = Directory::default();
        let address: SocketAddr = "192.0.2.1:5060".parse().expect("an address");
        let (old, new) = (ConnectionId::new(0, 1), ConnectionId::new(3, 9));
        directory.enter(Protocol::Tcp, address, old);
        directory.enter(Protocol::Tcp, address, new);
        directory.leave(Protocol::Tcp, address, old);
        assert_eq!(directory.find(Protocol::Tcp, address), Some(new));
        assert_eq!(directory.find(Protocol::Tls, address), None);
        directory.leave(Protocol::Tcp, address, new);
        assert_eq!(directory.find(Protocol::Tcp, address), None);
    }
}
