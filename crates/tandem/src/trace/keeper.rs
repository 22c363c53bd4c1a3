//! The keeper: one task that reads the workers' queues, and ends traces. It sleeps while nothing is traced.
use super::Seen;
use super::collector::Collector;
use crate::control::{Control, Phase, Running};
use sip_elements::trace::Traced;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

/// How often the queues are read. They have room for what busy workers copy in this time.
const INTERVAL: Duration = Duration::from_millis(10);
/// Copies that are read from each worker at once.
const BATCH: usize = 1_024;
/// Copies after which other tasks of the control plane get their turn.
const TURN: usize = 64;

/// Starts the keeper. It runs until it is aborted.
pub(crate) fn keep(control: Arc<Control>, running: Arc<Running>) -> JoinHandle<()> {
    let mut keeper = Keeper {
        control,
        running,
        collector: Collector::default(),
        is_collecting: false,
        copies: Vec::new(),
    };
    tokio::spawn(async move {
        loop {
            keeper.round().await;
        }
    })
}

struct Keeper {
    control: Arc<Control>,
    running: Arc<Running>,
    collector: Collector,
    /// Whether the workers copy every message for the collector.
    is_collecting: bool,
    copies: Vec<(u16, Traced)>,
}

impl Keeper {
    async fn round(&mut self) {
        let traces = &self.control.traces;
        self.collector
            .configure(&self.control.configuration.load().trace);
        let is_stopping = self.control.phase() == Phase::Stopping;
        let has_ended = traces.end_due(Instant::now(), is_stopping);
        let collects = self.collector.is_configured();
        if (has_ended || collects != self.is_collecting) && !is_stopping {
            self.is_collecting = collects;
            if let Err(error) = self.control.order_tracing(&self.running).await {
                // Workers that copy too much cost time, but no reader gets the copies.
                warn!(%error, "tracing");
            }
        }
        let is_full = self.deliver().await;
        let traces = &self.control.traces;
        if traces.len() == 0 && !collects {
            traces.changed.notified().await;
        } else if !is_full {
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Passes copies on. Returns whether more may wait.
    async fn deliver(&mut self) -> bool {
        let traces = &self.control.traces;
        traces.queue.take(BATCH, &mut self.copies);
        let is_full = self.copies.len() >= BATCH;
        // Each worker's copies are nearly in order, but those of several workers are not.
        self.copies.sort_by_key(|(_, traced)| traced.at);
        for (count, (worker, traced)) in self.copies.drain(..).enumerate() {
            if let Some(seen) = Seen::new(&traced, worker, &self.running.listeners) {
                if traced.readers.contains_collector() {
                    self.collector.send(&seen, &traces.collector);
                }
                traces.deliver(&seen);
            }
            if count % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        is_full
    }
}
