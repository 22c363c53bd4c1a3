//! Publishes events to all readers, and disconnects those that do not read.
use super::filter::Filter;
use super::frame::{EventId, Goodbye};
use super::reader::{Reader, Slot};
use super::ring::{Behind, Ring};
use crate::calls::SharedEvent;
use axum::body::Bytes;
use prometheus_client::metrics::counter::Counter;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tandem_http::Lifetime;
use tokio::sync::watch;
use tokio::time::sleep;

/// Looks at the readers ([`Hub::look`]) after which one that took nothing is disconnected.
const PATIENCE: u32 = 10;
/// Looks without readers after which events are no longer kept.
const KEPT: u32 = 60;

/// How often a hub that stops looks whether all readers have ended.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// What is counted about events and their readers.
#[derive(Debug, Default)]
pub struct EventCounters {
    /// Events that were published.
    pub published: Counter,
    /// Events that were given to readers; one counts for each reader.
    pub sent: Counter,
    /// Gaps that readers were told of.
    pub gaps: Counter,
    /// Readers that were refused because too many read.
    pub refused: Counter,
    /// Readers that went away.
    pub closed: Counter,
    /// Readers that were disconnected because they were too slow.
    pub slow: Counter,
    /// Readers that were disconnected because the server stops.
    pub stopping: Counter,
}

/// Too many read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} readers are connected, which is the limit (`events.max_readers`)")]
pub struct Refused(usize);

/// A reader as the hub sees it.
#[derive(Debug)]
struct Seat {
    slot: Arc<Slot>,
    connection: Lifetime,
    /// How often the reader had taken something at the last look.
    taken: u64,
    /// For how many looks it has taken nothing although something waited.
    idle: u32,
}

/// The readers.
#[derive(Debug, Default)]
struct Seats {
    occupied: HashMap<u64, Seat>,
    next: u64,
    /// Looks since the last reader left.
    empty: u32,
}

/// The push channel of the process.
#[derive(Debug)]
pub struct Hub {
    /// What is counted.
    pub counters: EventCounters,
    run: u64,
    max_readers: usize,
    wanted: Arc<AtomicBool>,
    ring: Mutex<Ring>,
    seats: Mutex<Seats>,
    /// The number of the next event, and whether the server stops.
    head: watch::Sender<(u64, bool)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A channel for at most `max_readers`, with a ring of at most `buffer` bytes. `run` tells this run of the process from others.
    pub fn new(run: u64, max_readers: usize, buffer: usize) -> Self {
        let ring = Ring::new(run, buffer);
        Self {
            counters: EventCounters::default(),
            run,
            max_readers,
            wanted: Arc::default(),
            head: watch::Sender::new((ring.next(), false)),
            ring: Mutex::new(ring),
            seats: Mutex::default(),
        }
    }

    /// Whether events are kept: a reader is connected, or was within the last minute.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// The switch for [`Hub::is_wanted`], which the workers read.
    pub fn wanted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.wanted)
    }

    /// The number of readers.
    pub fn readers(&self) -> u64 {
        lock(&self.seats).occupied.len() as u64
    }

    /// The bytes of the events that are kept.
    pub fn bytes(&self) -> u64 {
        lock(&self.ring).bytes() as u64
    }

    /// Makes events available to all readers.
    pub(crate) fn publish(&self, events: Vec<SharedEvent>) {
        if events.is_empty() || !self.is_wanted() {
            return;
        }
        self.counters.published.inc_by(events.len() as u64);
        let mut ring = lock(&self.ring);
        for event in events {
            ring.push(event);
        }
        self.head.send_modify(|head| head.0 = ring.next());
    }

    /// Adds a reader, from the event after `last` on, or from now on. It ends with its `connection`.
    ///
    /// # Errors
    /// Too many read.
    pub fn attach(
        self: &Arc<Self>,
        connection: Lifetime,
        filter: Filter,
        last: Option<EventId>,
    ) -> Result<Reader, Refused> {
        let mut seats = lock(&self.seats);
        if seats.occupied.len() >= self.max_readers {
            self.counters.refused.inc();
            return Err(Refused(self.max_readers));
        }
        self.wanted.store(true, Ordering::Relaxed);
        let (next, gap) = self.resume(last);
        let slot = Arc::new(Slot::new(next));
        let number = seats.next;
        seats.next += 1;
        let seat = Seat {
            slot: Arc::clone(&slot),
            connection,
            taken: 0,
            idle: 0,
        };
        seats.occupied.insert(number, seat);
        drop(seats);
        Ok(Reader::new(
            Arc::clone(self),
            (number, slot),
            filter,
            self.head.subscribe(),
            gap,
        ))
    }

    /// Where a reader continues, and why events before that are missing.
    fn resume(&self, last: Option<EventId>) -> (u64, Option<&'static str>) {
        let ring = lock(&self.ring);
        match last {
            None => (ring.next(), None),
            Some(last) if last.run != self.run => (ring.first(), Some("restarted")),
            // Not given out yet.
            Some(last) if last.number >= ring.next() => (ring.next(), Some("unknown_id")),
            Some(last) if last.number + 1 < ring.first() => (ring.first(), Some("too_old")),
            Some(last) => (last.number + 1, None),
        }
    }

    pub(super) fn take(
        &self,
        next: &mut u64,
        filter: &Filter,
        taken: &mut VecDeque<Bytes>,
    ) -> Result<(), Behind> {
        lock(&self.ring).take(next, filter, taken)
    }

    /// The identifier of the event before this number.
    pub(super) const fn before(&self, next: u64) -> EventId {
        EventId {
            run: self.run,
            number: next.saturating_sub(1),
        }
    }

    /// A reader has ended.
    pub(super) fn leave(&self, number: u64, goodbye: Option<Goodbye>) {
        let counter = match goodbye {
            None => &self.counters.closed,
            Some(Goodbye::Slow) => &self.counters.slow,
            Some(Goodbye::Stopping) => &self.counters.stopping,
        };
        counter.inc();
        lock(&self.seats).occupied.remove(&number);
    }

    /// Disconnects readers that have taken nothing for ten looks although something waited, and forgets all events
    /// after a minute without readers. Call it every second.
    pub fn look(&self) {
        let mut seats = lock(&self.seats);
        let head = self.head.borrow().0;
        for seat in seats.occupied.values_mut() {
            let taken = seat.slot.taken();
            let is_idle = seat.slot.waits(head) && taken == seat.taken;
            seat.taken = taken;
            seat.idle = if is_idle { seat.idle + 1 } else { 0 };
            if seat.idle >= PATIENCE {
                seat.slot.dismiss(Goodbye::Slow);
                seat.connection.end_in(Duration::ZERO);
            }
        }
        if !seats.occupied.is_empty() {
            seats.empty = 0;
        } else if self.is_wanted() {
            seats.empty += 1;
            if seats.empty >= KEPT {
                seats.empty = 0;
                self.forget();
            }
        }
    }

    fn forget(&self) {
        self.wanted.store(false, Ordering::Relaxed);
        let mut ring = lock(&self.ring);
        ring.clear();
        self.head.send_modify(|head| head.0 = ring.next());
    }

    /// Lets all readers end, because the server stops, and waits until they have.
    pub async fn stop(&self) {
        self.head.send_modify(|head| head.1 = true);
        while self.readers() > 0 {
            sleep(LAST_LOOK).await;
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ring({}..{})", self.first(), self.next())
    }
}
