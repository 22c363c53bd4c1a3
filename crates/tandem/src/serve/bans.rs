//! Logs failures and bans, and removes expired bans.
//!
//! The lines are an interface: `deploy/fail2ban` parses them. The data plane escapes names in them, and limits the lines per source and
//! window.
use super::control::Control;
use sip_elements::bans::{Notice, Offence};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

/// How often the data plane is polled for lines.
const LOOK: Duration = Duration::from_millis(250);
/// How often expired entries are removed.
const SWEEP: Duration = Duration::from_secs(5);

/// Logs and sweeps while the server runs.
pub fn watch(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut swept = Instant::now();
        loop {
            ticks.tick().await;
            let Some(data_plane) = control.data_plane() else {
                continue;
            };
            let (bans, now) = (&data_plane.shared.bans, control.clock.now());
            while let Some(notice) = bans.next_line() {
                write(&notice, now);
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                let window = control.configuration.load().bans.window.duration();
                bans.sweep(window, now);
            }
        }
    })
}

fn write(notice: &Notice, now: sip_transport::Time) {
    match notice {
        Notice::Failure(failure) => {
            let (source, reason) = (failure.source, failure.offence.label());
            if failure.offence == Offence::Malformed {
                warn!(%source, %reason, "message refused");
            } else {
                warn!(%source, user = %failure.user, %reason, "auth failed");
            }
        }
        Notice::Banned(ban) => {
            warn!(source = %ban.source, seconds = (ban.until - now).as_secs(), "banned");
        }
    }
}
