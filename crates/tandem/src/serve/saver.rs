//! Write-behind: changed bindings are saved after a short delay, in transactions, off the call path. The workers learn the progress and how
//! much can be saved in time. Beyond that, responses to REGISTER wait (`sip_elements`, `registrar/held.rs`), so that answered registrations
//! reach the database soon at any load. Metrics show the lag.
use super::bindings::{ListenerNames, snapshot};
use super::shared_locations::SharedLocations;
use crate::config;
use crate::control::{Control, Running};
use sip_elements::ControlMessage;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{AddressBindings, StoreError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

/// Addresses of record per transaction. Bounds memory and how long others wait for the database.
const BATCH: usize = 2_000;
/// Initial estimate of addresses saved per second.
const FIRST_RATE: f64 = 20_000.0;
/// Lower bound of the estimate.
const SLOWEST_RATE: f64 = 500.0;
/// Minimum number of addresses in a save that updates the estimate.
const SMALLEST_SAMPLE: u64 = 200;
/// Initial and maximum pause after a failed save.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The running task.
#[derive(Debug)]
pub struct Saver {
    finish: oneshot::Sender<()>,
    task: JoinHandle<bool>,
    /// Move the bindings and the uses of nonces of a fleet.
    links: Vec<JoinHandle<()>>,
}

impl Saver {
    /// Starts saving: to the database, or to the store of a fleet.
    pub(super) fn start(
        control: Arc<Control>,
        running: Arc<Running>,
        shared: Option<SharedLocations>,
    ) -> Self {
        let (finish, finished) = oneshot::channel();
        let Some(shared) = shared else {
            return Self {
                finish,
                task: tokio::spawn(run(control, running, finished)),
                links: Vec::new(),
            };
        };
        let exchanging = shared.start(control, running, finished);
        Self {
            finish,
            task: exchanging.stamping,
            links: exchanging.links.into(),
        }
    }

    /// Saves the remaining changes and ends, within `patience`. Returns false if something could not be saved.
    pub async fn finish(self, patience: Duration) -> bool {
        let Self {
            finish,
            mut task,
            links,
        } = self;
        let _ = finish.send(());
        // A save in progress may itself wait for the database.
        let saved = timeout(patience, &mut task).await;
        links.iter().for_each(JoinHandle::abort);
        let Ok(saved) = saved else {
            task.abort();
            error!("could not save the last binding changes in time");
            return false;
        };
        saved.unwrap_or(false)
    }
}

/// Changes that wait to be saved.
#[derive(Debug, Default)]
struct Unsaved {
    addresses: HashSet<Box<[u8]>>,
    everything: bool,
    /// The number of the save that took the latest changes.
    save: u64,
}

impl Unsaved {
    /// Adds the changes since the last call. Beyond `most` addresses, the list is replaced by a full save.
    fn gather(&mut self, running: &Running, most: usize) {
        let changes = running.shared.locations.take_changes();
        self.save = changes.save;
        self.everything |= changes.everything;
        self.addresses.extend(changes.addresses);
        if self.everything || self.addresses.len() > most {
            self.everything = true;
            self.addresses = HashSet::new();
        }
    }

    /// Number of addresses of record.
    fn count(&self, running: &Running) -> u64 {
        if self.everything {
            running.shared.locations.stats().addresses
        } else {
            self.addresses.len() as u64
        }
    }
}

/// Estimated addresses of record saved per second, learned from past saves.
#[derive(Debug)]
struct Rate(f64);

impl Default for Rate {
    fn default() -> Self {
        Self(FIRST_RATE)
    }
}

impl Rate {
    /// Updates the estimate. Small saves are ignored: their fixed cost dominates.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn learn(&mut self, count: u64, took: Duration) {
        if count >= SMALLEST_SAMPLE {
            let rate = count as f64 / took.as_secs_f64().max(1e-6);
            self.0 = (self.0 * 0.75 + rate * 0.25).max(SLOWEST_RATE);
        }
    }

    /// Number of addresses that can be saved in this time.
    #[expect(clippy::cast_sign_loss, reason = "neither is negative")]
    fn in_time(&self, time: Duration) -> usize {
        (self.0 * time.as_secs_f64()) as usize
    }
}

async fn run(
    control: Arc<Control>,
    running: Arc<Running>,
    mut finished: oneshot::Receiver<()>,
) -> bool {
    let saving = Saving::new(&control, &running);
    let counter = &control.counters.unsaved;
    let mut unsaved = Unsaved::default();
    let mut pause_after_failure = None;
    let mut rate = Rate::default();
    loop {
        let configuration = control.configuration.load_full();
        let interval = configuration.location.save_interval;
        let last = tokio::select! {
            _ = &mut finished => true,
            () = sleep(pause_after_failure.unwrap_or(interval)) => false,
        };
        // Counted before they are taken: a concurrent reader sees them twice rather than not at all.
        counter.inc_by(running.shared.locations.pending_changes() as u64);
        unsaved.gather(&running, configuration.limits.pending_changes);
        let count = unsaved.count(&running);
        counter.set(count);
        let began = Instant::now();
        let saved = saving.save(&mut unsaved).await;
        counter.set(unsaved.count(&running));
        pause_after_failure = match saved {
            Ok(()) if last => return true,
            Ok(()) => {
                rate.learn(count, began.elapsed());
                let room = rate.in_time(config::save_time(&configuration));
                tell_workers(&running, unsaved.save, room);
                if pause_after_failure.is_some() {
                    info!("saving bindings works again");
                }
                None
            }
            Err(error) if last => {
                error!(%error, "could not save the last binding changes");
                return false;
            }
            Err(error) => Some(failed(&control, &error, pause_after_failure)),
        };
    }
}

