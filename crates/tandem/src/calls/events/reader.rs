//! One reader: it takes events from the ring as fast as its connection carries them.
use super::filter::Filter;
use super::frame::{self, Goodbye};
use super::hub::Hub;
use axum::body::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// After how long without a frame a reader gets a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What the hub knows about a reader.
#[derive(Debug)]
pub(super) struct Slot {
    /// The number of the next event that it looks at.
    next: AtomicU64,
    /// How often it has been asked for something to send.
    taken: AtomicU64,
    /// Frames that it has and the connection did not take yet.
    ready: AtomicU64,
    /// Why the server ended it, as [`Goodbye`] plus one.
    goodbye: AtomicU8,
}

impl Slot {
    pub(super) const fn new(next: u64) -> Self {
        Self {
            next: AtomicU64::new(next),
            taken: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            goodbye: AtomicU8::new(0),
        }
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether something waits for the connection of the reader.
    pub(super) fn waits(&self, head: u64) -> bool {
        self.ready.load(Ordering::Relaxed) > 0 || self.next.load(Ordering::Relaxed) < head
    }

    /// Notes why the server ends the reader.
    pub(super) fn dismiss(&self, goodbye: Goodbye) {
        self.goodbye.store(goodbye as u8 + 1, Ordering::Relaxed);
    }

    fn goodbye(&self) -> Option<Goodbye> {
        let all = [Goodbye::Slow, Goodbye::Stopping];
        let found = self.goodbye.load(Ordering::Relaxed);
        all.into_iter().find(|goodbye| *goodbye as u8 + 1 == found)
    }
}

/// A reader of events. Dropping it ends it.
#[derive(Debug)]
pub struct Reader {
    hub: Arc<Hub>,
    number: u64,
    slot: Arc<Slot>,
    filter: Filter,
    head: watch::Receiver<(u64, bool)>,
    next: u64,
    ready: VecDeque<Bytes>,
    /// When the connection took the last frame.
    last_frame: Instant,
    ended: bool,
}

impl Reader {
    pub(super) fn new(
        hub: Arc<Hub>,
        (number, slot): (u64, Arc<Slot>),
        filter: Filter,
        head: watch::Receiver<(u64, bool)>,
        gap: Option<&str>,
    ) -> Self {
        let next = slot.next.load(Ordering::Relaxed);
        let mut ready = VecDeque::from([frame::beginning(hub.before(next))]);
        if let Some(reason) = gap {
            hub.counters.gaps.inc();
            ready.push_back(frame::gap(reason));
        }
        Self {
            hub,
            number,
            slot,
            filter,
            head,
            next,
            ready,
            last_frame: Instant::now(),
            ended: false,
        }
    }

    /// The next bytes of the stream; `None` at its end. It waits for events, but not for long.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.slot.taken.fetch_add(1, Ordering::Relaxed);
            if let Some(frame) = self.ready.pop_front() {
                self.publish_position();
                self.last_frame = Instant::now();
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            let (head, stopping) = *self.head.borrow_and_update();
            self.advance();
            // Events that the filter skips must not delay it.
            let heartbeat = self.last_frame + HEARTBEAT;
            if self.ready.is_empty() && Instant::now() >= heartbeat {
                self.ready
                    .push_back(frame::heartbeat(self.hub.before(self.next)));
            }
            if !self.ready.is_empty() || self.next < head {
                continue;
            }
            if stopping {
                self.end(Goodbye::Stopping);
                continue;
            }
            // The sender lives as long as the hub, which this reader holds. After the time, the loop sends the heartbeat.
            let _ = timeout_at(heartbeat, self.head.changed()).await;
        }
    }

    /// Takes what the ring has.
    fn advance(&mut self) {
        let taken = self.hub.take(&mut self.next, &self.filter, &mut self.ready);
        self.hub.counters.sent.inc_by(self.ready.len() as u64);
        if taken.is_err() {
            self.end(Goodbye::Slow);
        }
        self.publish_position();
    }

    fn end(&mut self, goodbye: Goodbye) {
        self.slot.dismiss(goodbye);
        self.ready.push_back(frame::end(goodbye));
        self.ended = true;
    }

    fn publish_position(&self) {
        self.slot.next.store(self.next, Ordering::Relaxed);
        self.slot
            .ready
            .store(self.ready.len() as u64, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.hub.leave(self.number, self.slot.goodbye());
    }
}
