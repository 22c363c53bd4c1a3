//! A database of its own for each test, on one server.
#![expect(clippy::unused_async, reason = "the contract tests await it")]

use crate::server::Server;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tandem_store::{NodeName, Store, StoreError, StoreOptions};

static SERVER: LazyLock<Server> = LazyLock::new(Server::new);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An empty database.
pub struct Database {
    name: String,
}

impl Database {
    pub fn new() -> Self {
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        SERVER.execute("mysql", &format!("CREATE DATABASE {name}"));
        Self { name }
    }

    pub fn url(&self) -> String {
        self.url_of("tandem:secret")
    }

    /// The URL for another user.
    pub fn url_of(&self, user: &str) -> String {
        SERVER.url(user, &self.name)
    }

    /// Opens the database like a command.
    pub async fn store(&self) -> Store {
        Store::open(&self.url()).await.expect("opens")
    }

    /// Opens the database like a server of this name.
    pub async fn server(&self, node: &str) -> Result<Store, StoreError> {
        let node: NodeName = node.parse().expect("a name");
        Store::open_as(&self.url(), node, StoreOptions::default()).await
    }

    /// Makes the database refuse a subscriber.
    pub async fn refuse(&self, username: &str) {
        self.execute(&format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON subscriber FOR EACH ROW \
             IF NEW.username = '{username}' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused by a test'; END IF"
        ));
    }

    /// Writes hashes of one byte for a subscriber.
    pub async fn damage_hashes(&self, username: &str) {
        self.execute(&format!(
            "UPDATE subscriber SET ha1_md5 = x'00', ha1_sha256 = x'00' WHERE username = '{username}'"
        ));
    }

    /// Writes a source that is no address for the bindings with this `CSeq`.
    pub async fn damage_sources(&self, cseq: u32) {
        self.execute(&format!(
            "UPDATE location SET source = 'nowhere' WHERE cseq = {cseq}"
        ));
    }

    /// Ends the session that reserves the name of node `a`.
    pub fn break_reservation(&self) {
        self.execute(
            "EXECUTE IMMEDIATE CONCAT('KILL ', IS_USED_LOCK(CONCAT('tandem ', SHA1(CONCAT(DATABASE(), ' ', 'a')))))",
        );
    }

    /// Runs SQL without the store.
    pub fn execute(&self, sql: &str) {
        SERVER.execute(&self.name, sql);
    }
}
