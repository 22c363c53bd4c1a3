//! Saved aliases and call forwarding. Each change counts as a change of the name that it is about: a running server follows it as it
//! follows changes of subscribers, see [`Subscribers::changes_since`](crate::Subscribers::changes_since).

use crate::database::Database;
use crate::error::StoreError;
use crate::service::{Alias, Forwarding, SubscriberForwarding};

/// The aliases and the call forwarding of a [`Store`](crate::Store).
#[derive(Clone, Copy, Debug)]
pub struct Services<'s> {
    database: &'s Database,
}

impl<'s> Services<'s> {
    pub(crate) fn new(database: &'s Database) -> Self {
        Self { database }
    }

    /// Sets aliases in one transaction: all of them, or none. A few thousand make a good batch.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn set_aliases(&self, batch: &[Alias]) -> Result<(), StoreError> {
        let set = self.database.backend.set_aliases(batch).await;
        set.map_err(self.database.failed("set aliases"))
    }

    /// Removes an alias. Returns false if there is none.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn remove_alias(&self, username: &str, domain: &str) -> Result<bool, StoreError> {
        let removed = self.database.backend.remove_alias(username, domain).await;
        removed.map_err(self.database.failed("remove an alias"))
    }

    /// The subscriber that an alias leads to.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find_alias(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<String>, StoreError> {
        let found = self.database.backend.find_alias(username, domain).await;
        found.map_err(self.database.failed("look an alias up"))
    }

    /// At most `limit` aliases behind this one, ordered by user and domain.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn aliases(&self, after: (&str, &str), limit: u32) -> Result<Vec<Alias>, StoreError> {
        let page = self.database.backend.aliases(after, limit).await;
        page.map_err(self.database.failed("read the aliases"))
    }

    /// Sets the call forwarding of a subscriber, or removes it if it is empty. Returns whether there was something to change.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn set_forwarding(
        &self,
        username: &str,
        domain: &str,
        forwarding: &Forwarding,
    ) -> Result<bool, StoreError> {
        let backend = &self.database.backend;
        let set = backend.set_forwarding(username, domain, forwarding).await;
        set.map_err(self.database.failed("change call forwarding"))
    }

    /// The call forwarding of a subscriber.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find_forwarding(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<Forwarding>, StoreError> {
        let found = self
            .database
            .backend
            .find_forwarding(username, domain)
            .await;
        found.map_err(self.database.failed("look call forwarding up"))
    }

    /// The call forwarding of at most `limit` subscribers behind this one, ordered by user and domain.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn forwardings(
        &self,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<SubscriberForwarding>, StoreError> {
        let page = self.database.backend.forwardings(after, limit).await;
        page.map_err(self.database.failed("read call forwarding"))
    }
}
