//! Publishes events of calls to a channel of Redis or Valkey, for programs that do not read `GET /events`.
//!
//! Events have a queue of their own, from which one task sends them in batches over one connection. While the server is away, events wait
//! in the queue, and those that do not fit are dropped: the newest, so that what subscribers miss is one gap and not many. An event is
//! sent at most once, because a repeated one would be worse than a missing one.

mod counters;
mod publisher;

pub use counters::{PublishCounters, PublishLoss};

use super::SharedEvent;
use super::queue::{self, Bounds, Sender};
use crate::control::Control;
use publisher::Publisher;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

/// Events that may wait, whatever their bytes.
const WAITING: usize = 65_536;
/// Time limit of the last events.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// The end of the queue that events enter.
pub(super) struct Publishing {
    control: Arc<Control>,
    queue: Sender<SharedEvent>,
}

/// The running task.
#[derive(Debug)]
pub(super) struct Publication {
    control: Arc<Control>,
    task: JoinHandle<()>,
}

/// Starts to publish if the configuration wants it. It ends when the queue is dropped and empty.
pub(super) fn start(control: &Arc<Control>) -> Option<(Publishing, Publication)> {
    let configuration = control.configuration.load_full();
    let events = &configuration.events;
    let url = events.publish.as_ref()?;
    let bounds = Bounds {
        items: WAITING,
        bytes: events.publish_queue,
    };
    let level = Arc::clone(control.publishing.level());
    let (queue, waiting) = queue::bounded(bounds, level);
    let publisher = Publisher::new(control, url, &events.publish_channel, waiting);
    let publication = Publication {
        control: Arc::clone(control),
        task: tokio::spawn(publisher.run()),
    };
    let publishing = Publishing {
        control: Arc::clone(control),
        queue,
    };
    Some((publishing, publication))
}

impl Publishing {
    /// Passes events on. It never waits.
    pub(super) fn offer(&self, events: &[SharedEvent]) {
        for event in events {
            if self.queue.try_send(Arc::clone(event)).is_err() {
                let lost = self.control.publishing.lost(PublishLoss::QueueFull);
                lost.inc();
            }
        }
    }
}

impl Publication {
    /// Waits a short time until all events are published. The others are counted as lost.
    pub(super) async fn finish(mut self) {
        let counters = &self.control.publishing;
        let is_empty = counters.level().items() == 0;
        if is_empty || timeout(LAST_EVENTS, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let left = counters.level().items();
        if left > 0 {
            counters.lost(PublishLoss::Stopping).inc_by(left);
            warn!(left, "call events were not published in time");
        }
    }
}
