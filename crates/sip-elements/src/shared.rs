//! State that all workers of a process share: concurrent maps that are read without a lock.
use crate::DeadTargets;
use crate::Edges;
use crate::auth::{CredentialCache, Nonces};
use crate::bans::Bans;
use crate::location::Locations;
use crate::services::Services;
use sip_message::KeyHasher;

/// Shared by the workers. The control plane fills and sweeps it.
#[derive(Debug)]
pub struct Shared {
    /// The registered contacts of each address of record.
    pub locations: Locations,
    /// Aliases and call forwarding.
    pub services: Services,
    /// Credentials of subscribers, and names that are known not to exist.
    pub credentials: CredentialCache,
    /// Issues nonces and counts their uses.
    pub nonces: Nonces,
    /// Bans and pauses.
    pub bans: Bans,
    /// Next hops that failed recently.
    pub dead_targets: DeadTargets,
    /// The edges of the fleet.
    pub edges: Edges,
    /// Keyed hashes for tags, branches and proofs in Record-Route. The secret survives a restart, so that calls survive it too.
    pub hasher: KeyHasher,
}
