//! Persistent data in a SQL database: subscribers, locations and the secret of the node.
//!
//! ```text
//! Store ── subscribers()  who may register and call (HA1 only), and what changed since a server last looked
//!       ├─ locations()    bindings, saved in the background and restored at the start of the server
//!       └─ secret()       32 random bytes that outlive restarts
//! ```
//!
//! Everything here belongs to the control plane: asynchronous, one small pool per process. The call path never waits for it. The database
//! is `SQLite`. The SQL is portable to other databases; everything that only `SQLite` has is in `database.rs`.

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
