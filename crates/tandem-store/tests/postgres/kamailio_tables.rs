//! A database with the tables of Kamailio.

use crate::Database;
use sqlx::{Connection, PgConnection};

/// What `kamdbctl create` runs.
const FOLDER: &str = "/usr/share/kamailio/postgres";

/// The modules with tables.
const MODULES: [&str; 7] = [
    "standard",
    "auth_db",
    "usrloc",
    "permissions",
    "dispatcher",
    "mtree",
    "pdt",
];

/// What Tandem may read.
const TABLES: [&str; 7] = [
    "subscriber",
    "location",
    "address",
    "dispatcher",
    "mtree",
    "mtrees",
    "pdt",
];

/// Types of a column for seconds.
pub const WHOLE_NUMBERS: &[&str] = &["BIGINT", "INTEGER"];

/// Replaces `address`.
pub const WRITING_VIEW: &str = "CREATE TABLE written (id INTEGER); \
    CREATE FUNCTION write_it() RETURNS INTEGER LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO written VALUES (1); RETURN 1; END $$; \
    ALTER TABLE address RENAME TO address_table; \
    CREATE VIEW address AS SELECT 1 AS id, write_it() AS grp, '192.0.2.7' AS ip_addr, 32 AS mask, 0 AS port";

impl Database {
    pub fn of_kamailio() -> Self {
        let database = Self::new();
        for module in MODULES {
            let file = format!("{FOLDER}/{module}-create.sql");
            let sql = std::fs::read_to_string(&file);
            database.execute(
                &sql.unwrap_or_else(|error| panic!("{file}: {error}; run scripts/setup test")),
            );
        }
        database.execute(
            "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
        );
        for table in TABLES {
            database.allow_reading(table);
        }
        database
    }

    pub fn allow_reading(&self, table: &str) {
        self.execute(&format!("GRANT SELECT ON {table} TO reader"));
    }

    pub fn reader_url(&self) -> String {
        self.url_of("reader")
    }

    pub fn forbid_addresses(&self) {
        self.execute("REVOKE SELECT ON address FROM reader");
    }

    /// The tables with all rows.
    pub async fn contents(&self) -> String {
        let mut connection = PgConnection::connect(&self.url()).await.expect("connects");
        sqlx::query_scalar("SELECT database_to_xml(false, false, '')::text")
            .fetch_one(&mut connection)
            .await
            .expect("reads")
    }
}
