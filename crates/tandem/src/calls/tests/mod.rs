//! Records and events of calls in the parts of a server that handle them, with events as workers send them.

mod disk;
mod publishing;
mod push;
mod reader;
mod record;
mod redis;

use super::{CallSender, Recording, channel};
use crate::config;
use crate::control::Control;
use sip_dialog::CallEvent;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::Store;
use tempfile::TempDir;

/// Time limit of a test's waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// What handles the events of calls, as the server starts it.
struct Calls {
    directory: TempDir,
    control: Arc<Control>,
    store: Store,
    sender: CallSender,
    recording: Recording,
}

impl Calls {
    /// Starts with these lines of configuration, in which `DIR` stands for the directory of the test.
    async fn start(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let control = control(directory.path(), lines);
        let url = format!("sqlite:{}", directory.path().join("t.db").display());
        let store = Store::open(&url).await.expect("opens");
        let (sender, events) = channel(&control);
        let recording = Recording::start(&control, &store, events);
        Self {
            directory,
            control,
            store,
            sender,
            recording,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn offer(&self, events: impl IntoIterator<Item = CallEvent>) {
        for event in events {
            // A full queue is counted.
            let _ = self.sender.offer(event);
        }
    }

    /// Ends as the server does once its workers have stopped. Returns whether all records are written.
    async fn finish(self, patience: Duration) -> (bool, Finished) {
        let Self {
            directory,
            control,
            store,
            sender,
            recording,
        } = self;
        drop(sender);
        let finished = Finished {
            directory,
            control,
            store,
        };
        (recording.finish(patience).await, finished)
    }
}

/// What is left after the end.
struct Finished {
    directory: TempDir,
    control: Arc<Control>,
    store: Store,
}

impl Finished {
    /// The numbers of the calls in the file of records.
    fn recorded(&self) -> Vec<u64> {
        numbers(&self.directory.path().join("calls.jsonl"))
    }
}

/// The numbers of the calls in a file. Every line must be a record.
fn numbers(file: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(file).expect("a file");
    assert!(text.is_empty() || text.ends_with('\n'), "a cut line");
    let number = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).expect(line);
        let id = record["id"].as_str().expect("a text");
        u64::from_str_radix(id, 16).expect("a number")
    };
    text.lines().map(number).collect()
}

fn control(directory: &Path, lines: &str) -> Arc<Control> {
    let lines = lines.replace("DIR", &directory.display().to_string());
    let file = directory.join("tandem.toml");
    std::fs::write(&file, format!("{lines}\n")).expect("written");
    let configuration = config::load(Some(&file)).expect("a valid configuration");
    Arc::new(Control::new(Some(file), configuration, None))
}

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
