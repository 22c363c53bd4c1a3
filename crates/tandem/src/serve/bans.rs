//! Logs failures and bans, and removes expired bans.
//!
//! The lines are an interface: `deploy/fail2ban` parses them. The data plane escapes names in them, and limits the lines per source and
//! window.
use super::control::Control;
use sip_elements::Record;
use sip_elements::bans::{Notice, Offence};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

/// Records that may wait for the log. The workers count those beyond.
pub const WAITING_RECORDS: usize = 4_096;
/// How often expired entries are removed.
const SWEEP: Duration = Duration::from_secs(5);

/// Logs what the workers record, until the last worker has stopped.
pub fn log(control: Arc<Control>, mut records: mpsc::Receiver<Record>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(Record::Notice(notice)) = records.recv().await {
            write(&notice, control.clock.now());
        }
    })
}

/// Removes expired entries while the server runs.
pub fn sweep(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = interval(SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Some(data_plane) = control.data_plane() {
                let window = control.configuration.load().bans.window;
                data_plane.shared.bans.sweep(window, control.clock.now());
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
