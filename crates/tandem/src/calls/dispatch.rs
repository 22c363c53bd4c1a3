//! Distributes the events of the workers to the writers of records, the log, the readers of events and the publisher.
use super::SharedEvent;
use super::log::{self, CallLog};
use super::publishing::{self, Publication, PublishLoss, Publishing};
use super::queue::{self, Bounds, Level, Receiver, Sender};
use super::records::{self, Destination, Loss, RecordCounters, Writers};
use crate::config::RecordedFailures;
use crate::control::Control;
use sip_dialog::{CallEvent, CallRecord, Change};
use std::sync::Arc;
use std::time::Duration;
use tandem_store::Store;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::error;

/// What may wait for the dispatcher, which only distributes and is soon done.
const WAITING: Bounds = Bounds {
    items: 65_536,
    bytes: 32 << 20,
};
/// Events that the dispatcher takes at once.
const BATCH: usize = 1_024;
/// How long events gather. While the dispatcher sleeps, no event of a worker wakes it: a wake-up costs more than the event.
const GATHER: Duration = Duration::from_millis(10);
/// Time limit of the dispatcher once the workers have stopped.
const LAST_DISPATCH: Duration = Duration::from_secs(2);
/// Time limit of the last lines of the log.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The workers' end.
#[derive(Clone, Debug)]
pub(crate) struct CallSender {
    queue: Sender<CallEvent>,
    control: Arc<Control>,
    /// Where records go.
    destinations: Vec<Destination>,
    /// Whether events are published.
    publishes: bool,
}

/// Creates the queue between the workers and [`Recording`].
pub(crate) fn channel(control: &Arc<Control>) -> (CallSender, Receiver<CallEvent>) {
    let (queue, events) = queue::bounded(WAITING, Arc::<Level>::default());
    let configuration = control.configuration.load();
    let sender = CallSender {
        queue,
        control: Arc::clone(control),
        destinations: records::destinations(&configuration.records),
        publishes: configuration.events.publish.is_some(),
    };
    (sender, events)
}

impl CallSender {
    /// Passes an event on if anything wants it. It never waits.
    ///
    /// # Errors
    /// The queue is full. The event is returned, and its loss is counted for records and for the publisher.
    pub(crate) fn offer(&self, event: CallEvent) -> Result<(), CallEvent> {
        let is_record = is_end(&event) && !self.destinations.is_empty();
        let is_wanted = is_record
            || self.publishes
            || self.control.events.is_wanted()
            || self.is_logged(&event);
        if !is_wanted {
            return Ok(());
        }
        self.queue.try_send(event).inspect_err(|_| {
            if is_record {
                for destination in &self.destinations {
                    let counters = self.control.records.of(*destination);
                    counters.lost(Loss::QueueFull).inc();
                }
            }
            if self.publishes {
                let counters = &self.control.publishing;
                counters.lost(PublishLoss::QueueFull).inc();
            }
        })
    }

    fn is_logged(&self, event: &CallEvent) -> bool {
        log::is_wanted(self.control.configuration.load().log.calls, event.change)
    }
}

const fn is_end(event: &CallEvent) -> bool {
    matches!(event.change, Change::Ended(_))
}

/// The running tasks.
#[derive(Debug)]
pub(crate) struct Recording {
    dispatcher: JoinHandle<()>,
    lines: JoinHandle<()>,
    writers: Writers,
    publication: Option<Publication>,
}

impl Recording {
    /// Starts to record, to log, to push and to publish. It ends with the last [`CallSender`].
    pub(crate) fn start(
        control: &Arc<Control>,
        store: &Store,
        events: Receiver<CallEvent>,
    ) -> Self {
        let (queues, writers) = records::start(control, store);
        let (log, lines) = CallLog::start(control);
        let (publishing, publication) = publishing::start(control).unzip();
        let dispatcher = Dispatcher {
            control: Arc::clone(control),
            queues,
            log,
            publishing,
        };
        Self {
            dispatcher: tokio::spawn(dispatcher.run(events)),
            lines,
            writers,
            publication,
        }
    }

    /// Waits until all records are written, at most for `patience`. The workers must have stopped. Returns whether all are written.
    pub(crate) async fn finish(self, patience: Duration) -> bool {
        let dispatched = timeout(LAST_DISPATCH, self.dispatcher).await.is_ok();
        let publish = async {
            if let Some(publication) = self.publication {
                publication.finish().await;
            }
        };
        let (recorded, ()) = tokio::join!(self.writers.finish(patience), publish);
        // Lines that the log does not take in time are missing, which does no harm.
        let _ = timeout(LAST_LINES, self.lines).await;
        dispatched & recorded
    }
}

/// The queue of one destination.
pub(crate) type Queue = (Destination, Sender<SharedEvent>);

struct Dispatcher {
    control: Arc<Control>,
    queues: Vec<Queue>,
    log: CallLog,
    publishing: Option<Publishing>,
}

impl Dispatcher {
    async fn run(self, mut events: Receiver<CallEvent>) {
        let mut taken = Vec::new();
        while events.take(&mut taken, BATCH).await {
            events.done(&taken);
            let failed = self.control.configuration.load().records.failed;
            let shared: Vec<SharedEvent> = taken.drain(..).map(Arc::new).collect();
            let ended = shared.iter().filter(|event| is_end(event));
            for event in ended.filter(|event| is_recorded(&event.call, failed)) {
                for queue in &self.queues {
                    record(&self.control.records, queue, Arc::clone(event));
                }
            }
            self.log.offer(&shared);
            if let Some(publishing) = &self.publishing {
                publishing.offer(&shared);
            }
            self.control.events.publish(shared);
            sleep(GATHER).await;
        }
    }
}

/// Whether the end of this call is recorded.
fn is_recorded(call: &CallRecord, failed: RecordedFailures) -> bool {
    call.answered.is_some() || failed == RecordedFailures::All
}

fn record(counters: &RecordCounters, (destination, queue): &Queue, event: SharedEvent) {
    if queue.try_send(event).is_err() {
        let counters = counters.of(*destination);
        counters.lost(Loss::QueueFull).inc();
        if counters.begin_gap() {
            error!(
                to = destination.label(),
                "call records are lost: the queue is full (`records.queue`)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample;

    #[test]
    fn failed_calls_are_recorded_only_if_they_are_wanted() {
        let (answered, failed) = (sample::ended(1), sample::refused(2));
        for (wanted, recorded) in [
            (RecordedFailures::None, (true, false)),
            (RecordedFailures::All, (true, true)),
        ] {
            let found = (
                is_recorded(&answered.call, wanted),
                is_recorded(&failed.call, wanted),
            );
            assert_eq!(found, recorded);
        }
    }

    #[tokio::test]
    async fn an_event_that_nothing_wants_does_not_enter_the_queue() {
        let control = Arc::new(Control::new(
            None,
            crate::config::Configuration::default(),
            None,
        ));
        let (sender, mut events) = channel(&control);
        sender.offer(sample::ended(1)).expect("dropped silently");
        drop(sender);
        assert!(!events.take(&mut Vec::new(), 1).await);
    }
}
