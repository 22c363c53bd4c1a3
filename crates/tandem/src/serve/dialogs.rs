//! Write-behind of dialogs: what the workers record about them is saved after a short delay, in batches, off the call path. Only the latest
//! state of a dialog is kept, and a call that ends within the delay is never written.
use super::saved_dialogs::SavedDialogs;
use crate::control::{Control, DialogSaveCounters};
use crate::fleet_store::DialogNews;
use sip_runtime::Clock;
use sip_transport::Time;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{DialogRow, Store, StoreError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

/// Dialogs per transaction. Bounds how long others wait for the database.
const BATCH: usize = 2_000;
/// Initial and maximum pause after a failed save.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Changes that may wait in the queue. The workers count those beyond.
const WAITING: usize = 65_536;
/// How often the queue is emptied. Waiting for each change would make the workers wake this task for each.
const LOOK: Duration = Duration::from_millis(20);

/// Creates the queue: the end of the workers, and that of the [`DialogSaver`].
pub(super) fn queue() -> (mpsc::Sender<DialogNews>, mpsc::Receiver<DialogNews>) {
    mpsc::channel(WAITING)
}

/// Changes that wait to be saved, the latest of each dialog.
#[derive(Debug, Default)]
struct Unsaved {
    changes: HashMap<u128, DialogRow>,
    /// When the oldest of them came.
    oldest: Option<Time>,
    /// The dialogs that have a row in the database.
    saved: HashSet<u128>,
}

impl Unsaved {
    /// What the start leaves to do.
    fn after(saved: SavedDialogs, now: Time) -> Self {
        let (saved, removed) = saved.into_rows();
        let mut unsaved = Self {
            saved,
            ..Self::default()
        };
        for change in removed {
            unsaved.add(change, now);
        }
        unsaved
    }

    /// Takes a change in place of an older one of the same dialog.
    fn add(&mut self, change: DialogRow, now: Time) {
        if change.state.is_none() && !self.saved.contains(&change.id) {
            self.changes.remove(&change.id);
            if self.changes.is_empty() {
                self.oldest = None;
            }
            return;
        }
        self.oldest.get_or_insert(now);
        self.changes.insert(change.id, change);
    }

    /// Takes the next batch.
    fn batch(&mut self) -> Vec<DialogRow> {
        let ids: Vec<u128> = self.changes.keys().copied().take(BATCH).collect();
        let mut batch: Vec<DialogRow> = ids
            .iter()
            .filter_map(|id| self.changes.remove(id))
            .collect();
        // Until the save has succeeded, a row may exist or not.
        self.saved.extend(ids);
        batch.sort_unstable_by_key(|change| change.id);
        if self.changes.is_empty() {
            self.oldest = None;
        }
        batch
    }

    fn note_saved(&mut self, batch: &[DialogRow]) {
        for change in batch.iter().filter(|change| change.state.is_none()) {
            self.saved.remove(&change.id);
        }
    }

    /// Takes back a batch that could not be saved. A later change of the same dialog counts.
    fn take_back(&mut self, batch: Vec<DialogRow>, oldest: Option<Time>) {
        for change in batch {
            self.changes.entry(change.id).or_insert(change);
        }
        self.oldest = oldest;
    }

    fn publish(&self, counters: &DialogSaveCounters) {
        counters.unsaved.set(self.changes.len() as u64);
        counters.oldest.set(self.oldest.map_or(0, Time::as_micros));
    }
}

/// The end of the queue that this task empties.
struct Queue {
    changes: mpsc::Receiver<DialogNews>,
    clock: Clock,
}

impl Queue {
    /// Moves all changes to `unsaved`. Returns false once the workers have stopped and nothing is left.
    fn take(&mut self, unsaved: &mut Unsaved, counters: &DialogSaveCounters) -> bool {
        let now = self.clock.now();
        let is_open = loop {
            match self.changes.try_recv() {
                Ok(DialogNews::Changed(change)) => unsaved.add(change, now),
                // Only a fleet has them.
                Ok(DialogNews::Missed(_) | DialogNews::Ended(_)) => {}
                Err(TryRecvError::Empty) => break true,
                Err(TryRecvError::Disconnected) => break false,
            }
        };
        unsaved.publish(counters);
        is_open
    }
}

/// The running task.
#[derive(Debug)]
pub struct DialogSaver {
    task: JoinHandle<bool>,
}

impl DialogSaver {
    /// Starts saving what comes through the queue. `saved` are the dialogs in the database, which the workers have taken.
    pub(super) fn start(
        control: Arc<Control>,
        store: Store,
        changes: mpsc::Receiver<DialogNews>,
        saved: SavedDialogs,
    ) -> Self {
        let clock = control.clock;
        let unsaved = Unsaved::after(saved, clock.now());
        let queue = Queue { changes, clock };
        Self {
            task: tokio::spawn(run(control, store, queue, unsaved)),
        }
    }

    /// The task of a fleet, which does the same.
    pub(super) const fn of_fleet(task: JoinHandle<bool>) -> Self {
        Self { task }
    }

    /// Saves the remaining changes and ends, within `patience`; saves that fail are retried until then. The workers must have stopped.
    /// Returns false if something could not be saved.
    pub(super) async fn finish(self, patience: Duration) -> bool {
        let Self { mut task } = self;
        let Ok(saved) = timeout(patience, &mut task).await else {
            task.abort();
            error!("could not save the last changes of dialogs in time");
            return false;
        };
        saved.unwrap_or(false)
    }
}

async fn run(control: Arc<Control>, store: Store, mut queue: Queue, mut unsaved: Unsaved) -> bool {
    let counters = &control.counters.dialogs;
    let mut pause = None;
    loop {
        let interval = control.configuration.load().dialogs.save_interval;
        let begin = Instant::now() + pause.unwrap_or(interval);
        let mut is_open = true;
        while Instant::now() < begin && (is_open || pause.is_some()) {
            sleep(LOOK).await;
            is_open = queue.take(&mut unsaved, counters);
        }
        let result = save_all(&store, &mut unsaved, &mut queue, counters).await;
        unsaved.publish(counters);
        pause = match result {
            Ok(()) if !is_open => return true,
            Ok(()) => {
                if pause.is_some() {
                    info!("saving dialogs works again");
                }
                None
            }
            Err(error) => {
                counters.failures.inc();
                if pause.is_none() {
                    error!(%error, "cannot save dialogs; they stay in memory and saving is retried");
                }
                Some(pause.map_or(PAUSES.0, |pause: Duration| (pause * 2).min(PAUSES.1)))
            }
        };
    }
}

/// Saves what waits, batch by batch. Those of a batch that fails keep waiting. Meanwhile it takes further changes, so that a slow database
/// fills the map, which has one entry for each dialog, and not the queue.
async fn save_all(
    store: &Store,
    unsaved: &mut Unsaved,
    queue: &mut Queue,
    counters: &DialogSaveCounters,
) -> Result<(), StoreError> {
    let mut left = unsaved.changes.len();
    while left > 0 && !unsaved.changes.is_empty() {
        let oldest = unsaved.oldest;
        let batch = unsaved.batch();
        left = left.saturating_sub(batch.len());
        let result = {
            let dialogs = store.dialogs();
            let mut saving = std::pin::pin!(dialogs.save(&batch));
            loop {
                tokio::select! {
                    result = &mut saving => break result,
                    () = sleep(LOOK) => queue.take(unsaved, counters),
                };
            }
        };
        if let Err(error) = result {
            unsaved.take_back(batch, oldest);
            return Err(error);
        }
        counters.saves.inc();
        unsaved.note_saved(&batch);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix_seconds(1);

    fn change(id: u128, state: Option<u8>) -> DialogRow {
        DialogRow {
            id,
            expires_at: 100,
            state: state.map(|state| [state].into()),
        }
    }

    #[test]
    fn the_latest_state_counts_and_a_brief_call_is_never_written() {
        let mut unsaved = Unsaved::default();
        unsaved.add(change(1, Some(1)), NOW);
        unsaved.add(change(1, Some(2)), NOW);
        unsaved.add(change(2, Some(1)), NOW);
        unsaved.add(change(2, None), NOW);
        assert_eq!(unsaved.batch(), [change(1, Some(2))]);
        assert_eq!(unsaved.batch(), []);
    }

    #[test]
    fn a_dialog_that_ends_while_it_is_saved_is_removed_later() {
        let mut unsaved = Unsaved::default();
        unsaved.add(change(1, Some(1)), NOW);
        let batch = unsaved.batch();
        unsaved.add(change(1, None), NOW);
        unsaved.note_saved(&batch);
        let batch = unsaved.batch();
        assert_eq!(batch, [change(1, None)]);
        unsaved.note_saved(&batch);
        assert!(unsaved.saved.is_empty());
        unsaved.add(change(1, None), NOW);
        assert_eq!(unsaved.batch(), []);
    }

    #[test]
    fn a_batch_that_failed_waits_again_and_does_not_replace_what_came_later() {
        let mut unsaved = Unsaved::default();
        unsaved.add(change(1, Some(1)), NOW);
        unsaved.add(change(2, Some(1)), NOW);
        let batch = unsaved.batch();
        unsaved.add(change(2, None), NOW);
        unsaved.take_back(batch, Some(NOW));
        assert_eq!(unsaved.batch(), [change(1, Some(1)), change(2, None)]);
    }
}
