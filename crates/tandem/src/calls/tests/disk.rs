//! A disk that becomes full in the middle of a batch, in a process of its own: the limit on the size of files stands for the disk.
use super::{Calls, PATIENCE, until};
use crate::calls::records::Destination;
use crate::calls::sample::ended;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::process::Command;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Tells the test that it runs in a process of its own. The server would take a name that begins with `TANDEM_` for a key.
const CHILD: &str = "TEST_OF_A_FULL_DISK";
/// Not a multiple of the length of a record.
const LIMIT: u64 = 50_001;

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit {
        current: bytes.or(maximum),
        maximum,
    };
    setrlimit(Resource::Fsize, limit).expect("limited");
}

#[tokio::test]
async fn a_disk_that_becomes_full_cuts_no_record_and_loses_none() {
    if std::env::var_os(CHILD).is_some() {
        return on_a_disk_that_becomes_full().await;
    }
    let own = std::env::current_exe().expect("a path");
    let name = "calls::tests::disk::a_disk_that_becomes_full_cuts_no_record_and_loses_none";
    let mut child = Command::new(own);
    let child = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

async fn on_a_disk_that_becomes_full() {
    // As the server does: a write beyond the limit fails, and the signal does not end the process.
    let _held = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).expect("a handler");
    let calls = Calls::start("[records]\nfile = \"DIR/calls.jsonl\"\n").await;
    let control = Arc::clone(&calls.control);
    let counters = control.records.of(Destination::File);
    limit(Some(LIMIT));
    for number in 0..300 {
        calls.offer([ended(number)]);
    }
    until("the disk is full", || counters.is_failing()).await;
    let file = calls.path("calls.jsonl");
    let whole = super::numbers(&file);
    assert!(whole.len() < 300);
    assert!(std::fs::metadata(&file).expect("a file").len() <= LIMIT);
    limit(None);
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all);
    assert_eq!(left.recorded(), (0..300).collect::<Vec<_>>());
}
