//! Records reach the file and the database, whatever happens to these.
use super::{Calls, PATIENCE, numbers, until};
use crate::calls::records::{Destination, Loss};
use crate::calls::sample::{ended, refused};
use crate::config::{Configuration, RecordedFailures};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const BOTH: &str = "[records]\nfile = \"DIR/calls.jsonl\"\ndatabase = true\n";
const FILE: &str = "[records]\nfile = \"DIR/calls.jsonl\"\n";

#[tokio::test]
async fn all_records_are_written_before_the_end() {
    let calls = Calls::start(BOTH).await;
    calls.offer((0..3_000).map(ended));
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all);
    assert_eq!(left.recorded(), (0..3_000).collect::<Vec<_>>());
    assert_eq!(left.store.records().count().await.expect("counts"), 3_000);
    for destination in Destination::ALL {
        let counters = left.control.records.of(destination);
        assert_eq!(counters.written().get(), 3_000);
        let level = counters.level();
        assert_eq!((level.items(), level.bytes()), (0, 0));
        assert_eq!(counters.lag(left.control.clock.now()), Duration::ZERO);
    }
}

#[tokio::test]
async fn a_reload_decides_whether_failed_calls_are_recorded() {
    let calls = Calls::start(FILE).await;
    let written = || calls.control.records.of(Destination::File).written().get();
    calls.offer([refused(1), ended(2)]);
    until("the answered call is recorded", || written() == 1).await;
    let mut configuration = Configuration::clone(&calls.control.configuration.load());
    configuration.records.failed = RecordedFailures::All;
    calls.control.configuration.store(Arc::new(configuration));
    calls.offer([refused(3), ended(4)]);
    let (_, left) = calls.finish(PATIENCE).await;
    assert_eq!(left.recorded(), [2, 3, 4]);
}

#[tokio::test]
async fn records_wait_for_a_missing_directory_and_are_written_once_it_exists() {
    let calls = Calls::start("[records]\nfile = \"DIR/later/calls.jsonl\"\n").await;
    let control = Arc::clone(&calls.control);
    until("the problem is known", || {
        !control.records.problems().is_empty()
    })
    .await;
    calls.offer((0..100).map(ended));
    let counters = control.records.of(Destination::File);
    until("the writer holds them", || {
        counters.lag(control.clock.now()) > Duration::ZERO || counters.level().items() == 100
    })
    .await;
    fs::create_dir(calls.path("later")).expect("created");
    control.records.reopen();
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all && control.records.problems().is_empty());
    let file = left.directory.path().join("later/calls.jsonl");
    assert_eq!(numbers(&file), (0..100).collect::<Vec<_>>());
    assert_eq!(counters.lost(Loss::QueueFull).get(), 0);
}

#[tokio::test]
async fn with_a_full_disk_the_queue_is_bounded_and_the_loss_is_counted() {
    let calls = Calls::start("[records]\nfile = \"/dev/full\"\nqueue = 65536\n").await;
    calls.offer((0..1_000).map(ended));
    let control = Arc::clone(&calls.control);
    let counters = control.records.of(Destination::File);
    until("the queue overflows", || {
        counters.lost(Loss::QueueFull).get() > 0
    })
    .await;
    until("the failure is known", || counters.is_failing()).await;
    assert!(counters.level().bytes() <= 65_536);
    let (all, _) = calls.finish(Duration::from_millis(300)).await;
    assert!(!all);
    let lost = Loss::ALL.map(|loss| counters.lost(loss).get());
    assert_eq!(counters.written().get(), 0);
    assert_eq!(lost.iter().sum::<u64>(), 1_000);
    assert!(lost.iter().all(|lost| *lost > 0), "{lost:?}");
}

#[tokio::test]
async fn a_renamed_file_keeps_its_records_and_the_next_ones_go_to_a_new_file() {
    let calls = Calls::start(FILE).await;
    let written = || calls.control.records.of(Destination::File).written().get();
    calls.offer((0..10).map(ended));
    until("they are written", || written() == 10).await;
    fs::rename(calls.path("calls.jsonl"), calls.path("calls.1")).expect("renamed");
    calls.control.records.reopen();
    until("the file is there", || calls.path("calls.jsonl").exists()).await;
    calls.offer((10..20).map(ended));
    let (_, left) = calls.finish(PATIENCE).await;
    assert_eq!(
        numbers(&left.directory.path().join("calls.1")),
        (0..10).collect::<Vec<_>>()
    );
    assert_eq!(left.recorded(), (10..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn records_that_the_database_refuses_are_saved_once_it_takes_them() {
    let calls = Calls::start("[records]\ndatabase = true\n").await;
    let execute = async |sql: &str| {
        let options = SqliteConnectOptions::new().filename(calls.path("t.db"));
        let mut connection = options.connect().await.expect("connects");
        let executed = sqlx::query(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await;
        executed.expect("executes");
        connection.close().await.expect("closes");
    };
    execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON call_record WHEN NEW.call_id LIKE 'call-7@%' \
         BEGIN SELECT RAISE(ABORT, 'refused by a test'); END",
    )
    .await;
    calls.offer((0..10).map(ended));
    let control = Arc::clone(&calls.control);
    let counters = control.records.of(Destination::Database);
    until("the failure is known", || counters.is_failing()).await;
    assert_eq!(calls.store.records().count().await.expect("counts"), 0);
    execute("DROP TRIGGER refuse").await;
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all && !counters.is_failing());
    assert_eq!(left.store.records().count().await.expect("counts"), 10);
}
