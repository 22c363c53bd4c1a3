//! Prefixes from tables and views that others have made.

use crate::Database;
use crate::database::QUOTE;
use std::collections::BTreeSet;
use tandem_store::{ColumnName, PrefixSource, Store, StoreError, TableName};

fn table(name: &str) -> TableName {
    name.parse().expect("a name")
}

fn column(name: &str) -> ColumnName {
    name.parse().expect("a name")
}

/// All rows, sorted, as `callers|prefix|groups`.
async fn read(store: &Store, source: &PrefixSource) -> Result<Vec<String>, StoreError> {
    let (mut rows, mut numbers) = (Vec::new(), BTreeSet::new());
    let count = store.read_prefixes(source, |row| {
        numbers.insert(row.number);
        rows.push(format!("{}|{}|{}", row.callers, row.prefix, row.groups));
    });
    let count = count.await?;
    assert_eq!(count, rows.len() as u64);
    assert!(
        numbers.into_iter().eq(1..=rows.len() as u32),
        "from 1, in order"
    );
    rows.sort();
    Ok(rows)
}

/// The message of a table that cannot be read. The store works afterwards.
async fn refused(store: &Store, source: &PrefixSource) -> String {
    let error = read(store, source).await.expect_err("cannot be read");
    let StoreError::Table { table, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*table, source.table.to_string());
    assert!(!error.is_temporary(), "{error}");
    store.subscribers().count(None).await.expect("still works");
    error.to_string()
}

#[tokio::test]
async fn prefixes_are_read_whatever_the_types_of_their_columns_and_absent_values_are_empty() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("CREATE TABLE prefixes (prefix BIGINT, groups VARCHAR(90), callers CHAR(8))")
        .await;
    database
        .run(
            "INSERT INTO prefixes VALUES (49, 'berlin; munich', 'retail'), (4930, 'b\u{e9}rlin', ''), (NULL, 'x', NULL), (1, NULL, NULL)",
        )
        .await;
    let mut source = PrefixSource::new(table("prefixes"));
    assert_eq!(
        read(&store, &source).await.expect("reads"),
        ["|1|", "|4930|b\u{e9}rlin", "|49|berlin; munich", "||x"]
    );
    source.callers = Some(column("callers"));
    assert_eq!(
        read(&store, &source).await.expect("reads"),
        [
            "retail|49|berlin; munich",
            "|1|",
            "|4930|b\u{e9}rlin",
            "||x"
        ]
    );
}

#[tokio::test]
async fn a_view_is_read_like_a_table_and_an_empty_one_has_no_rows() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("CREATE TABLE numbers (number VARCHAR(32), carrier INTEGER)")
        .await;
    database
        .run("CREATE VIEW routes AS SELECT number AS prefix, CASE carrier WHEN 1 THEN 'one' ELSE 'other' END AS groups FROM numbers")
        .await;
    let source = PrefixSource::new(table("routes"));
    assert!(read(&store, &source).await.expect("reads").is_empty());
    database
        .run("INSERT INTO numbers VALUES ('49', 1), ('+1', 2)")
        .await;
    let rows = read(&store, &source).await.expect("reads");
    assert_eq!(rows, ["|+1|other", "|49|one"]);
}

#[tokio::test]
async fn names_may_be_key_words_and_contain_spaces_and_quotes() {
    let database = Database::new();
    let store = database.store().await;
    let (q, two) = (QUOTE, format!("{QUOTE}{QUOTE}"));
    database
        .run(&format!(
            "CREATE TABLE {q}my {two}Table{q} ({q}order{q} VARCHAR(9), {q}select{q} VARCHAR(9))"
        ))
        .await;
    database
        .run(&format!(
            "INSERT INTO {q}my {two}Table{q} VALUES ('49', 'berlin')"
        ))
        .await;
    let source = PrefixSource {
        table: table(&format!("my {QUOTE}Table")),
        callers: None,
        prefix: column("order"),
        groups: column("select"),
    };
    assert_eq!(read(&store, &source).await.expect("reads"), ["|49|berlin"]);
}

#[tokio::test]
async fn a_missing_table_or_column_is_named() {
    let database = Database::new();
    let store = database.store().await;
    let mut source = PrefixSource::new(table("prefixes"));
    let message = refused(&store, &source).await;
    assert!(
        message.starts_with("cannot read the table prefixes of the database "),
        "{message}"
    );
    assert!(
        message.contains("configured names") && message.contains("SELECT"),
        "{message}"
    );
    database
        .run("CREATE TABLE prefixes (prefix VARCHAR(32), groups VARCHAR(90))")
        .await;
    database
        .run("INSERT INTO prefixes VALUES ('49', 'a')")
        .await;
    assert_eq!(read(&store, &source).await.expect("reads").len(), 1);
    source.groups = column("carriers");
    let message = refused(&store, &source).await;
    assert!(message.contains("carriers"), "{message}");
    source.table = table("elsewhere.prefixes");
    let message = refused(&store, &source).await;
    assert!(message.contains("configured names"), "{message}");
}

/// The last row is too long, and the rest of the answer is not waited for.
#[tokio::test]
async fn a_value_that_is_too_long_rejects_the_table_with_the_row_and_the_column() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("CREATE TABLE prefixes (prefix TEXT, groups TEXT)")
        .await;
    let longest = "\u{e9}".repeat(4_096);
    database
        .run(&format!(
            "INSERT INTO prefixes VALUES ('{}', '{longest}')",
            "1".repeat(256)
        ))
        .await;
    let source = PrefixSource::new(table("prefixes"));
    let rows = read(&store, &source).await.expect("fits");
    assert!(rows.concat().ends_with(&longest));
    for (values, what) in [
        (
            format!("'{}', 'a'", "1".repeat(257)),
            "row 2 has more than 256 characters in prefix",
        ),
        (
            format!("'1', '{longest}x'"),
            "row 2 has more than 4096 characters in groups",
        ),
    ] {
        database
            .run(&format!("INSERT INTO prefixes VALUES ({values})"))
            .await;
        let message = refused(&store, &source).await;
        assert!(
            message.contains(what) && message.contains("correct the rows"),
            "{message}"
        );
        database
            .run("DELETE FROM prefixes WHERE groups = 'a'")
            .await;
    }
}

#[tokio::test]
async fn many_rows_are_streamed_and_a_stream_may_be_broken_off() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("CREATE TABLE prefixes (prefix VARCHAR(300), groups VARCHAR(90))")
        .await;
    let values = |from: u32| {
        let rows = (from..from + 10_000).map(|number| format!("('{number}', 'a')"));
        rows.collect::<Vec<_>>().join(", ")
    };
    for from in [100_000, 200_000] {
        database
            .run(&format!("INSERT INTO prefixes VALUES {}", values(from)))
            .await;
    }
    let source = PrefixSource::new(table("prefixes"));
    assert_eq!(read(&store, &source).await.expect("reads").len(), 20_000);
    let long = format!(
        "UPDATE prefixes SET prefix = '{}' WHERE prefix = '100000'",
        "1".repeat(257)
    );
    database.run(&long).await;
    for _ in 0..10 {
        refused(&store, &source).await;
    }
}
