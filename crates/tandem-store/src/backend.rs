//! The boundary between the store and the databases behind it.
//!
//! A backend owns its SQL, its connections and the meaning of its error codes. Everything else is common to all: URLs, messages, the order
//! of batches, what an import keeps. To add a database, implement these traits in a module of its own, name the module in
//! [`Database::open`](crate::database::Database::open) and in `url`, and add a test program that includes `tests/contract`.
//!
//! Each operation is one transaction: another process sees all of it or nothing.

use crate::binding::{AddressBindings, BindingRow, Loaded};
use crate::call_row::CallRow;
use crate::dialogs::DialogRow;
use crate::kamailio::TrustedNetworks;
use crate::node_name::NodeName;
use crate::service::{Alias, Forwarding, SubscriberForwarding};
use crate::subscriber::{Existing, Imported, Registrations, StoredCredentials, Subscriber};
use crate::tables::{Select, VisitRow};
use async_trait::async_trait;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Whether to create a database that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
    /// Fail, and neither create tables nor bring them up to date: only tables that others have made are read.
    FailAndLeave,
}

/// What a committed change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Any end of the process. The operating system writes the data to the disk later. If the machine stops before, the last seconds may be
    /// lost, but the database stays sound.
    Written,
    /// The end of the machine, too: a commit waits until the disk confirms it.
    Synced,
}

/// How a server uses its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// What a committed change survives.
    pub commits: Commits,
    /// Connections of the pool. A server of PostgreSQL or MySQL has one more, which reserves the name of the node.
    pub connections: u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            commits: Commits::Written,
            connections: 4,
        }
    }
}

/// An open database with all tables up to date.
pub(crate) struct Opened {
    pub backend: Arc<dyn Backend>,
    /// The database did not exist before.
    pub created: bool,
}

/// Why an operation failed, by whose fault it is. The store adds which database it was and what it was doing. A `remedy` completes the
/// message of a [`StoreError`](crate::StoreError).
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another process or connection held the database for too long.
    Busy,
    /// The server of the database does not answer, or is about to stop. A retry may succeed.
    Away {
        problem: String,
        remedy: &'static str,
    },
    /// The server of the database refuses this user, or has no such database.
    Refused {
        problem: String,
        remedy: &'static str,
    },
    /// The database is damaged.
    Corrupt {
        problem: String,
        remedy: &'static str,
    },
    /// The database takes no changes: disk, permissions.
    Unwritable {
        problem: String,
        remedy: &'static str,
    },
    /// A table that others have made is not there, or has rows that cannot be right.
    Table {
        problem: String,
        remedy: &'static str,
    },
    /// The database no longer has the reservation of this node's name, so nothing was written.
    NameTaken,
    /// Anything else.
    Other { problem: String },
}

/// The answer to [`Backend::claim`].
#[derive(Debug)]
pub(crate) enum Claim {
    Granted,
    /// Another process acts as this node.
    Held {
        by: String,
    },
}

/// An open database.
#[async_trait]
pub(crate) trait Backend:
    SubscriberTable + ServiceTable + LocationTable + DialogTable + RecordTable + fmt::Debug
{
    /// Returns the saved secret. If there is none, saves `fresh`.
    async fn secret(&self, fresh: &[u8; 32]) -> Result<Vec<u8>, Fault>;

    /// Reserves a node's name for this process until [`Backend::close`], or until the process ends in any way.
    async fn claim(&self, node: &NodeName) -> Result<Claim, Fault>;

    /// Who has taken the name that this process had reserved; `None`: it was not taken. While it is, every change of a node's rows fails
    /// with [`Fault::NameTaken`].
    fn name_taken_by(&self) -> Option<Arc<str>> {
        None
    }

    /// The networks of a group of trusted peers. Only Kamailio's database has such groups.
    async fn trusted_networks(&self, _group: u32) -> Result<TrustedNetworks, Fault> {
        Ok(TrustedNetworks::default())
    }

    /// Streams the rows of a table or view that others have made to `visit`. Returns their number.
    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault>;

    /// Waits for running operations, closes all connections and gives up all claims.
    async fn close(&self);
}

/// A callback for username and domain of each row.
pub(crate) type VisitName<'v> = dyn FnMut(&str, &str) -> ControlFlow<()> + Send + 'v;
/// A callback for username, domain and credentials of each row; `None` if its hashes cannot be read.
pub(crate) type VisitSubscriber<'v> = dyn FnMut(&str, &str, Option<StoredCredentials>) + Send + 'v;
/// A callback for id and state of each dialog.
pub(crate) type VisitDialog<'v> = dyn FnMut(u128, &[u8]) + Send + 'v;
/// A callback for address of record and binding of each row.
pub(crate) type VisitBinding<'v> = dyn FnMut(&[u8], &BindingRow<'_>) + Send + 'v;

/// The subscribers and the record of their changes. Each change increments the version by one and is recorded under it.
#[async_trait]
pub(crate) trait SubscriberTable: Send + Sync {
    /// Adds a subscriber. Returns false, without a change, if the name exists.
    async fn add(&self, subscriber: &Subscriber) -> Result<bool, Fault>;

    /// Changes a password. Returns false, without a change, if the name does not exist. [`Registrations::End`] also deletes the saved
    /// bindings of the address, of whichever node.
    async fn set_password(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<bool, Fault>;

    /// Removes a subscriber and its call forwarding, but not its bindings. Returns false if the name does not exist.
    async fn remove(&self, username: &str, domain: &str) -> Result<bool, Fault>;

    /// The credentials of a subscriber.
    async fn find(&self, username: &str, domain: &str) -> Result<Option<StoredCredentials>, Fault>;

    /// The number of subscribers, in total or of one domain.
    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault>;

    /// Passes at most `limit` subscribers to `visit`, ordered by username and domain, until it breaks. Returns how many it passed.
    async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        visit: &mut VisitName<'_>,
    ) -> Result<u64, Fault>;

