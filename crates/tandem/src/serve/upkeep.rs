//! Periodic tasks: remove expired bindings and dead targets, follow changed subscribers.
use super::bindings::ListenerNames;
use super::changed_subscribers::ChangedSubscribers;
use super::taken_over::TakenOver;
use crate::control::{Control, Phase, Running};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tracing::{debug, info, warn};

/// How often expired entries are removed.
const SWEEP: Duration = Duration::from_secs(3);
/// How often counts of sources and subscribers that are idle are removed, and how many are examined at once.
const LIMIT_SWEEP: (Duration, usize) = (Duration::from_secs(1), 65_536);
/// How often the database is polled for changed subscribers.
const POLL: Duration = Duration::from_secs(1);
/// How often the server looks whether the readers of events read.
const LOOK: Duration = Duration::from_secs(1);

/// Removes expired entries while the server runs.
pub(super) fn sweep(control: Arc<Control>, running: Arc<Running>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = ticks(SWEEP);
        loop {
            ticks.tick().await;
            let now = control.clock.now();
            running.shared.dead_targets.sweep(now);
            let shared = Arc::clone(&running.shared);
            // A sweep of a million bindings takes long, so it runs on a blocking thread.
            let swept = tokio::task::spawn_blocking(move || shared.locations.sweep(now)).await;
            debug!(
                ended = swept.unwrap_or_default(),
                "removed expired bindings"
            );
        }
    })
}

/// Removes the counts of sources and subscribers without calls while the server runs.
pub(super) fn sweep_limits(control: Arc<Control>, running: Arc<Running>) -> JoinHandle<()> {
    let (every, budget) = LIMIT_SWEEP;
    tokio::spawn(async move {
        let mut ticks = ticks(every);
        loop {
            ticks.tick().await;
            let policy = running.policy.load_full();
            let now = control.clock.now();
            let swept = tokio::task::spawn_blocking(move || policy.limits.sweep(now, budget)).await;
            let removed = swept.map_or(0, |swept| swept.removed);
            debug!(removed, "removed idle counts of sources and subscribers");
        }
    })
}

/// Disconnects readers of call events that do not read, while the server runs.
pub(super) fn look_at_readers(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = ticks(LOOK);
        loop {
            ticks.tick().await;
            control.events.look();
        }
    })
}

/// Polls for subscribers that were added, removed or changed, while the server runs.
pub(super) fn follow_subscribers(
    control: Arc<Control>,
    subscribers: Arc<ChangedSubscribers>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = ticks(POLL);
        let mut failing = false;
        loop {
            ticks.tick().await;
            if control.phase() == Phase::Stopping {
                return;
            }
            match subscribers.poll().await {
                Ok(()) => {
                    if std::mem::take(&mut failing) {
                        info!("polling for changed subscribers works again");
                    }
                }
                Err(error) => {
                    control.counters.poll_failures.inc();
                    if !std::mem::replace(&mut failing, true) {
                        warn!(%error, "cannot poll for changed subscribers; cached credentials stay in use");
                    }
                }
            }
        }
    })
}

/// Takes over the registrations at the Kamailio whose database this is, while the server runs.
pub(super) fn follow_kamailio(
    control: Arc<Control>,
    running: Arc<Running>,
    mut taken_over: TakenOver,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let names = ListenerNames::new(&running.listeners);
        let mut failing = false;
        loop {
            let configuration = control.configuration.load_full();
            let Some(tables) = configuration.kamailio() else {
                return;
            };
            sleep(tables.location_interval).await;
            let (store, locations) = (&running.store, &running.shared.locations);
            let now = control.clock.now();
            match taken_over.read(store, locations, &names, now).await {
                Ok(read) => {
                    debug!(
                        bindings = read.bindings,
                        "read the registrations at Kamailio"
                    );
                    failing = false;
                }
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    warn!(%error, "cannot read the registrations at Kamailio; those known stay until they expire");
                }
                Err(_) => {}
            }
        }
    })
}

/// Ticks at this interval. A tick that comes late delays the following ones.
pub(super) fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
