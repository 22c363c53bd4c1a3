//! How the tests open a database.

use crate::Database;
use tandem_store::{NodeName, Store, StoreError, StoreOptions};

impl Database {
    /// Opens the database like a command.
    pub async fn store(&self) -> Store {
        Store::open(&self.url()).await.expect("opens")
    }

    /// Opens the database like a server of this name.
    pub async fn server(&self, node: &str) -> Result<Store, StoreError> {
        let node: NodeName = node.parse().expect("a name");
        Store::open_as(&self.url(), node, StoreOptions::default()).await
    }
}
