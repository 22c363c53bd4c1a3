//! The table of call records, as reports read it.

use crate::Database;
use crate::contract::records::record;
use sqlx::ConnectOptions as _;

#[tokio::test]
async fn every_field_is_in_its_column() {
    let database = Database::new();
    let store = database.store().await;
    let batch = [record(60_000)];
    store.records().append(&batch).await.expect("appends");
    let mut connection = database.options().connect().await.expect("connects");
    let row: String = sqlx::query_scalar(
        "SELECT concat_ws('|', id, node, call_id, from_uri, from_tag, to_uri, to_tag, request_uri, identity, source, source_transport, \
         destination, destination_transport, attempts, started, ringing, answered, ended, status, ended_by, reason) FROM call_record",
    )
    .fetch_one(&mut connection)
    .await
    .expect("reads");
    let expected = "0000000000000000000000000000ea60|tandem|call-60000@192.0.2.7|sip:älice@example.org|a1|sip:bob@example.org|b1|\
                    sip:bob@example.org';--\u{fffd}|alice@example.org|192.0.2.7:5060|udp|[2001:db8::9]:5061|tls|65535|\
                    0|1|2|60000|200|callee|Q.850;cause=16";
    assert_eq!(row, expected);
}

/// As after an I/O error, such as that of a full disk.
#[tokio::test]
async fn a_transaction_that_the_database_rolls_back_leaves_no_connection_unusable() {
    let database = Database::new();
    let store = database.store().await;
    database
        .execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON call_record \
             BEGIN SELECT RAISE(ROLLBACK, 'refused by a test'); END",
        )
        .await;
    let batch = [record(1)];
    for _ in 0..10 {
        let refused = store.records().append(&batch).await;
        let problem = refused.expect_err("refused").to_string();
        assert!(problem.contains("refused by a test"), "{problem}");
    }
    database.execute("DROP TRIGGER refuse").await;
    for _ in 0..10 {
        store.records().append(&batch).await.expect("appends");
    }
}
