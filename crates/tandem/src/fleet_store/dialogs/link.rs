//! The task that exchanges dialogs with the store, over one connection: writes changes behind, searches, says that this node is alive, and
//! claims the dialogs of nodes that are gone.

use super::counters::{Origin, Search};
use super::intake::{DialogOutlet, Intake, IntakeOptions, seconds};
use super::session::{Beat, NEWS, Session};
use crate::calls::log::printable;
use crate::redis_connection::RedisServer;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tracing::{error, info};

/// How often news is taken and changes are written.
const LOOK: Duration = Duration::from_millis(20);
/// How often this node says that it is alive, and learns what it has lost.
const BEAT: Duration = Duration::from_millis(500);
/// How often dialogs of nodes that are gone are looked for, and how many are claimed at once. So a thousand calls take about 5 s for three nodes.
const ORPHANS: (Duration, usize) = (Duration::from_secs(1), 64);
/// Changes that are written, dialogs that are searched and dialogs that are restored at once.
const BATCH: usize = 512;
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Letters of an error that the log repeats.
const LONGEST_ERROR: usize = 200;

/// The store, and what this node does there.
pub(crate) struct DialogLinkOptions {
    /// The store.
    pub(crate) server: RedisServer,
    /// Its URL without the password, for the log.
    pub(crate) shown: String,
    /// The beginning of all keys.
    pub(crate) prefix: String,
    /// The name of this instance.
    pub(crate) instance: String,
    /// How long a node may be silent before its dialogs are claimed.
    pub(crate) orphan_after: Duration,
}

/// The link of a node.
pub(crate) struct DialogLink<O> {
    options: DialogLinkOptions,
    intake: Intake<O>,
    /// The dialogs of this node that are not restored yet; `None`: they are not known yet.
    own: Option<Vec<Vec<u8>>>,
    failing: bool,
}

impl<O: DialogOutlet> DialogLink<O> {
    pub(crate) fn new(options: DialogLinkOptions, intake: IntakeOptions<O>) -> Self {
        Self {
            options,
            intake: Intake::new(intake),
            own: None,
            failing: false,
        }
    }

