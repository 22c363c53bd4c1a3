//! What is at rest: subscribers, locations and the secret of the node, in a SQL database.
//!
//! ```text
//! Store ── subscribers()  who may register and call (HA1 only), and what changed since a server last looked
//!       ├─ locations()    bindings, saved behind the running server and restored at its start
//!       └─ secret()       32 random bytes that outlive restarts
//! ```
//!
//! Everything here is control plane: asynchronous, one small pool per process. Nothing on the call path waits for it.
//! The database is `SQLite`. The SQL keeps to what other databases understand too; what is peculiar to `SQLite` is in `database.rs`.

mod database;
mod error;
mod location;
mod store;
mod subscriber;

pub use database::Commits;
pub use error::StoreError;
pub use location::{AddressBindings, BindingRow, FullSave, Loaded, Locations};
pub use store::Store;
pub use subscriber::{
    Changed, Existing, Imported, Registrations, StoredCredentials, Subscriber, SubscriberChanges,
    Subscribers,
};
