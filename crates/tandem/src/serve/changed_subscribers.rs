//! Subscribers that were added, removed or given another password by another process: the server forgets what it knew of them.
use super::control::Control;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_store::{Changed, Store, StoreError};
use tokio::sync::Mutex;

/// How far the changes have been followed.
#[derive(Debug, Default)]
pub struct Followed {
    /// The version of the subscribers that memory is true to.
    version: AtomicU64,
    /// One at a time: a change is followed once. What is registered after it stays.
    turn: Mutex<()>,
}

impl Followed {
    /// The version of the subscribers when the cache was filled.
    pub fn begin(&self, version: u64) {
        self.version.store(version, Ordering::Release);
    }
}

/// Follows all changes up to now. Called before the store is asked for credentials too: so registrations that end with an old
/// password have ended before the new one is accepted.
///
/// # Errors
/// Any error of the database. The changes are followed next time.
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
                // Who was removed is not called any more.
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
