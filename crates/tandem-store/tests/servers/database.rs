//! A database of its own for each test, on one server.
#![expect(clippy::unused_async, reason = "the contract tests await it")]

use crate::database::{ADMINISTRATOR, FIRST_DATABASE};
use crate::server::Server;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

static SERVER: LazyLock<Server> = LazyLock::new(Server::new);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An empty database.
pub struct Database {
    name: String,
}

impl Database {
    pub fn new() -> Self {
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        SERVER.execute(FIRST_DATABASE, &format!("CREATE DATABASE {name}"));
        Self { name }
    }

    pub fn url(&self) -> String {
        self.url_of(ADMINISTRATOR)
    }

    /// The URL for another user.
    pub fn url_of(&self, user: &str) -> String {
        SERVER.url(user, &self.name)
    }

    /// Writes a source that is no address for the bindings with this `CSeq`.
    pub async fn damage_sources(&self, cseq: u32) {
        self.execute(&format!(
            "UPDATE location SET source = 'nowhere' WHERE cseq = {cseq}"
        ));
    }

    /// As [`Database::execute`], for the contract tests.
    pub async fn run(&self, sql: &str) {
        self.execute(sql);
    }

    /// Runs SQL without the store.
    pub fn execute(&self, sql: &str) {
        SERVER.execute(&self.name, sql);
    }
}
