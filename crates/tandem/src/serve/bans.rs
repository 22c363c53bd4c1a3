//! Logs what the workers notice, such as failures and bans, and removes expired bans.
//!
//! The lines are an interface: `deploy/fail2ban` parses them. The data plane escapes names in them, and limits the lines per source and
//! window.
use super::registrations;
use super::upkeep::ticks;
use crate::control::{Control, Running};
use sip_elements::bans::{Notice, Offence};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::warn;

/// How often expired entries are removed.
const SWEEP: Duration = Duration::from_secs(5);

/// Logs what the workers notice, until the last worker has stopped.
pub(super) fn log(control: Arc<Control>, mut notices: mpsc::Receiver<Notice>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(notice) = notices.recv().await {
            write(&notice, control.clock.now());
        }
    })
}

/// Removes expired entries while the server runs.
pub(super) fn sweep(control: Arc<Control>, running: Arc<Running>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = ticks(SWEEP);
        loop {
            ticks.tick().await;
            let window = control.configuration.load().bans.window;
            running.shared.bans.sweep(window, control.clock.now());
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
                let call_id = &failure.call_id;
                warn!(%source, user = %failure.user, %reason, %call_id, "auth failed");
            }
        }
        Notice::Registration(notice) => registrations::write(notice),
        Notice::Banned(ban) => {
            warn!(source = %ban.source, seconds = (ban.until - now).as_secs(), "banned");
        }
    }
}
