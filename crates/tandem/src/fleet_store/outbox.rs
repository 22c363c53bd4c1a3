//! Records that wait to be sent to the store: the latest of each binding, bounded in bytes.

use super::counters::FleetCounters;
use super::ledger::Place;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_store::fleet::Version;
use tokio::sync::Notify;

/// Bytes of a record besides its strings.
const OVERHEAD: usize = 160;

/// A record to send.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) place: Place,
    pub(super) version: Version,
    pub(super) field: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Outgoing {
    /// Its memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        OVERHEAD + self.field.len() + self.value.len()
    }
}

/// What the outbox had.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// In the order of their buckets.
    pub(super) records: Vec<Outgoing>,
    /// When these records are in the store, this save has succeeded.
    pub(super) save: u64,
    /// Records are missing. A comparison with the store finds them.
    pub(super) overflowed: bool,
}

/// The queue. Only the control plane uses it.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    most_bytes: usize,
    counters: Arc<FleetCounters>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<Place, Outgoing>,
    bytes: usize,
    /// Bytes of the records that were taken and are not in the store yet.
    taken: usize,
    save: u64,
    overflowed: bool,
    /// Taken and not settled.
    busy: bool,
}

impl Outbox {
    pub(super) fn new(most_bytes: usize, counters: Arc<FleetCounters>) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            most_bytes,
            counters,
        }
    }

    /// Adds records, which belong to this save.
    pub(super) fn add(&self, records: Vec<Outgoing>, save: u64) {
        let mut state = self.state();
        state.save = state.save.max(save);
        self.put(&mut state, records);
        drop(state);
        self.changed.notify_one();
    }

    fn put(&self, state: &mut State, records: Vec<Outgoing>) {
        for record in records {
            let known = state.records.get(&record.place);
            if known.is_some_and(|known| known.version >= record.version) {
                continue;
            }
            state.bytes += record.bytes();
            if let Some(before) = state.records.insert(record.place, record) {
                state.bytes -= before.bytes();
            }
        }
        if state.bytes + state.taken > self.most_bytes {
            state.records = BTreeMap::new();
            state.bytes = 0;
            if !std::mem::replace(&mut state.overflowed, true) {
                self.counters.overflows.inc();
            }
        }
        self.counters
            .set_waiting(state.records.len(), state.bytes + state.taken);
    }

    /// Takes all records. [`settle`](Self::settle) them before the next time.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.state();
        let records = std::mem::take(&mut state.records);
        state.taken = std::mem::take(&mut state.bytes);
        state.busy = true;
        Taken {
            records: records.into_values().collect(),
            save: state.save,
            overflowed: std::mem::take(&mut state.overflowed),
        }
    }

    /// Ends what [`take`](Self::take) began. `unsent` records go back.
    pub(super) fn settle(&self, unsent: Vec<Outgoing>, overflowed: bool) {
        let mut state = self.state();
        state.taken = 0;
        state.busy = false;
        state.overflowed |= overflowed;
        self.put(&mut state, unsent);
    }

    /// Forgets that records were lost: a comparison with the store is about to find them.
    pub(super) fn note_comparison(&self) {
        self.state().overflowed = false;
    }

    /// Whether everything is in the store.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.records.is_empty() && !state.busy && !state.overflowed
    }

    /// Waits until there is something to take.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Key;
    use super::*;
    use tandem_store::fleet::{BindingId, HybridTime, WriterId};

    fn record(number: u64, time: u64) -> Outgoing {
        let key = Key {
            address: number,
            binding: BindingId::LEAST,
        };
        Outgoing {
            place: (0, key),
            version: Version {
                time: HybridTime::at(time),
                writer: WriterId::of("a"),
            },
            field: Vec::new(),
            value: vec![0; 40],
        }
    }

    #[test]
    fn only_the_latest_record_of_a_binding_is_sent() {
        let outbox = Outbox::new(10_000, Arc::default());
        outbox.add(vec![record(1, 1), record(1, 2)], 1);
        let taken = outbox.take();
        assert_eq!((taken.records.len(), taken.save), (1, 1));
        outbox.add(vec![record(1, 3)], 2);
        outbox.settle(taken.records, false);
        let again = outbox.take();
        assert_eq!(again.records.len(), 1);
        assert_eq!(again.records[0].version.time, HybridTime::at(3));
        assert!(!outbox.is_empty());
        outbox.settle(Vec::new(), false);
        assert!(outbox.is_empty());
    }

    #[test]
    fn records_beyond_the_bound_are_dropped_and_reported_once() {
        let counters: Arc<FleetCounters> = Arc::default();
        let outbox = Outbox::new(450, Arc::clone(&counters));
        outbox.add((0..2).map(|number| record(number, 1)).collect(), 1);
        assert_eq!(counters.waiting(), (2, 400));
        outbox.add((2..9).map(|number| record(number, 1)).collect(), 2);
        outbox.add((2..9).map(|number| record(number, 1)).collect(), 3);
        assert_eq!(counters.overflows.get(), 1);
        let taken = outbox.take();
        assert!(taken.overflowed && taken.records.is_empty());
        outbox.settle(Vec::new(), false);
        assert!(outbox.is_empty());
    }
}
