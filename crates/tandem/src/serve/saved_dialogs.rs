//! The calls that were in progress when the server ended, read from the database and handed to the workers. Each state is read once: the
//! home of its call alone decodes it.
//!
//! Calls that expired while the server was down are handed over, too, so that each gets its record.
use crate::control::Control;
use sip_elements::Exchange;
use sip_transport::Time;
use std::collections::HashSet;
use tandem_store::{DialogRow, Store, StoreError};
use tracing::{info, warn};

/// Overdue calls that one start ends. All end at once, and the queue of call events holds about as many (`calls/dispatch.rs`). Those
/// beyond stay in the database for the next start.
const OVERDUE: u32 = 40_000;

/// One saved dialog.
#[derive(Debug)]
struct SavedDialog {
    id: u128,
    is_overdue: bool,
    state: Box<[u8]>,
}

/// The saved dialogs of this node.
#[derive(Debug, Default)]
pub(super) struct SavedDialogs {
    /// Those that no worker has yet, by the worker that is their home.
    shares: Vec<Vec<SavedDialog>>,
    /// Those with a row in the database.
    ids: HashSet<u128>,
    /// Overdue dialogs that no worker can restore. Their rows are to be removed.
    unusable: Vec<u128>,
}

impl SavedDialogs {
    /// Reads what this node saved; nothing without `dialogs.persist`, or if a fleet shares them.
    ///
    /// # Errors
    /// Any error of the database.
    pub(super) async fn read(control: &Control, store: &Store) -> Result<Self, StoreError> {
        let configuration = control.configuration.load();
        let workers = configuration.workers.count.resolve();
        let mut saved = Self::for_workers(workers);
        if !configuration.saves_dialogs() || configuration.shared_dialogs().is_some() {
            // Rows of an earlier start would be taken for calls in progress by a later one.
            store.dialogs().delete_expired(u32::MAX).await?;
            return Ok(saved);
        }
        let now = u32::try_from(control.clock.now().unix_seconds()).unwrap_or(u32::MAX);
        let dialogs = store.dialogs();
        let live = dialogs.load_all(now, |id, state| saved.add(id, false, state));
        let live = live.await?;
        let overdue = dialogs.load_overdue(now, OVERDUE, |id, state| saved.add(id, true, state));
        let overdue = overdue.await?;
        if live > 0 {
            info!("restored {live} calls in progress");
        }
        if overdue > 0 {
            info!("{overdue} calls expired while the server was down");
        }
        if overdue == u64::from(OVERDUE) {
            warn!(
                "one start ends at most {OVERDUE} calls that expired while the server was down; any others stay in the database until the next start"
            );
        }
        Ok(saved)
    }

    fn for_workers(workers: u16) -> Self {
        Self {
            shares: (0..workers.max(1)).map(|_| Vec::new()).collect(),
            ..Self::default()
        }
    }

    fn add(&mut self, id: u128, is_overdue: bool, state: &[u8]) {
        self.ids.insert(id);
        let home = Exchange::home_of_dialog(state, self.shares.len() as u16);
        let share = home.and_then(|home| self.shares.get_mut(usize::from(home)));
        match share {
            Some(share) => share.push(SavedDialog {
                id,
                is_overdue,
                state: state.into(),
            }),
            None if is_overdue => self.unusable.push(id),
            // Another version of this program may know what it is.
            None => {}
        }
    }

    /// Gives a worker the dialogs whose home it is.
    pub(super) fn restore(&mut self, worker: u16, exchange: &mut Exchange, now: Time) {
        let share = self.shares.get_mut(usize::from(worker));
        for dialog in share.map(std::mem::take).unwrap_or_default() {
            if !exchange.restore(now, &dialog.state) && dialog.is_overdue {
                self.unusable.push(dialog.id);
            }
        }
    }

    /// The ids of all rows in the database, and changes that remove those of no use.
    pub(super) fn into_rows(self) -> (HashSet<u128>, Vec<DialogRow>) {
        let removed = self.unusable.into_iter().map(|id| DialogRow {
            id,
            expires_at: 0,
            state: None,
        });
        (self.ids, removed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_dialog::{Answer, Dialog, Dialogs, Invitation, Leg, Text};
    use sip_transaction::Account;
    use sip_transport::{Flow, ListenerId, Protocol};
    use std::time::Duration;

    /// The state of a call with this Call-ID.
    fn state(call_id: &str) -> Box<[u8]> {
        let now = Time::from_unix_seconds(1);
        let leg = Leg {
            flow: Flow::to(ListenerId(0), ([192, 0, 2, 7], 5060).into()),
            protocol: Protocol::Udp,
            is_by_flow: false,
        };
        let mut dialogs = Dialogs::new(now);
        let id = dialogs.begin(&Invitation {
            id: 1,
            account: Account::KNOWN,
            source: leg,
            cseq: 1,
            received: now,
            texts: &[(Text::CallId, call_id.as_bytes())],
        });
        let answer = Answer {
            key: 1,
            destination: leg,
            status: 200,
            now,
            lifetime: Duration::from_secs(1_800),
            patience: Duration::from_secs(32),
            texts: &[],
        };
        dialogs.confirm(id, &answer, true);
        dialogs.get(id).map(Dialog::encode).expect("a dialog")
    }

    #[test]
    fn each_dialog_is_for_its_home_alone_and_unreadable_rows_are_removed_once_they_are_overdue() {
        let mut saved = SavedDialogs::for_workers(3);
        for id in 0..60 {
            saved.add(id, id % 2 == 0, &state(&format!("call-{id}")));
        }
        saved.add(60, false, b"of a newer version");
        saved.add(61, true, b"of a newer version");
        let shares: Vec<usize> = saved.shares.iter().map(Vec::len).collect();
        assert_eq!(shares.iter().sum::<usize>(), 60);
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        for (home, share) in (0..).zip(&saved.shares) {
            for dialog in share {
                assert_eq!(Exchange::home_of_dialog(&dialog.state, 3), Some(home));
                assert_eq!(dialog.is_overdue, dialog.id % 2 == 0);
            }
        }
        let (ids, removed) = saved.into_rows();
        assert_eq!(ids, (0..62).collect());
        let removed: Vec<_> = removed.iter().map(|row| (row.id, &row.state)).collect();
        assert_eq!(removed, [(61, &None)]);
    }
}
