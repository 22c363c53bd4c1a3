//! Records of ended calls: one line of a file or one row of the database for each.
//!
//! Each destination has a queue of its own and a writer, which writes batches, keeps trying while writing fails, and resumes by itself.

mod counters;
mod file;
mod lines;
mod retention;
mod rows;
mod writer;

pub use counters::{Destination, DestinationCounters, Loss, RecordCounters};

use super::dispatch::Queue;
use super::queue::{self, Bounds};
use crate::config::Records;
use crate::control::Control;
use file::RecordFile;
use rows::RecordRows;
use std::sync::Arc;
use std::time::Duration;
use tandem_store::Store;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::error;
use writer::Writer;

/// Records that may wait for one destination, whatever their bytes.
const WAITING: usize = 1 << 20;

/// Where the configuration wants records.
pub(super) fn destinations(records: &Records) -> Vec<Destination> {
    let file = records.file.is_some().then_some(Destination::File);
    let database = records.database.then_some(Destination::Database);
    file.into_iter().chain(database).collect()
}

/// The running writers.
#[derive(Debug)]
pub(super) struct Writers {
    control: Arc<Control>,
    tasks: Vec<(Destination, JoinHandle<()>)>,
    retention: Option<JoinHandle<()>>,
}

/// Starts a writer for each destination. It ends when its queue is dropped.
pub(super) fn start(control: &Arc<Control>, store: &Store) -> (Vec<Queue>, Writers) {
    let configuration = control.configuration.load_full();
    let records = &configuration.records;
    let mut queues = Vec::new();
    let mut tasks = Vec::new();
    for destination in destinations(records) {
        let bounds = Bounds {
            items: WAITING,
            bytes: records.queue,
        };
        let level = Arc::clone(control.records.of(destination).level());
        let (queue, records_of_queue) = queue::bounded(bounds, level);
        queues.push((destination, queue));
        let writer = Writer::new(Arc::clone(control), destination, records_of_queue);
        tasks.push((
            destination,
            match (destination, &records.file) {
                (Destination::File, Some(path)) => {
                    tokio::spawn(writer.run(lines::Lines::new(RecordFile::new(path.0.clone()))))
                }
                _ => tokio::spawn(writer.run(RecordRows::new(store.clone()))),
            },
        ));
    }
    let retention = records.database.then(|| {
        let (control, store) = (Arc::clone(control), store.clone());
        tokio::spawn(retention::run(control, store))
    });
    let writers = Writers {
        control: Arc::clone(control),
        tasks,
        retention,
    };
    (queues, writers)
}

impl Writers {
    /// Waits until everything is written, at most for `patience`. Returns whether it is; what is not is counted as lost.
    pub(super) async fn finish(self, patience: Duration) -> bool {
        if let Some(retention) = &self.retention {
            retention.abort();
        }
        let deadline = Instant::now() + patience;
        let mut all = true;
        for (destination, mut task) in self.tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
            let counters = self.control.records.of(destination);
            let left = counters.level().items();
            if left > 0 {
                counters.lost(Loss::Stopping).inc_by(left);
                error!(
                    to = destination.label(),
                    left, "call records were not written in time"
                );
                all = false;
            }
        }
        all
    }
}
