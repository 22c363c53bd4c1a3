//! How the tests address PostgreSQL, what it says, and how they damage its tables.
#![expect(clippy::unused_async, reason = "the contract tests await it")]

use crate::Database;

/// The user of the tests.
pub const ADMINISTRATOR: &str = "postgres";
/// A database that every server has.
pub const FIRST_DATABASE: &str = "postgres";
/// Begins and ends names.
pub const QUOTE: char = '"';
/// The beginning of a URL.
pub const SCHEME: &str = "postgres";
/// Part of the message about a wrong password.
pub const WRONG_PASSWORD: &str = "password authentication failed";
/// Parts of the message about a missing database.
pub const NO_DATABASE: [&str; 2] = ["does not exist", "createdb"];
/// Parts of the statements that read the bindings.
pub const LOADING: [&str; 3] = ["BEGIN", "SET LOCAL", "COMMIT"];

impl Database {
    /// Makes the database refuse a subscriber.
    pub async fn refuse(&self, username: &str) {
        self.execute(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by a test'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON subscriber FOR EACH ROW WHEN (NEW.username = '{username}') \
             EXECUTE FUNCTION refuse()"
        ));
    }

    /// Writes hashes of one byte for a subscriber.
    pub async fn damage_hashes(&self, username: &str) {
        self.execute(&format!(
            "UPDATE subscriber SET ha1_md5 = '\\x00', ha1_sha256 = '\\x00' WHERE username = '{username}'"
        ));
    }

    /// Ends the session that reserves the name of node `a`.
    pub fn break_reservation(&self) {
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name LIKE 'tandem node a, %'",
        );
    }
}