    /// Exchanges dialogs until the workers have stopped and everything is written.
    pub(crate) async fn run(mut self) {
        let mut pause = PAUSES.0;
        loop {
            let began = Instant::now();
            let ended = self.exchange().await;
            let was_connected = self.intake.counters().is_connected();
            self.intake.counters().set_connected(false);
            let Err(problem) = ended else { return };
            self.fails(&problem);
            if was_connected && began.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            self.intake.meanwhile(sleep(pause)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Works with one connection. Returns when everything is done.
    async fn exchange(&mut self) -> anyhow::Result<()> {
        let DialogLinkOptions {
            server,
            prefix,
            instance,
            ..
        } = &self.options;
        let opening = Session::open(server, prefix, instance);
        let mut session = self.intake.meanwhile(opening).await?;
        let connected = Instant::now();
        let (mut beaten, mut looked) = (connected, connected);
        // What this node has lost must be known before it writes.
        self.beat(&mut session).await?;
        self.intake.ledger.write_all(self.intake.now());
        if self.own.is_none() {
            self.own = Some(self.intake.meanwhile(session.own()).await?);
        }
        loop {
            let is_open = self.intake.turn();
            if beaten.elapsed() >= BEAT || !self.intake.has_news {
                beaten = Instant::now();
                self.beat(&mut session).await?;
            }
            self.search(&mut session).await?;
            if self.intake.has_sent_orders() {
                self.restore(&mut session).await?;
            }
            let (interval, most) = ORPHANS;
            let after = self.options.orphan_after;
            // After an outage of the store, the other nodes need time to say that they are alive.
            let may_claim = is_open && connected.elapsed() > after;
            if may_claim && looked.elapsed() >= interval && self.intake.has_sent_orders() {
                looked = Instant::now();
                let claiming = session.orphans(after, most);
                for dialog in self.intake.meanwhile(claiming).await? {
                    self.intake.adopt(dialog, Origin::Orphan);
                }
            }
            self.write(&mut session).await?;
            self.works();
            let is_settled = self.intake.ledger.is_settled();
            if is_settled && !is_open {
                return Ok(());
            }
            if is_settled {
                self.intake.meanwhile(sleep(LOOK)).await;
            }
        }
    }

    async fn beat(&mut self, session: &mut Session) -> anyhow::Result<()> {
        loop {
            let now = seconds(self.intake.now());
            let Beat { is_new, lost } = self.intake.meanwhile(session.beat(now)).await?;
            if is_new {
                self.intake.ledger.write_all(self.intake.now());
            }
            for news in &lost {
                self.intake.lose(news);
            }
            if lost.len() < NEWS {
                self.intake.has_news = true;
                return Ok(());
            }
        }
    }

    async fn search(&mut self, session: &mut Session) -> anyhow::Result<()> {
        while !self.intake.searches.is_empty() {
            let wanted = self.intake.searches.iter().take(BATCH);
            let keys: Vec<[u64; 2]> = wanted.map(|it| it.missed.keys).collect();
            let found = self.intake.meanwhile(session.claim(&keys)).await?;
            // Some may have timed out meanwhile: those at the front.
            for (keys, dialog) in keys.into_iter().zip(found) {
                let searches = &mut self.intake.searches;
                let is_first = searches.front().is_some_and(|it| it.missed.keys == keys);
                let wanted = is_first.then(|| searches.pop_front()).flatten();
                match (dialog, wanted) {
                    (Some(dialog), Some(wanted)) if dialog.id as u32 == wanted.missed.call => {
                        self.intake.counters().note_search(Search::Found);
                        self.intake.adopt(dialog, Origin::Request);
                    }
                    (Some(dialog), None) => self.intake.adopt(dialog, Origin::Request),
                    _ => self.intake.counters().note_search(Search::NotFound),
                }
            }
        }
        Ok(())
    }

    /// Gives the workers a part of the dialogs that this node had before it was restarted.
    async fn restore(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let Some(own) = self.own.as_mut().filter(|own| !own.is_empty()) else {
            return Ok(());
        };
        let part = own.split_off(own.len().saturating_sub(BATCH));
        let is_last = own.is_empty();
        let read = match self.intake.meanwhile(session.read(&part)).await {
            Ok(read) => read,
            Err(problem) => {
                self.own.get_or_insert_default().extend(part);
                return Err(problem);
            }
        };
        let instance = self.options.instance.as_bytes();
        for dialog in read.into_iter().filter(|it| &*it.owner == instance) {
            self.intake.adopt(dialog, Origin::Own);
        }
        if is_last {
            let restored = self.intake.counters().claimed(Origin::Own);
            info!("restored {restored} calls in progress");
        }
        Ok(())
    }

    /// Writes a part of what waits.
    async fn write(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let batch = self.intake.ledger.batch(BATCH);
        if batch.is_empty() {
            return Ok(());
        }
        let now = seconds(self.intake.now());
        match self.intake.meanwhile(session.write(&batch, now)).await {
            Ok(refused) => {
                self.intake.ledger.note_written();
                self.intake.counters().written.inc_by(batch.len() as u64);
                self.intake.saves().saves.inc();
                for news in &refused {
                    self.intake.lose(news);
                }
                Ok(())
            }
            Err(problem) => {
                self.intake.ledger.take_back(batch);
                Err(problem)
            }
        }
    }

    fn works(&mut self) {
        self.intake.counters().set_connected(true);
        if std::mem::take(&mut self.failing) {
            info!("dialogs are shared with the fleet again");
        }
    }

    fn fails(&mut self, problem: &anyhow::Error) {
        self.intake.counters().store_errors.inc();
        self.intake.saves().failures.inc();
        if !std::mem::replace(&mut self.failing, true) {
            let text: String = problem.to_string().chars().take(LONGEST_ERROR).collect();
            let (problem, store) = (printable(text.as_bytes()), &self.options.shown);
            error!(
                "dialogs.store {store}: {problem}; calls go on, changes wait in memory, and this is retried"
            );
        }
    }
}

impl<O: DialogOutlet> Intake<O> {
    /// Waits for the store, while news and orders go on.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep(LOOK) => self.turn(),
            };
        }
    }
}
