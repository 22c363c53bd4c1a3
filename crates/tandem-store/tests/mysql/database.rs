//! How the tests address MariaDB, what it says, and how they damage its tables.
#![expect(clippy::unused_async, reason = "the contract tests await it")]

use crate::Database;

/// The user of the tests, and its password.
pub const ADMINISTRATOR: &str = "tandem:secret";
/// A database that every server has.
pub const FIRST_DATABASE: &str = "mysql";
/// Begins and ends names.
pub const QUOTE: char = '`';
/// The beginning of a URL.
pub const SCHEME: &str = "mysql";
/// Part of the message about a wrong password.
pub const WRONG_PASSWORD: &str = "Access denied";
/// Parts of the message about a missing database.
pub const NO_DATABASE: [&str; 2] = ["Unknown database", "CREATE DATABASE"];
/// A part of the statement that reads the bindings.
pub const LOADING: [&str; 1] = ["FROM location"];

impl Database {
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

    /// Ends the session that reserves the name of node `a`.
    pub fn break_reservation(&self) {
        self.execute(
            "EXECUTE IMMEDIATE CONCAT('KILL ', IS_USED_LOCK(CONCAT('tandem ', SHA1(CONCAT(DATABASE(), ' ', 'a')))))",
        );
    }
}
