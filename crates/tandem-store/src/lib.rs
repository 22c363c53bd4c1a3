//! Persistent data in a SQL database: subscribers, aliases and call forwarding, locations, records of calls and the secret of the node.
//!
//! ```text
//! Store ── subscribers()  who may register and call (HA1 only), and what changed since a server last looked
//!   │   ├─ services()     aliases and call forwarding
//!   │   ├─ locations()    bindings, saved in the background and restored at the start of the server
//!   │   ├─ records()      one row for each call that has ended
//!   │   ├─ dialogs()      calls in progress, saved in the background and restored at the start of the server
//!   │   ├─ secret()       32 random bytes that outlive restarts
//!   │   └─ read_prefixes(), read_dispatcher()   rows of tables and views that others have made
//!   ▼
//! Database                selects the backend by the URL, adds the place to its errors
//!   ▼
//! trait Backend           implemented by `sqlite`, `postgres` and `mysql`, which alone know SQL, connections and error codes; and by
//!                         `kamailio`, which reads the tables of another program
//! ```
//!
//! Everything here belongs to the control plane: asynchronous, one small pool per process. The call path never waits for it.

mod backend;
mod binding;
mod call_row;
mod database;
mod dialogs;
mod error;
pub mod fleet;
mod import_plan;
mod kamailio;
mod locations;
mod migration;
mod mysql;
mod network;
mod node_name;
mod postgres;
mod records;
mod service;
mod services;
mod sql;
mod sqlite;
mod store;
mod subscriber;
mod subscribers;
mod tables;
mod url;

pub use backend::{Commits, StoreOptions};
pub use binding::{AddressBindings, BindingRow, Loaded};
pub use call_row::CallRow;
pub use dialogs::{DialogRow, Dialogs};
pub use error::StoreError;
pub use kamailio::{
    DispatcherAlgorithm, DispatcherOptions, DispatcherProbing, DispatcherProblem,
    DispatcherTranslation, Finding, KamailioOptions, KamailioPrefixOptions, PrefixProblem,
    PrefixTranslation, PrefixValues, TranslatedDispatcher, TranslatedPrefixes, TrustedNetwork,
    TrustedNetworks, UnsupportedAlgorithm, dispatcher_group,
};
pub use locations::{FullSave, Locations};
pub use node_name::{InvalidNodeName, NodeName};
pub use records::Records;
pub use service::{Alias, Forwarding, SubscriberForwarding};
pub use services::Services;
pub use store::Store;
pub use subscriber::{
    Changed, Existing, Imported, Registrations, StoredCredentials, Subscriber, SubscriberChanges,
};
pub use subscribers::Subscribers;
pub use tables::{
    ColumnName, DispatcherRow, DispatcherSource, InvalidName, PrefixRow, PrefixSource, TableName,
};
pub use url::{check_url, shown_url};
