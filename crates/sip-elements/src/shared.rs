//! What all workers of a process share: concurrent maps that are read without a lock.
use crate::DeadTargets;
use crate::auth::{CredentialCache, Nonces};
use crate::bans::Bans;
use crate::location::Locations;
use sip_message::KeyHasher;

/// Shared by the workers; the control plane fills and sweeps it.
#[derive(Debug)]
pub struct Shared {
    /// Who is registered where.
    pub locations: Locations,
    /// Credentials of subscribers, and who is known not to exist.
    pub credentials: CredentialCache,
    /// Nonces issued and counted.
    pub nonces: Nonces,
    /// Who is kept off.
    pub bans: Bans,
    /// Which next hops failed lately.
    pub dead_targets: DeadTargets,
    /// Keyed hashes: tags, branches, proofs in Record-Route. Its secret survives a restart, so that calls do.
    pub hasher: KeyHasher,
}
