//! Periodic tasks: remove expired bindings and dead targets, follow changed subscribers.
use super::changed_subscribers;
use super::control::{Control, Phase};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

/// How often expired entries are removed.
const SWEEP: Duration = Duration::from_secs(3);
/// How often the database is polled for changed subscribers.
const POLL: Duration = Duration::from_secs(1);

/// Removes expired entries while the server runs.
pub fn sweep(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut tick = ticks(SWEEP);
        loop {
            tick.tick().await;
            if let Some(data_plane) = control.data_plane() {
                let now = control.clock.now();
                data_plane.shared.dead_targets.sweep(now);
                let locations = Arc::clone(&data_plane.shared);
                // A sweep of a million bindings takes long, so it runs on a blocking thread.
                let swept =
                    tokio::task::spawn_blocking(move || locations.locations.sweep(now)).await;
                debug!(
                    ended = swept.unwrap_or_default(),
                    "removed expired bindings"
                );
            }
        }
    })
}

/// Removes cached credentials of subscribers that were added, removed or changed, while the server runs. `version` is the version of the
/// subscribers with which the cache was filled.
pub fn follow_subscribers(control: Arc<Control>, version: u64) -> JoinHandle<()> {
    control.followed_subscribers.begin(version);
    tokio::spawn(async move {
        let mut tick = ticks(POLL);
        let mut failing = false;
        loop {
            tick.tick().await;
            if control.phase() == Phase::Stopping {
                return;
            }
            let Some(store) = control.store() else {
                continue;
            };
            match changed_subscribers::catch_up(&control, store).await {
                Ok(()) => {
                    if std::mem::take(&mut failing) {
                        info!("polling for changed subscribers works again");
                    }
                }
                Err(error) => {
                    control.figures.poll_failures.increment();
                    if !std::mem::replace(&mut failing, true) {
                        warn!(%error, "cannot poll for changed subscribers; cached credentials stay in use");
                    }
                }
            }
        }
    })
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
