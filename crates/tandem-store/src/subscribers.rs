//! Saved subscribers: who may register and call, with HA1 for both algorithms and never a clear-text password.
//!
//! Each transaction that changes subscribers also records the changes under a new version. A running server reads the version about every
//! second and asks what has changed since. `tandem user` and a server that caches credentials therefore need no channel between them.

use crate::database::Database;
use crate::error::StoreError;
use crate::subscriber::{
    Changed, Existing, Imported, Registrations, StoredCredentials, Subscriber, SubscriberChanges,
};
use std::ops::ControlFlow;
use tracing::warn;

/// The subscribers of a [`Store`](crate::Store).
#[derive(Clone, Copy, Debug)]
pub struct Subscribers<'s> {
    database: &'s Database,
}

impl<'s> Subscribers<'s> {
    pub(crate) fn new(database: &'s Database) -> Self {
        Self { database }
    }

    /// Adds a subscriber.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the name exists; the existing subscriber is not changed. Or any error of the database.
    pub async fn add(&self, subscriber: &Subscriber) -> Result<(), StoreError> {
        let added = self.database.backend.add(subscriber).await;
        if added.map_err(self.database.failed("add a subscriber"))? {
            return Ok(());
        }
        Err(StoreError::Exists {
            address: address(&subscriber.username, &subscriber.domain),
        })
    }

    /// Changes a subscriber's password. Registrations made with the old one end or stay, in the same transaction. Running servers see this
    /// in [`Subscribers::registrations_ended`].
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the name does not exist, or any error of the database.
    pub async fn set_password(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<(), StoreError> {
        let backend = &self.database.backend;
        let changed = backend.set_password(subscriber, registrations).await;
        let found = changed.map_err(self.database.failed("change a password"))?;
        must_exist(found, &subscriber.username, &subscriber.domain)
    }

    /// Removes a subscriber and its call forwarding, but not its bindings and the aliases that lead to it.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the name does not exist, or any error of the database.
    pub async fn remove(&self, username: &str, domain: &str) -> Result<(), StoreError> {
        let removed = self.database.backend.remove(username, domain).await;
        let found = removed.map_err(self.database.failed("remove a subscriber"))?;
        must_exist(found, username, domain)
    }

    /// The credentials of one subscriber; `None` if the name does not exist.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<StoredCredentials>, StoreError> {
        let found = self.database.backend.find(username, domain).await;
        found.map_err(self.database.failed("look a subscriber up"))
    }

    /// The number of subscribers, in total or of one domain.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn count(&self, domain: Option<&str>) -> Result<u64, StoreError> {
        let count = self.database.backend.count_subscribers(domain).await;
        count.map_err(self.database.failed("count the subscribers"))
    }

    /// Passes at most `limit` subscribers (username, domain) to `visit`, ordered by username, until it breaks. Returns how many it passed.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        mut visit: impl FnMut(&str, &str) -> ControlFlow<()> + Send,
    ) -> Result<u64, StoreError> {
        let shown = self.database.backend.list(domain, limit, &mut visit).await;
        shown.map_err(self.database.failed("list the subscribers"))
    }

    /// Passes every subscriber (username, domain, credentials) to `visit`, in no particular order, to warm a cache at the start. Returns
    /// their number. It skips those whose hashes cannot be read, and logs it.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn for_each(
        &self,
        mut visit: impl FnMut(&str, &str, StoredCredentials) + Send,
    ) -> Result<u64, StoreError> {
        let (mut unreadable, mut first) = (0, String::new());
        let mut visit = |username: &str, domain: &str, credentials| {
            if let Some(credentials) = credentials {
                return visit(username, domain, credentials);
            }
            unreadable += 1;
            if unreadable == 1 {
                first = format!("{username}@{domain}");
            }
        };
        let read = self.database.backend.for_each(&mut visit).await;
        let read: u64 = read.map_err(self.database.failed("read the subscribers"))?;
        if unreadable > 0 {
            warn!(
                unreadable,
                ?first,
                "skipped subscribers whose password hashes have the wrong length: set their passwords again"
            );
        }
        Ok(read - unreadable)
    }

    /// Adds a batch of subscribers in one transaction: all of them, or none. A few thousand make a good batch. Pause briefly between two
    /// batches, so that a server can save in between.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is written.
    pub async fn import(
        &self,
        batch: &[Subscriber],
        existing: Existing,
    ) -> Result<Imported, StoreError> {
        let imported = self.database.backend.import(batch, existing).await;
        imported.map_err(self.database.failed("import subscribers"))
    }

    /// The version, which counts the changes of subscribers by all processes. One cheap read, meant to be polled about
    /// every second.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn version(&self) -> Result<u64, StoreError> {
        let version = self.database.backend.version().await;
        version.map_err(self.database.failed("look for changed subscribers"))
    }

    /// The subscribers that changed after `version`, a result of [`Subscribers::version`] or of an earlier call.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn changes_since(&self, version: u64) -> Result<SubscriberChanges, StoreError> {
        let now = self.version().await?;
        let changed = match now.checked_sub(version) {
            // The counter went back: this is another database, or a restored backup.
            None => Changed::Anything,
            Some(0) => Changed::Named(Vec::new()),
            Some(expected) => {
                let names = self.database.backend.changes(version, now).await;
                let names = names.map_err(self.database.failed("look for changed subscribers"))?;
                // If there were more changes than are remembered, the oldest are missing.
                if names.len() as u64 == expected {
                    Changed::Named(names)
                } else {
                    Changed::Anything
                }
            }
        };
        Ok(SubscriberChanges {
            version: now,
            changed,
        })
    }

    /// The subscribers (username, domain) whose registrations were ended after version `after`, up to and including
    /// version `last`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let ended = self.database.backend.registrations_ended(after, last).await;
        ended.map_err(self.database.failed("look for ended registrations"))
    }
}

fn must_exist(found: bool, username: &str, domain: &str) -> Result<(), StoreError> {
    if found {
        return Ok(());
    }
    Err(StoreError::Missing {
        address: address(username, domain),
    })
}

fn address(username: &str, domain: &str) -> String {
    format!("{username}@{domain}")
}
