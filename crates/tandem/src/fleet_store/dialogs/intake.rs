//! What goes on whatever the store does: takes the news of the workers, and hands them their orders.

use super::counters::{FleetDialogCounters, Origin, Search};
use super::ledger::{Ledger, Lost};
use super::record::StoredDialog;
use crate::control::DialogSaveCounters;
use sip_dialog::CallEvent;
use sip_elements::{ControlMessage, Exchange, MissedDialog};
use sip_message::KeyHasher;
use sip_runtime::Clock;
use sip_transport::Time;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tandem_store::DialogRow;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// Searches that may wait.
const MOST_SEARCHES: usize = 4_096;
/// How long a search waits for the store: as long as a BYE waits for its dialog.
const SEARCH_PATIENCE: Duration = Duration::from_secs(30);
/// A process that did nothing for so long may have been taken for gone.
const HANG: Duration = Duration::from_secs(3);
/// Records of calls that wait at most, and how long at least and at most.
const MOST_HELD: usize = 65_536;
const HELD: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How often the ledger is searched for dialogs that have expired.
const FORGET: Duration = Duration::from_secs(60);

/// What workers say about dialogs.
#[derive(Debug)]
pub(crate) enum DialogNews {
    /// A dialog has changed or ended.
    Changed(DialogRow),
    /// A request belongs to a dialog that is not here.
    Missed(MissedDialog),
    /// A call has ended, but another node may have had it: see [`Pulse`].
    Ended(Box<CallEvent>),
}

/// Says to the workers whether this process has run all the time. After a pause, other nodes may have taken its dialogs, so the records of
/// calls that end wait until the store has said which ones.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    clock: Clock,
    /// Microseconds; 0: dialogs are not shared.
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// No pulse, so that nothing waits.
    pub(crate) fn new(clock: Clock) -> Self {
        let last = Arc::default();
        Self { clock, last }
    }

    /// Whether the process has run without a pause.
    pub(crate) fn is_steady(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last == 0 || self.clock.now().saturating_since(Time::from_micros(last)) < HANG
    }

    fn beat(&self) {
        let now = self.clock.now().as_micros();
        self.last.store(now, Ordering::Relaxed);
    }
}

/// Where orders to the workers and records of calls go.
pub(crate) trait DialogOutlet: Send + Sync + 'static {
    /// Sends an order to a worker.
    ///
    /// # Errors
    /// Its inbox is full. The order is returned.
    fn order(&self, worker: u16, order: ControlMessage) -> Result<(), ControlMessage>;

    /// Passes on a record that has waited.
    fn release(&self, event: CallEvent);
}

/// What [`Intake::new`] needs.
pub(crate) struct IntakeOptions<O> {
    /// The name of this instance.
    pub(crate) instance: String,
    /// The number of workers.
    pub(crate) workers: u16,
    /// Computes the keys of dialogs.
    pub(crate) hasher: KeyHasher,
    /// The clock of the workers.
    pub(crate) clock: Clock,
    /// The most bytes of dialogs in memory.
    pub(crate) most_bytes: usize,
    /// Where orders and records go.
    pub(crate) outlet: O,
    /// What workers say.
    pub(crate) news: mpsc::Receiver<DialogNews>,
    /// Watched by the workers.
    pub(crate) pulse: Pulse,
    /// The counters.
    pub(crate) counters: Arc<FleetDialogCounters>,
    /// Counts what is not saved yet.
    pub(crate) saves: Arc<DialogSaveCounters>,
}

/// A search for a dialog.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) missed: MissedDialog,
    pub(super) since: Time,
}

/// The state of the exchange that needs no store.
pub(super) struct Intake<O> {
    options: IntakeOptions<O>,
    pub(super) ledger: Ledger,
    pub(super) searches: VecDeque<Wanted>,
    orders: VecDeque<(u16, ControlMessage)>,
    /// Calls that have ended after a pause of this process, and when that was noted.
    held: HashMap<u128, (Time, CallEvent)>,
    /// Since when it is not certain which dialogs this node has.
    uncertain: Option<Time>,
    /// The store has said what other nodes have claimed since then.
    pub(super) has_news: bool,
    forgot: Time,
}

impl<O: DialogOutlet> Intake<O> {
    pub(super) fn new(options: IntakeOptions<O>) -> Self {
        let now = options.clock.now();
        options.pulse.beat();
        Self {
            ledger: Ledger::new(&options.instance, options.most_bytes),
            options,
            searches: VecDeque::new(),
            orders: VecDeque::new(),
            held: HashMap::new(),
            uncertain: None,
            has_news: false,
            forgot: now,
        }
    }

    /// The present time.
    pub(super) fn now(&self) -> Time {
        self.options.clock.now()
    }

    pub(super) fn counters(&self) -> &FleetDialogCounters {
        &self.options.counters
    }

    pub(super) fn saves(&self) -> &DialogSaveCounters {
        &self.options.saves
    }

