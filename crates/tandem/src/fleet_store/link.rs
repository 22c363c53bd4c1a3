//! The task that moves records between this node and the store, over two connections: one writes and compares, one waits for changes.

use super::comparison::{Compared, compare, receive_all};
use super::layout::{BUCKETS, Layout};
use super::locations::{FleetLocations, seconds};
use super::outbox::{Outgoing, Taken};
use super::received::is_in_shard;
use super::session::{Change, Position, Session};
use crate::calls::log::printable;
use crate::redis_connection::RedisServer;
use anyhow::anyhow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{error, info, warn};

/// Records that are written with one pipeline of commands.
const BATCH: usize = 1_024;
/// How long a read waits for changes.
const READ: Duration = Duration::from_millis(500);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Letters of an error that the log repeats.
const LONGEST_ERROR: usize = 200;
/// Initial estimate of records written per second, and the least.
const RATES: (f64, f64) = (20_000.0, 500.0);
/// Writes with fewer records do not change the estimate: their fixed cost dominates.
const SMALLEST_SAMPLE: usize = 200;

/// What [`Link::new`] needs.
#[derive(Debug)]
pub(crate) struct LinkOptions {
    /// The store.
    pub(crate) server: RedisServer,
    /// Its URL without the password, for the log.
    pub(crate) shown: String,
    /// The beginning of all keys.
    pub(crate) prefix: String,
    /// A random text: the epoch of a store that is empty.
    pub(crate) epoch: String,
    /// How often a step of the sweep over the store begins.
    pub(crate) sweep: Duration,
    /// How long a save may take.
    pub(crate) save_time: Duration,
}

