//! Follows subscribers that another process added, removed or changed: their cached credentials and ended registrations are removed.
use super::control::Control;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_store::{Changed, Store, StoreError};
use tokio::sync::Mutex;

/// How far changes have been followed.
#[derive(Debug, Default)]
pub struct Followed {
    /// The version of the subscribers that memory reflects.
    version: AtomicU64,
    /// One task at a time, so that each change is followed once and later registrations stay.
    turn: Mutex<()>,
}

impl Followed {
    /// Sets the version of the subscribers with which the cache was filled.
    pub fn begin(&self, version: u64) {
        self.version.store(version, Ordering::Release);
    }
}

/// Follows all changes up to now. Also called before each query for credentials, so that registrations with an old password have ended
/// before the new one is accepted.
///
/// # Errors
/// Any database error. The changes are followed next time.
pub async fn catch_up(control: &Control, store: &Store) -> Result<(), StoreError> {
    let followed = &control.followed_subscribers;
    if store.subscribers().version().await? == followed.version.load(Ordering::Acquire) {
        return Ok(());
    }
    let _turn = followed.turn.lock().await;
    let before = followed.version.load(Ordering::Acquire);
    let now = forget_changed(control, store, before).await?;
    followed.version.store(now, Ordering::Release);
    Ok(())
}

async fn forget_changed(control: &Control, store: &Store, version: u64) -> Result<u64, StoreError> {
    let subscribers = store.subscribers();
    let changes = subscribers.changes_since(version).await?;
    let Some(data_plane) = control.data_plane() else {
        return Ok(changes.version);
    };
    let (cache, locations) = (&data_plane.shared.credentials, &data_plane.shared.locations);
    match &changes.changed {
        Changed::Named(names) => {
            for (username, domain) in names {
                cache.invalidate(username.as_bytes(), domain.as_bytes());
                // A removed subscriber no longer receives calls.
                if subscribers.find(username, domain).await?.is_none() {
                    let address = format!("{username}@{domain}");
                    locations.remove(address.as_bytes(), control.clock.now());
                }
            }
        }
        Changed::Anything => cache.clear(),
    }
    let ended = subscribers
        .registrations_ended(version, changes.version)
        .await?;
    for (username, domain) in ended {
        let address = format!("{username}@{domain}");
        locations.remove(address.as_bytes(), control.clock.now());
    }
    Ok(changes.version)
}
