//! A database with the tables of Kamailio.

use crate::Database;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};

/// What `kamdbctl create` runs.
const FOLDER: &str = "/usr/share/kamailio/mysql";

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
pub const WHOLE_NUMBERS: &[&str] = &["BIGINT", "INTEGER", "INTEGER UNSIGNED", "BIGINT UNSIGNED"];

/// Replaces `address`.
pub const WRITING_VIEW: &str = "CREATE TABLE written (id INTEGER); \
    CREATE FUNCTION write_it() RETURNS INTEGER BEGIN INSERT INTO written VALUES (1); RETURN 1; END; \
    DROP TABLE address; \
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
        database.execute("CREATE USER IF NOT EXISTS 'reader'@'%' IDENTIFIED BY 'secret'");
        for table in TABLES {
            database.allow_reading(table);
        }
        database
    }

    pub fn allow_reading(&self, table: &str) {
        self.execute(&format!("GRANT SELECT ON {table} TO 'reader'@'%'"));
    }

    pub fn reader_url(&self) -> String {
        self.url_of("reader:secret")
    }

    pub fn forbid_addresses(&self) {
        self.execute("REVOKE SELECT ON address FROM 'reader'@'%'");
    }

    /// The tables with a sum of all rows.
    pub async fn contents(&self) -> String {
        let mut connection = MySqlConnection::connect(&self.url())
            .await
            .expect("connects");
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
        )
        .fetch_all(&mut connection)
        .await
        .expect("reads");
        let sums = format!("CHECKSUM TABLE {}", tables.join(", "));
        let sums = sqlx::query(AssertSqlSafe(sums)).fetch_all(&mut connection);
        let sums = sums.await.expect("reads");
        let sums: Vec<(String, Option<i64>)> =
            sums.iter().map(|row| (row.get(0), row.get(1))).collect();
        format!("{sums:?}")
    }
}
