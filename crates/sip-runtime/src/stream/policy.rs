//! Trusted peers and allowed origins, which may change while the server runs.

use arc_swap::ArcSwap;
use sip_transport::Networks;
use sip_transport::websocket::Origins;
use std::sync::Arc;

/// Trusted peers, and the origins whose pages may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Trusted peers. Their connections do not count towards the limit of their address and are proven from the start.
    pub trusted: Networks,
    /// Origins whose pages may open a WebSocket.
    pub origins: Origins,
}

/// The current policy, shared by all workers. Reading it takes no lock.
#[derive(Debug, Default)]
pub struct SharedPeerPolicy(ArcSwap<PeerPolicy>);

impl SharedPeerPolicy {
    /// Starts with this policy.
    pub fn new(policy: PeerPolicy) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(policy)))
    }

    /// The current policy.
    pub fn load(&self) -> Arc<PeerPolicy> {
        self.0.load_full()
    }

    /// Replaces the policy. It applies to connections that are accepted from now on.
    pub fn replace(&self, policy: PeerPolicy) {
        self.0.store(Arc::new(policy));
    }
}