/// Why a session ended.
enum Ended {
    /// The store failed.
    Failed(anyhow::Error),
    /// Changes are missing: all records must be compared.
    Gap(&'static str),
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// The link of a node.
pub(crate) struct Link {
    fleet: Arc<FleetLocations>,
    options: LinkOptions,
    layout: Layout,
    /// Where this node is in the streams; `None`: it must compare first.
    position: Option<Position>,
    pause: Duration,
    failing: bool,
    rate: f64,
}

impl Link {
    pub(crate) fn new(fleet: Arc<FleetLocations>, options: LinkOptions) -> Self {
        Self {
            fleet,
            layout: Layout::of_locations(&options.prefix),
            options,
            position: None,
            pause: PAUSES.0,
            failing: false,
            rate: RATES.0,
        }
    }

    /// Loads all bindings. Returns how many records the store had.
    ///
    /// # Errors
    /// Why the store cannot be read. Try again: a part may have been loaded.
    pub(crate) async fn load(&mut self) -> anyhow::Result<u64> {
        let began = Instant::now();
        match self.open().await {
            Ok((_, compared)) => {
                let Compared { found, .. } = compared.unwrap_or_default();
                let bindings = self.fleet.locations().stats().live;
                let millis = began.elapsed().as_millis();
                let to = &self.options.shown;
                info!(
                    records = found,
                    bindings, millis, "read the bindings of the fleet from {to}"
                );
                Ok(bindings)
            }
            Err(error) => {
                self.fleet.counters.store_errors.inc();
                Err(anyhow!(
                    "location.store {}: {}",
                    self.options.shown,
                    shortened(&error)
                ))
            }
        }
    }

    /// Exchanges changes until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let ended = self.exchange().await;
            self.fleet.counters.set_connected(false);
            match ended {
                Ended::Failed(problem) => {
                    self.fails(&problem);
                    sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSES.1);
                }
                Ended::Gap(why) => {
                    info!(why, "comparing all bindings with the store");
                    self.position = None;
                }
            }
        }
    }

    /// Connects, and compares all records if changes may be missing on either side.
    async fn open(&mut self) -> anyhow::Result<(Session, Option<Compared>)> {
        let mut session = Session::open(&self.options.server, &self.layout).await?;
        let found = session.position(&self.options.epoch).await?;
        if self
            .position
            .as_ref()
            .is_some_and(|own| own.leads_to(&found))
        {
            return Ok((session, None));
        }
        // A failure from here on leaves the comparison unfinished.
        self.position = None;
        let compared = compare(&self.fleet, &mut session, &found).await?;
        self.position = Some(found);
        Ok((session, Some(compared)))
    }

    async fn exchange(&mut self) -> Ended {
        let opened = self.open().await;
        let (mut writer, compared) = match opened {
            Ok(opened) => opened,
            Err(error) => return error.into(),
        };
        let mut reader = match Session::open(&self.options.server, &self.layout).await {
            Ok(reader) => reader,
            Err(error) => return error.into(),
        };
        let Some(mut position) = self.position.clone() else {
            return Ended::Gap("there is no position");
        };
        let compared = compared.unwrap_or_default();
        // What waited meanwhile is written first, so that a store that is full does not count as one that works.
        let first = self.send(&mut writer, &position).await;
        if let Err(ended) = first {
            return ended;
        }
        self.fleet.counters.set_connected(true);
        self.works(compared);
        let written = position.clone();
        let fleet = Arc::clone(&self.fleet);
        let ended = tokio::select! {
            ended = self.write(&mut writer, &written) => ended,
            ended = read(&fleet, &mut reader, &mut position) => ended,
        };
        self.position = Some(position);
        ended
    }

    /// Writes changes as they come, and sweeps over the store.
    async fn write(&mut self, session: &mut Session, position: &Position) -> Ended {
        let mut ticks = interval(self.options.sweep);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bucket = self.fleet.address_place(self.fleet.instance.as_bytes()).0;
        loop {
            let fleet = Arc::clone(&self.fleet);
            let done = tokio::select! {
                () = fleet.outbox.changed() => self.send(session, position).await,
                _ = ticks.tick() => {
                    bucket = (bucket + 1) % BUCKETS;
                    self.sweep(session, position, bucket).await
                }
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// Writes everything that waits.
    async fn send(&mut self, session: &mut Session, position: &Position) -> Result<(), Ended> {
        let Taken {
            records,
            save,
            overflowed,
        } = self.fleet.outbox.take();
        let fleet = Arc::clone(&self.fleet);
        // If this is dropped half-way, what is unsent goes back.
        let mut unsent = Unsent {
            fleet: &fleet,
            records,
            overflowed,
        };
        if overflowed {
            return Err(Ended::Gap("too many changes waited"));
        }
        let (began, count) = (Instant::now(), unsent.records.len());
        while !unsent.records.is_empty() {
            let most = unsent.records.len().min(BATCH);
            let batch = unsent.records.get(..most).unwrap_or_default();
            let newer = match session.write(batch, position, &fleet.origin).await {
                Ok(newer) => newer,
                Err(error) if error.to_string().contains("EPOCH") => {
                    return Err(Ended::Gap("the store has lost its data"));
                }
                Err(error) => return Err(error.into()),
            };
            unsent.records.drain(..most);
            fleet.counters.sent.inc_by(newer);
            fleet.counters.refused.inc_by(most as u64 - newer);
        }
        drop(unsent);
        self.learn(count, began.elapsed());
        fleet.note_saved(save, self.room());
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn learn(&mut self, count: usize, took: Duration) {
        if count >= SMALLEST_SAMPLE {
            let rate = count as f64 / took.as_secs_f64().max(1e-6);
            self.rate = (self.rate * 0.75 + rate * 0.25).max(RATES.1);
        }
    }

    /// How many changes can be written in time.
    #[expect(clippy::cast_sign_loss, reason = "neither is negative")]
    fn room(&self) -> usize {
        (self.rate * self.options.save_time.as_secs_f64()) as usize
    }

    /// Looks at one bucket: takes over what was missed, deletes what has expired, on both sides.
    async fn sweep(
        &self,
        session: &mut Session,
        position: &Position,
        bucket: u16,
    ) -> Result<(), Ended> {
        if !session.has_epoch(position).await? {
            return Err(Ended::Gap("the store has lost its data"));
        }
        let fleet = &self.fleet;
        let now = seconds(fleet.now());
        let mut cursor = 0;
        loop {
            let scanned = session.scan(&[(bucket, cursor)]).await?;
            let Some((next, records)) = scanned.into_iter().next() else {
                break;
            };
            let mut outdated = Vec::new();
            for pair in records.chunks(2) {
                let received = receive_all(fleet, bucket, pair).into_iter().next();
                let old = received.filter(|received| received.forget_at < now);
                if let (Some(old), Some(field)) = (old, pair.first()) {
                    outdated.push((field.clone(), old.version));
                }
            }
            if !outdated.is_empty() {
                let deleted = session.delete(bucket, &outdated).await?;
                fleet.counters.deleted.inc_by(deleted);
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        fleet.ledger().forget(bucket, now);
        Ok(())
    }

    /// Counts a failure, and logs the first of a series.
    fn fails(&mut self, problem: &anyhow::Error) {
        self.fleet.counters.store_errors.inc();
        if !std::mem::replace(&mut self.failing, true) {
            error!(
                to = self.options.shown,
                "cannot exchange bindings with the fleet: {}; this node goes on with those in memory, and retries",
                shortened(problem)
            );
        }
    }

    fn works(&mut self, compared: Compared) {
        self.pause = PAUSES.0;
        let Compared { found, written } = compared;
        if std::mem::take(&mut self.failing) {
            warn!(
                to = self.options.shown,
                found, written, "the exchange of bindings works again"
            );
        }
    }
}

/// Records that were taken from the outbox.
struct Unsent<'f> {
    fleet: &'f FleetLocations,
    records: Vec<Outgoing>,
    overflowed: bool,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        let records = std::mem::take(&mut self.records);
        self.fleet.outbox.settle(records, self.overflowed);
    }
}

/// Takes over changes as they come.
async fn read(fleet: &FleetLocations, session: &mut Session, position: &mut Position) -> Ended {
    loop {
        let changes = match session.changes(&position.read, READ).await {
            Ok(changes) => changes,
            Err(error) => return error.into(),
        };
        for change in changes {
            let Some(read) = position.read.get_mut(usize::from(change.shard)) else {
                continue;
            };
            if change.at.number != read.number + 1 {
                return Ended::Gap("changes are missing in a stream");
            }
            take_over(fleet, &change);
            *read = change.at;
        }
        fleet.locations().make_room();
    }
}

fn take_over(fleet: &FleetLocations, change: &Change) {
    let now = fleet.now();
    let is_own = change.origin == fleet.origin;
    if !is_own {
        fleet.check_origin(&change.origin);
    }
    for pair in change.records.chunks_exact(2) {
        let [field, value] = pair else { continue };
        if is_own {
            fleet.note_returned(value, now);
        } else {
            fleet.receive(field, value, now, is_in_shard(change.shard));
        }
    }
}

/// The beginning of a problem, for the log. The server may have chosen its words.
fn shortened(problem: &anyhow::Error) -> String {
    let text: String = problem.to_string().chars().take(LONGEST_ERROR).collect();
    printable(text.as_bytes())
}
