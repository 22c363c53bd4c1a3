//! Takes records from the queue of one destination and writes them in batches, until they are written.
use super::counters::{Destination, DestinationCounters, Loss};
use crate::calls::SharedEvent;
use crate::calls::queue::Receiver;
use crate::control::Control;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info};

/// Records of one batch. It bounds what a failed write repeats, and how long the database is locked.
const BATCH: usize = 500;
/// How long a batch gathers. What the process holds this long is lost if it is killed.
const GATHER: Duration = Duration::from_millis(50);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// What records are written to.
pub(super) trait Sink: Send + 'static {
    /// Writes all records of a batch, or none. A batch whose write failed is written again.
    fn write(
        &mut self,
        batch: &Arc<[SharedEvent]>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Waits until the disk has what was written.
    fn sync(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Since when something has been written that [`Sink::sync`] has not made sure of.
    fn unsynced_since(&self) -> Option<Instant>;

    /// Opens anew what it writes to.
    fn reopen(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The writer of one destination.
pub(super) struct Writer {
    control: Arc<Control>,
    destination: Destination,
    queue: Receiver<SharedEvent>,
}

impl Writer {
    pub(super) const fn new(
        control: Arc<Control>,
        destination: Destination,
        queue: Receiver<SharedEvent>,
    ) -> Self {
        Self {
            control,
            destination,
            queue,
        }
    }

    /// Writes until the queue is dropped and empty.
    pub(super) async fn run(mut self, mut sink: impl Sink) {
        // A wrong path is reported at the start, not at the end of the first call.
        self.reopen(&mut sink).await;
        let control = Arc::clone(&self.control);
        let counters = control.records.of(self.destination);
        let mut batch = Vec::new();
        loop {
            let due = sync_due(
                sink.unsynced_since(),
                control.configuration.load().records.sync_interval,
            );
            tokio::select! {
                more = self.queue.take(&mut batch, BATCH) => {
                    if !more {
                        break;
                    }
                    self.write(std::mem::take(&mut batch), &mut sink).await;
                    let interval = control.configuration.load().records.sync_interval;
                    if sink.unsynced_since().is_some_and(|since| since.elapsed() >= interval) {
                        self.sync(&mut sink).await;
                    }
                }
                () = due => self.sync(&mut sink).await,
                () = counters.reopen.notified() => self.reopen(&mut sink).await,
            }
        }
        self.sync(&mut sink).await;
    }

    async fn write(&mut self, mut batch: Vec<SharedEvent>, sink: &mut impl Sink) {
        if batch.len() < BATCH {
            sleep(GATHER).await;
            self.queue.take_waiting(&mut batch, BATCH);
        }
        let control = Arc::clone(&self.control);
        let counters = control.records.of(self.destination);
        counters.hold(batch.first().and_then(|event| event.call.ended));
        let batch: Arc<[SharedEvent]> = batch.into();
        let mut pause = PAUSES.0;
        while let Err(problem) = sink.write(&batch).await {
            self.failed(&problem);
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(PAUSES.1),
                () = counters.reopen.notified() => {
                    // Whether it works now is for the next attempt to find out.
                    if let Err(problem) = sink.reopen().await {
                        self.failed(&problem);
                    }
                }
            }
        }
        self.works(counters);
        counters.written().inc_by(batch.len() as u64);
        self.queue.done(&batch);
        counters.hold(None);
    }

    async fn sync(&self, sink: &mut impl Sink) {
        if let Err(problem) = sink.sync().await {
            self.failed(&problem);
        }
    }

    async fn reopen(&self, sink: &mut impl Sink) {
        match sink.reopen().await {
            Ok(()) => self.works(self.control.records.of(self.destination)),
            Err(problem) => self.failed(&problem),
        }
    }

    /// Logs the first failure of a series.
    fn failed(&self, problem: &anyhow::Error) {
        let to = self.destination.label();
        if self.control.records.of(self.destination).set_failing(true) {
            error!(
                to,
                "cannot write call records: {problem:#}; calls go on, and records wait in memory up to `records.queue`"
            );
        }
    }

    fn works(&self, counters: &DestinationCounters) {
        let to = self.destination.label();
        if counters.set_failing(false) {
            info!(to, "writing call records works again");
        }
        if counters.end_gap() {
            let lost = counters.lost(Loss::QueueFull).get();
            error!(
                to,
                lost, "call records are missing; `lost` is their number since the start"
            );
        }
    }
}

/// Waits until what was written must be synced; forever if nothing was.
async fn sync_due(unsynced_since: Option<Instant>, interval: Duration) {
    match unsynced_since {
        Some(since) => sleep_until(since + interval).await,
        None => std::future::pending().await,
    }
}
