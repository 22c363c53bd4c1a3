//! The tables that all workers share, in the sizes that the configuration sets.
use crate::config::{self, Configuration};
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::bans::Bans;
use sip_elements::location::Locations;
use sip_elements::services::Services;
use sip_elements::{DeadTargets, Shared};
use sip_message::KeyHasher;
use std::time::Duration;

/// Creates the empty tables. The signing secret survives a restart, and so do nonces and Record-Route cookies.
pub(crate) fn shared(configuration: &Configuration, secret: &[u8; 32]) -> Shared {
    let (first, second) = secret.split_at(16);
    let auth = &configuration.auth;
    let (known, unknown) = (auth.cache_lifetime, auth.unknown_lifetime);
    Shared {
        locations: locations(configuration),
        credentials: CredentialCache::new(
            auth.cache_size,
            whole_seconds(known),
            whole_seconds(unknown),
        ),
        services: Services::default(),
        nonces: Nonces::new(pair(first), auth.nonce_slots),
        bans: Bans::new(configuration.bans.table),
        dead_targets: DeadTargets::default(),
        edges: sip_elements::Edges::default(),
        hasher: KeyHasher::new(pair(second)),
    }
}

/// A fleet shares every refresh: the node that gets the next one must know the last `CSeq`.
fn locations(configuration: &Configuration) -> Locations {
    let locations = Locations::new(config::location_limits(configuration));
    match configuration.location.store.redis() {
        Some(_) => locations.announcing_all(),
        None => locations,
    }
}

fn whole_seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Converts sixteen bytes into the key of a keyed hash.
fn pair(bytes: &[u8]) -> (u64, u64) {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .take(8)
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    (word(bytes), word(bytes.get(8..).unwrap_or_default()))
}
