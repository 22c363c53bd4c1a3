//! Follows subscribers that another process added, removed or changed: their cached credentials and ended registrations are removed, and
//! aliases and call forwarding of these names are read again.
use crate::control::{Control, Running};
use crate::services;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tandem_store::{Changed, StoreError};
use tokio::sync::Mutex;

/// Follows the changes, and knows how far it has followed them.
#[derive(Debug)]
pub(super) struct ChangedSubscribers {
    control: Arc<Control>,
    running: Arc<Running>,
    /// The version of the subscribers that memory reflects.
    version: AtomicU64,
    /// The last poll could not reach the database.
    away: AtomicBool,
    /// One task at a time, so that each change is followed once and later registrations stay.
    turn: Mutex<()>,
}

impl ChangedSubscribers {
    /// `version` is the version of the subscribers with which the credentials cache was filled.
    pub(super) fn new(control: Arc<Control>, running: Arc<Running>, version: u64) -> Self {
        Self {
            control,
            running,
            version: AtomicU64::new(version),
            away: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }

    /// Follows all changes up to now, and notes whether the database can be reached.
    ///
    /// # Errors
    /// As [`ChangedSubscribers::catch_up`].
    pub(super) async fn poll(&self) -> Result<(), StoreError> {
        let done = self.catch_up().await;
        let away = done.as_ref().is_err_and(StoreError::is_temporary);
        self.away.store(away, Ordering::Release);
        done
    }

    /// Whether the last poll could not reach the database. A question would only wait.
    pub(super) fn is_database_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// Follows all changes up to now. Also called before each query for credentials, so that registrations with an old password have ended
    /// before the new one is accepted.
    ///
    /// # Errors
    /// Any database error. The changes are followed next time.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let version = self.running.store.subscribers().version().await?;
        if version == self.version.load(Ordering::Acquire) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        let before = self.version.load(Ordering::Acquire);
        let now = self.forget_changed(before).await?;
        self.version.store(now, Ordering::Release);
        Ok(())
    }

    async fn forget_changed(&self, version: u64) -> Result<u64, StoreError> {
        let store = &self.running.store;
        let services = &self.running.shared.services;
        let subscribers = store.subscribers();
        let changes = subscribers.changes_since(version).await?;
        let cache = &self.running.shared.credentials;
        match &changes.changed {
            Changed::Named(names) => {
                for (username, domain) in names {
                    cache.invalidate(username.as_bytes(), domain.as_bytes());
                    services::refresh(store, services, (username, domain)).await?;
                    // A removed subscriber no longer receives calls.
                    if subscribers.find(username, domain).await?.is_none() {
                        self.unregister(username, domain);
                    }
                }
            }
            Changed::Anything => {
                cache.clear();
                services::load(store, services).await?;
            }
        }
        let ended = subscribers
            .registrations_ended(version, changes.version)
            .await?;
        for (username, domain) in ended {
            self.unregister(&username, &domain);
        }
        Ok(changes.version)
    }

    fn unregister(&self, username: &str, domain: &str) {
        let address = format!("{username}@{domain}");
        let locations = &self.running.shared.locations;
        locations.remove(address.as_bytes(), self.control.clock.now());
    }
}