    /// Takes all news and sends all orders. Returns false once the workers have stopped and nothing is left.
    pub(super) fn turn(&mut self) -> bool {
        let now = self.now();
        self.notice_pause(now);
        let is_open = loop {
            match self.options.news.try_recv() {
                Ok(news) => self.take(news, now),
                Err(TryRecvError::Empty) => break true,
                Err(TryRecvError::Disconnected) => break false,
            }
        };
        self.send_orders();
        while let Some(wanted) = self.searches.front()
            && now.saturating_since(wanted.since) > SEARCH_PATIENCE
        {
            self.searches.pop_front();
            self.counters().note_search(Search::TimedOut);
        }
        self.ledger.forget(now);
        if now.saturating_since(self.forgot) > FORGET {
            self.forgot = now;
            self.ledger.forget_expired(seconds(now));
        }
        self.settle(now);
        if !is_open {
            // No record waits longer than the workers.
            self.release(|_| true);
        }
        self.publish();
        is_open
    }

    fn notice_pause(&mut self, now: Time) {
        if self.uncertain.is_none() && !self.options.pulse.is_steady() {
            self.uncertain = Some(now);
            self.has_news = false;
            self.ledger.write_all(now);
        }
    }

    fn take(&mut self, news: DialogNews, now: Time) {
        match news {
            DialogNews::Changed(DialogRow {
                id,
                expires_at,
                state: Some(state),
            }) => {
                // The workers write only states that they can read.
                let Some(key) = Exchange::key_of_dialog(&state, &self.options.hasher) else {
                    return;
                };
                if !self.ledger.change((id, key), state, expires_at, now) {
                    self.counters().overflows.inc();
                }
            }
            DialogNews::Changed(DialogRow { id, .. }) => {
                self.ledger.end(id, self.uncertain.is_none(), now);
            }
            DialogNews::Missed(_) if self.searches.len() >= MOST_SEARCHES => {
                self.counters().note_search(Search::Dropped);
            }
            DialogNews::Missed(missed) => self.searches.push_back(Wanted { missed, since: now }),
            DialogNews::Ended(event) => {
                if self.held.len() >= MOST_HELD {
                    self.options.outlet.release(*event);
                } else {
                    self.held.insert(event.call.id, (now, *event));
                }
            }
        }
    }

    /// Takes a dialog that this node has claimed, and gives it to its home. `key` is known if a request has named it.
    pub(super) fn adopt(&mut self, dialog: StoredDialog, origin: Origin) {
        let Some(key) = Exchange::key_of_dialog(&dialog.state, &self.options.hasher) else {
            return;
        };
        let Some(home) = Exchange::home_of_dialog(&dialog.state, self.options.workers) else {
            return;
        };
        if self.ledger.adopt(key, &dialog) {
            self.counters().note_claimed(origin);
            let state = dialog.state;
            self.orders
                .push_back((home, ControlMessage::Adopt { state }));
            self.send_orders();
        }
    }

    /// Takes news about a claim of another node.
    pub(super) fn lose(&mut self, news: &StoredDialog) {
        if self.held.remove(&news.id).is_some() {
            self.counters().withheld.inc();
        }
        let Some(Lost { id, key, state }) = self.ledger.lose(news) else {
            return;
        };
        self.counters().lost.inc();
        if let Some(home) = Exchange::home_of_dialog(&state, self.options.workers) {
            self.orders
                .push_back((home, ControlMessage::Disown { id, key }));
            self.send_orders();
        }
    }

    /// Whether the workers have taken all orders.
    pub(super) fn has_sent_orders(&self) -> bool {
        self.orders.is_empty()
    }

    fn send_orders(&mut self) {
        while let Some((worker, order)) = self.orders.pop_front() {
            if let Err(order) = self.options.outlet.order(worker, order) {
                self.orders.push_front((worker, order));
                return;
            }
        }
    }

    /// Ends the uncertainty once the store has all dialogs of this node, and has said what it has lost.
    fn settle(&mut self, now: Time) {
        let Some(since) = self.uncertain else {
            self.options.pulse.beat();
            return;
        };
        let is_certain = self.has_news && self.ledger.is_settled() && self.orders.is_empty();
        let (shortest, longest) = HELD;
        let waits = if is_certain { shortest } else { longest };
        self.release(|at| now.saturating_since(at) > waits);
        let is_over = now.saturating_since(since) > waits && self.held.is_empty();
        if is_over {
            self.uncertain = None;
            self.options.pulse.beat();
        }
    }

    fn release(&mut self, is_due: impl Fn(Time) -> bool) {
        let outlet = &self.options.outlet;
        for (_, (_, event)) in self.held.extract_if(|_, (at, _)| is_due(*at)) {
            outlet.release(event);
        }
    }

    fn publish(&self) {
        let (waiting, oldest) = self.ledger.waiting();
        let saves = self.saves();
        saves.unsaved.set(waiting as u64);
        saves.oldest.set(oldest.map_or(0, Time::as_micros));
        let (dialogs, bytes) = self.ledger.size();
        self.counters().set_shared(dialogs, bytes);
    }
}

/// Whole seconds since the Unix epoch.
pub(super) fn seconds(now: Time) -> u32 {
    u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX)
}
