//! The traces that run: who reads which messages, and until when.
use super::collector::CollectorCounters;
use super::event::{CapturedMessage, Ended, Event, Started};
use super::pipe::{NotWritten, Reading, Writing, pipe};
use super::{Seen, TraceQueue};
use axum::body::Bytes;
use prometheus_client::metrics::counter::Counter;
use sip_elements::trace::{Selection, TraceId, TraceOrder};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Traces that may run at once. Each may keep 4 MiB for its reader.
pub(crate) const MAX_TRACES: usize = 8;

/// Why a trace cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StartError {
    /// Too many traces run.
    #[error("{MAX_TRACES} traces run already; wait until one of them ends")]
    TooMany,
    /// Some workers do not follow.
    #[error(transparent)]
    Undelivered(#[from] crate::control::Undelivered),
}

/// The traces that run, and what all tracing shares.
#[derive(Debug)]
pub(crate) struct Traces {
    running: Mutex<Vec<Trace>>,
    /// Traces since the start of the process.
    serial: AtomicU64,
    /// Wakes the keeper.
    pub(super) changed: Notify,
    pub(crate) queue: Arc<TraceQueue>,
    pub(crate) collector: CollectorCounters,
    /// Traces that ended because their reader was too slow.
    pub(crate) slow_readers: Counter,
}

#[derive(Debug)]
struct Trace {
    id: TraceId,
    selection: Selection,
    writing: Writing,
    until: Instant,
    /// All workers follow the order, and the first line is written.
    has_started: bool,
    is_slow: bool,
    messages: u64,
    /// Copies that had been dropped before it started.
    dropped_before: u64,
}

impl Traces {
    pub(crate) fn new(workers: u16) -> Self {
        Self {
            running: Mutex::default(),
            serial: AtomicU64::default(),
            changed: Notify::default(),
            queue: Arc::new(TraceQueue::new(workers)),
            collector: CollectorCounters::default(),
            slow_readers: Counter::default(),
        }
    }

    /// The number of traces that run.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Lets the keeper look at the configuration again.
    pub(crate) fn reconfigure(&self) {
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Trace>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the workers are to copy.
    pub(crate) fn order(&self, number: u64, everything: bool) -> TraceOrder {
        let running = self.lock();
        let traces = running.iter();
        TraceOrder {
            number,
            traces: traces
                .map(|trace| (trace.id, trace.selection.clone()))
                .collect(),
            everything,
        }
    }

    /// Adds a trace, which [`Self::begin`] starts.
    pub(crate) fn add(
        &self,
        selection: Selection,
        duration: Duration,
    ) -> Result<(TraceId, Reading), StartError> {
        let mut running = self.lock();
        if running.len() >= MAX_TRACES {
            return Err(StartError::TooMany);
        }
        let id = TraceId::of_serial(self.serial.fetch_add(1, Relaxed));
        let (writing, reading) = pipe();
        running.push(Trace {
            id,
            selection,
            writing,
            until: Instant::now() + duration,
            has_started: false,
            is_slow: false,
            messages: 0,
            dropped_before: self.queue.dropped(),
        });
        drop(running);
        // The keeper also ends a trace that never begins.
        self.changed.notify_one();
        Ok((id, reading))
    }

    /// Starts a trace, now that all workers follow the order.
    pub(crate) fn begin(&self, id: TraceId, started: Started) {
        if let Some(trace) = self.lock().iter_mut().find(|trace| trace.id == id) {
            trace.has_started = trace.writing.write(Event::Started(started).line()).is_ok();
        }
        self.changed.notify_one();
    }

    /// Passes a message to the traces that read it.
    pub(super) fn deliver(&self, seen: &Seen<'_>) {
        let mut line: Option<Bytes> = None;
        for trace in self.lock().iter_mut() {
            if !trace.has_started || trace.is_slow || !seen.traced.readers.contains(trace.id) {
                continue;
            }
            let line =
                line.get_or_insert_with(|| Event::Message(CapturedMessage::new(seen)).line());
            match trace.writing.write(line.clone()) {
                Ok(()) => trace.messages += 1,
                Err(NotWritten::Slow) => trace.is_slow = true,
                // It ends in the next round.
                Err(NotWritten::Gone) => {}
            }
        }
    }

    /// Ends the traces whose time is over, whose readers are slow or gone, or all of them. Returns whether any ended.
    pub(super) fn end_due(&self, now: Instant, is_stopping: bool) -> bool {
        let mut running = self.lock();
        let before = running.len();
        running.retain(|trace| {
            let reason = if trace.is_slow {
                self.slow_readers.inc();
                "the reader is too slow"
            } else if is_stopping {
                "the server stops"
            } else if now >= trace.until {
                "the time is over"
            } else {
                return !trace.writing.is_closed();
            };
            let ended = Event::Ended(Ended {
                reason: reason.to_owned(),
                messages: trace.messages,
                dropped: self.queue.dropped().saturating_sub(trace.dropped_before),
            });
            // A reader that is gone needs no last line.
            let _ = trace.writing.write_last(ended.line());
            false
        });
        running.len() != before
    }
}
