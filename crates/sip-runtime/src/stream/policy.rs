//! Whom the operator trusts, and whose pages may connect; changed while the server runs.

use arc_swap::ArcSwap;
use sip_transport::Networks;
use sip_transport::websocket::Origins;
use std::sync::Arc;

/// Whom the operator trusts, and whose pages may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Peers that are trusted: their connections do not count as those of their address, and are proven from the beginning.
    pub trusted: Networks,
    /// Whose pages may open a WebSocket.
    pub origins: Origins,
}

/// The policy in force, for all workers. Reading it takes no lock.
#[derive(Debug, Default)]
pub struct SharedPeerPolicy(ArcSwap<PeerPolicy>);

impl SharedPeerPolicy {
    /// Begins with this one.
    pub fn new(policy: PeerPolicy) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(policy)))
    }

    /// The one in force.
    pub fn load(&self) -> Arc<PeerPolicy> {
        self.0.load_full()
    }

    /// Connections that begin from now on are judged by this one.
    pub fn replace(&self, policy: PeerPolicy) {
        self.0.store(Arc::new(policy));
    }
}
