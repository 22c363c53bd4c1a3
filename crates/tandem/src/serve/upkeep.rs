//! What has to be done every now and then: expired bindings and dead targets go, changed subscribers are forgotten.
use super::changed_subscribers;
use super::control::{Control, Phase};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

/// How often expired bindings are swept.
const SWEEP: Duration = Duration::from_secs(3);
/// How often changed subscribers are asked for.
const POLL: Duration = Duration::from_secs(1);

/// Removes what has expired, as long as the server runs.
pub fn sweep(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut tick = ticks(SWEEP);
        loop {
            tick.tick().await;
            if let Some(data_plane) = control.data_plane() {
                let now = control.clock.now();
                data_plane.shared.dead_targets.sweep(now);
                let locations = Arc::clone(&data_plane.shared);
                // A million bindings take a while: not on a thread that others wait for.
                let swept =
                    tokio::task::spawn_blocking(move || locations.locations.sweep(now)).await;
                debug!(
                    ended = swept.unwrap_or_default(),
                    "expired bindings were swept"
                );
            }
        }
    })
}

/// Forgets the cached credentials of subscribers that were added, removed or given another password, as long as the server runs. `version` is
/// that of the subscribers when the cache was filled.
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
                        info!("changed subscribers are being followed again");
                    }
                }
                Err(error) => {
                    control.figures.poll_failures.increment();
                    if !std::mem::replace(&mut failing, true) {
                        warn!(%error, "changes of subscribers cannot be followed; cached ones stay in use");
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
