//! Measures how fast prefixes are read from the database and become a table: `cargo bench -p tandem-store --bench prefixes [-- ROWS] [URL]`
//! (default: 300,000 rows, in a new `SQLite` file). The database of a URL must be empty.
//! PostgreSQL on the same machine, two processors that others used too: 0.31 to 0.37 s to read 300,000 rows, 0.38 to 0.46 s with the table.

use sip_routing::prefix::Builder;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};
use std::hint::black_box;
use std::time::Instant;
use tandem_store::{PrefixSource, Store};

/// Rows of a statement that inserts.
const BATCH: u32 = 5_000;
const REPEATS: u32 = 5;
const GROUPS: [&str; 3] = ["berlin", "munich", "hamburg"];

fn main() {
    let mut words = std::env::args().skip(1);
    let rows = words.find_map(|word| word.parse().ok()).unwrap_or(300_000);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.db");
    let url = std::env::args().find(|word| word.contains("://"));
    let url = url.unwrap_or_else(|| format!("sqlite:{}", file.display()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(&url, rows));
}

async fn measure(url: &str, rows: u32) {
    let store = Store::open(url).await.expect("opens");
    fill(url, rows).await;
    let source = PrefixSource::new("prefixes".parse().expect("a name"));
    for _ in 0..REPEATS {
        let begun = Instant::now();
        let mut length = 0;
        let read = store.read_prefixes(&source, |row| length += row.prefix.len());
        assert_eq!(read.await.expect("reads"), u64::from(rows));
        let read_only = begun.elapsed();
        let begun = Instant::now();
        let mut builder = Builder::new(GROUPS);
        let read = store.read_prefixes(&source, |row| {
            builder.row(row.number, row.callers, row.prefix, row.groups);
        });
        read.await.expect("reads");
        let table = builder.build().expect("has no bad rows");
        println!(
            "{rows} rows: read {:.3} s; read and built {:.3} s",
            read_only.as_secs_f64(),
            begun.elapsed().as_secs_f64()
        );
        black_box((table, length));
    }
    store.close().await;
}

/// Makes the table. Its prefixes have 4 to 9 digits.
async fn fill(url: &str, rows: u32) {
    run(
        url,
        "CREATE TABLE prefixes (prefix VARCHAR(32), groups VARCHAR(128))".to_owned(),
    )
    .await;
    for start in (0..rows).step_by(BATCH as usize) {
        let values = (start..rows.min(start + BATCH)).map(|number| {
            let group = GROUPS[number as usize % GROUPS.len()];
            format!("('49{}', '{group}')", number + 30)
        });
        let values: Vec<String> = values.collect();
        run(
            url,
            format!("INSERT INTO prefixes VALUES {}", values.join(", ")),
        )
        .await;
    }
}

async fn run(url: &str, sql: String) {
    let sql = AssertSqlSafe(sql);
    let done = match url.split(':').next() {
        Some("postgres") => {
            let mut connection = PgConnection::connect(url).await.expect("connects");
            sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
        }
        Some("mysql") => {
            let mut connection = MySqlConnection::connect(url).await.expect("connects");
            sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
        }
        _ => {
            let mut connection = SqliteConnection::connect(url).await.expect("connects");
            sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
        }
    };
    done.expect("executes");
}
