//! Takes events from the queue and publishes them, in batches, as long as there is a connection.
use super::PublishLoss;
use super::counters::PublishCounters;
use crate::calls::SharedEvent;
use crate::calls::line::append_event;
use crate::calls::log::printable;
use crate::calls::queue::Receiver;
use crate::config::RedisUrl;
use crate::control::Control;
use crate::redis_connection::{Connection, RedisServer};
use anyhow::bail;
use redis::Pipeline;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{info, warn};

/// Events that are sent at once, and about their bytes. A failure loses at most so many.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Letters of a server's error that the log repeats.
const LONGEST_ERROR: usize = 200;

/// The task that publishes.
pub(super) struct Publisher {
    control: Arc<Control>,
    server: RedisServer,
    /// The URL, without the password.
    to: String,
    channel: String,
    queue: Receiver<SharedEvent>,
    /// Taken from the queue and not sent yet.
    taken: Vec<SharedEvent>,
    /// How long the next failure waits before the next attempt.
    pause: Duration,
    /// The last attempt failed. The log has the first failure of a series.
    failing: bool,
}

impl Publisher {
    pub(super) fn new(
        control: &Arc<Control>,
        url: &RedisUrl,
        channel: &str,
        queue: Receiver<SharedEvent>,
    ) -> Self {
        Self {
            control: Arc::clone(control),
            server: url.server().clone(),
            to: url.shown().as_str().to_owned(),
            channel: channel.to_owned(),
            queue,
            taken: Vec::new(),
            pause: PAUSES.0,
            failing: false,
        }
    }

    fn counters(&self) -> &PublishCounters {
        &self.control.publishing
    }

    /// Publishes until the queue is dropped and empty.
    pub(super) async fn run(mut self) {
        while let Err(problem) = self.connect_and_publish().await {
            self.counters().set_connected(false);
            self.fails(&problem);
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        self.counters().set_connected(false);
    }

    async fn connect_and_publish(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        self.counters().set_connected(true);
        loop {
            while !self.taken.is_empty() {
                self.publish(&mut connection).await?;
            }
            tokio::select! {
                // First, because what is sent on a connection that has ended is lost.
                biased;
                () = connection.ended() => bail!("it closed the connection"),
                more = self.queue.take(&mut self.taken, BATCH) => {
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Publishes the first of the events that were taken.
    async fn publish(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        let commands = commands(&self.channel, &self.taken);
        let sent: Vec<SharedEvent> = self.taken.drain(..commands.len()).collect();
        let (confirmed, result) = connection.send(&commands).await;
        let counters = self.counters();
        counters.published().inc_by(confirmed);
        let failed = sent.len() as u64 - confirmed;
        counters.lost(PublishLoss::Failed).inc_by(failed);
        self.queue.done(&sent);
        if result.is_ok() {
            self.works();
        }
        result
    }

    /// Logs the first failure of a series.
    fn fails(&mut self, problem: &anyhow::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            warn!(
                to = self.to,
                "cannot publish call events: {}; calls and records go on, and events wait in memory up to `events.publish_queue`",
                shortened(problem)
            );
        }
    }

    fn works(&mut self) {
        self.pause = PAUSES.0;
        if std::mem::take(&mut self.failing) {
            let lost = self.counters().all_lost();
            info!(
                to = self.to,
                lost,
                "publishing call events works again; `lost` is the number of events that were not published since the start"
            );
        }
    }
}

/// Commands for the first of these events, at least one.
fn commands(channel: &str, events: &[SharedEvent]) -> Pipeline {
    let mut commands = Pipeline::with_capacity(events.len());
    // Each event has a result of its own.
    commands.ignore_errors();
    let mut text = Vec::new();
    let mut bytes = 0;
    for event in events {
        text.clear();
        append_event(&mut text, event);
        bytes += text.len();
        commands.cmd("PUBLISH").arg(channel).arg(&text);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    commands
}

/// The beginning of the problem, for the log. The server may have chosen its words.
fn shortened(problem: &anyhow::Error) -> String {
    let text: String = problem.to_string().chars().take(LONGEST_ERROR).collect();
    printable(text.as_bytes())
}