/// Lets the workers send the responses that waited for this save. A worker with a full inbox is notified by the next save, which covers
/// this one.
pub(super) fn tell_workers(running: &Running, save: u64, room: usize) {
    running.shared.locations.note_saved(save, room);
    for (worker, metrics) in (0..).zip(&running.metrics) {
        if metrics.held_answers.value() > 0 {
            let _ = running.workers.send(worker, ControlMessage::Saved);
        }
    }
}

/// Counts a failure, logs the first of a series, and returns the pause before the next attempt.
fn failed(control: &Control, error: &StoreError, last_pause: Option<Duration>) -> Duration {
    control.counters.save_failures.inc();
    match last_pause {
        None => {
            error!(%error, "cannot save changed bindings; they stay in memory and saving is retried");
            PAUSES.0
        }
        Some(pause) => (pause * 2).min(PAUSES.1),
    }
}

/// Addresses in batches of [`BATCH`], in sorted order. Neighbours share database pages, so each transaction reads and writes few of them.
struct Batches {
    /// In reverse order: the next address is last.
    left: Vec<Box<[u8]>>,
}

impl Batches {
    fn of(addresses: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        let mut left: Vec<Box<[u8]>> = addresses.into_iter().collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        Self { left }
    }
}

impl Iterator for Batches {
    type Item = Vec<Box<[u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.left.split_off(self.left.len().saturating_sub(BATCH));
        (!batch.is_empty()).then_some(batch)
    }
}

/// The context of a save.
struct Saving<'c> {
    control: &'c Control,
    running: &'c Running,
    names: ListenerNames,
}

impl<'c> Saving<'c> {
    fn new(control: &'c Control, running: &'c Running) -> Self {
        Self {
            control,
            running,
            names: ListenerNames::new(&running.listeners),
        }
    }

    /// Saves the waiting changes. Those that fail keep waiting.
    async fn save(&self, unsaved: &mut Unsaved) -> Result<(), StoreError> {
        if unsaved.everything {
            self.save_everything().await?;
            unsaved.everything = false;
            self.control.counters.saves.inc();
        }
        let mut waiting = Batches::of(std::mem::take(&mut unsaved.addresses));
        while let Some(batch) = waiting.next() {
            let saved = self
                .running
                .store
                .locations()
                .save(&self.snapshots(&batch))
                .await;
            if let Err(error) = saved {
                unsaved
                    .addresses
                    .extend(batch.into_iter().chain(waiting.left));
                return Err(error);
            }
            self.control.counters.saves.inc();
        }
        Ok(())
    }

    async fn save_everything(&self) -> Result<(), StoreError> {
        let mut addresses: Vec<Box<[u8]>> = Vec::new();
        let locations = &self.running.shared.locations;
        locations.for_each(self.control.clock.now(), |address, _| {
            // The bindings of an address are adjacent.
            if addresses.last().is_none_or(|last| **last != *address) {
                addresses.push(address.into());
            }
        });
        let mut full = self.running.store.locations().begin_full_save().await?;
        for batch in Batches::of(addresses) {
            full.add(&self.snapshots(&batch)).await?;
        }
        full.finish().await?;
        Ok(())
    }

    fn snapshots<'a>(&'a self, addresses: &'a [Box<[u8]>]) -> Vec<AddressBindings<'a>> {
        let now = self.control.clock.now();
        let locations = &self.running.shared.locations;
        addresses
            .iter()
            .map(|address| snapshot(locations, &self.names, address, now))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_saves_that_are_large_enough() {
        let mut rate = Rate::default();
        assert_eq!(rate.in_time(Duration::from_millis(500)), 10_000);
        rate.learn(10, Duration::from_secs(10));
        assert_eq!(rate.in_time(Duration::from_millis(500)), 10_000);
        for _ in 0..50 {
            rate.learn(4_000, Duration::from_secs(1));
        }
        assert!((1_990..=2_010).contains(&rate.in_time(Duration::from_millis(500))));
        for _ in 0..50 {
            rate.learn(200, Duration::from_secs(1_000));
        }
        assert_eq!(rate.in_time(Duration::from_secs(1)), 500);
    }

    #[test]
    fn each_transaction_saves_addresses_that_lie_together() {
        let most = BATCH * 2 + 100;
        let spread: HashSet<Box<[u8]>> = (0..most)
            .map(|number| format!("{number:06}@example.org").into_bytes().into())
            .collect();
        let batches: Vec<_> = Batches::of(spread.clone()).collect();
        let lengths: Vec<usize> = batches.iter().map(Vec::len).collect();
        assert_eq!(lengths, [BATCH, BATCH, 100]);
        for pair in batches.windows(2) {
            assert!(pair[0].iter().max() < pair[1].iter().min());
        }
        assert_eq!(
            batches.into_iter().flatten().collect::<HashSet<_>>(),
            spread
        );
    }
}