    /// Streams all subscribers to `visit`, in any order. Returns their number.
    async fn for_each(&self, visit: &mut VisitSubscriber<'_>) -> Result<u64, Fault>;

    /// Adds a batch of subscribers as its [`ImportPlan`](crate::import_plan::ImportPlan)s say.
    async fn import(&self, batch: &[Subscriber], existing: Existing) -> Result<Imported, Fault>;

    /// The version.
    async fn version(&self) -> Result<u64, Fault>;

    /// The recorded changes (username, domain) after version `after`, up to and including `last`, in their order. The oldest may be
    /// forgotten.
    async fn changes(&self, after: u64, last: u64) -> Result<Vec<(String, String)>, Fault>;

    /// Those of [`SubscriberTable::changes`] that ended registrations.
    async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, Fault>;
}

/// Aliases and call forwarding. Each change counts as a change of its name among the changes of subscribers.
#[async_trait]
pub(crate) trait ServiceTable: Send + Sync {
    /// Sets a batch of aliases, whether they exist or not.
    async fn set_aliases(&self, batch: &[Alias]) -> Result<(), Fault>;

    /// Removes an alias. Returns false, without a change, if there is none.
    async fn remove_alias(&self, username: &str, domain: &str) -> Result<bool, Fault>;

    /// The subscriber that an alias leads to.
    async fn find_alias(&self, username: &str, domain: &str) -> Result<Option<String>, Fault>;

    /// At most `limit` aliases behind this name, ordered by username and domain.
    async fn aliases(&self, after: (&str, &str), limit: u32) -> Result<Vec<Alias>, Fault>;

    /// Sets the call forwarding of a subscriber, or removes it if it is empty. Returns whether there was something to change.
    async fn set_forwarding(
        &self,
        username: &str,
        domain: &str,
        forwarding: &Forwarding,
    ) -> Result<bool, Fault>;

    /// The call forwarding of a subscriber.
    async fn find_forwarding(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<Forwarding>, Fault>;

    /// The call forwarding of at most `limit` subscribers behind this name, ordered by username and domain.
    async fn forwardings(
        &self,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<SubscriberForwarding>, Fault>;
}

/// What a saved binding says about its writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark<'n> {
    /// Who wrote the row.
    pub node: &'n NodeName,
    /// In which full save of this node; 0 for other saves.
    pub full_save: i64,
}

/// The saved bindings. There is at most one row for an address and a contact; it belongs to the node that wrote it last.
#[async_trait]
pub(crate) trait LocationTable: Send + Sync {
    /// Streams the bindings of all nodes that expire after `now` to `restore`, in any order.
    async fn load(&self, now: u32, restore: &mut VisitBinding<'_>) -> Result<Loaded, Fault>;

    /// Replaces the node's rows of these addresses. A row of another node stays, unless the node has the same contact with a later expiry;
    /// then the row changes its owner. Each address occurs once, in ascending order; a contact may occur twice, and the later one counts.
    async fn save(&self, entries: &[&AddressBindings<'_>], mark: Mark<'_>) -> Result<(), Fault>;

    /// The largest number of a full save among the node's rows, or 0.
    async fn last_full_save(&self, node: &NodeName) -> Result<i64, Fault>;

    /// Deletes the rows of the mark's node that carry another number of a full save. Returns how many.
    async fn delete_other_saves(&self, mark: Mark<'_>) -> Result<u64, Fault>;

    /// Deletes the node's rows that expired at or before `now`. Returns how many.
    async fn delete_expired(&self, node: &NodeName, now: u32) -> Result<u64, Fault>;

    /// The number of rows of all nodes.
    async fn count_bindings(&self) -> Result<u64, Fault>;
}

/// The records of calls. A record never changes.
#[async_trait]
pub(crate) trait RecordTable: Send + Sync {
    /// Adds the records of a batch whose `id` no record has. The others are there already: a batch is repeated if its result was lost.
    async fn append(&self, records: &[CallRow<'_>], node: &NodeName) -> Result<(), Fault>;

    /// The number of records of all nodes.
    async fn count_records(&self) -> Result<u64, Fault>;

    /// Deletes at most `most` of the node's records with `ended` before `before`. Returns how many.
    async fn delete_records(&self, node: &NodeName, before: i64, most: u32) -> Result<u64, Fault>;
}

/// The saved dialogs. There is at most one row for a node and an id.
#[async_trait]
pub(crate) trait DialogTable: Send + Sync {
    /// Streams the node's dialogs that end after `now` to `restore`, in any order. Returns their number.
    async fn load_dialogs(
        &self,
        node: &NodeName,
        now: u32,
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault>;

    /// Writes the node's rows of dialogs with a state, and deletes those of dialogs without one. Each id occurs once.
    async fn save_dialogs(&self, node: &NodeName, batch: &[DialogRow]) -> Result<(), Fault>;

    /// Streams at most `most` of the node's dialogs that ended at or before `now` to `restore`, the latest first. Returns their number.
    async fn load_overdue_dialogs(
        &self,
        node: &NodeName,
        (now, most): (u32, u32),
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault>;

    /// Deletes the node's dialogs that ended at or before `now`. Returns how many.
    async fn delete_expired_dialogs(&self, node: &NodeName, now: u32) -> Result<u64, Fault>;
}
