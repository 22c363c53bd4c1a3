//! Reports the state of the server to the service manager: `sd_notify(3)` of systemd. Without a service manager, which sets
//! `NOTIFY_SOCKET`, nothing is sent.
use sd_notify::NotifyState;
use std::time::Duration;
use tracing::warn;

/// The server accepts requests.
pub(crate) fn started(listeners: usize, workers: usize) {
    let status = format!("Started with {listeners} listener(s) and {workers} worker(s)");
    send(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The start waits for something, described by `status`. It asks for `longest` more time, and as much again for what follows.
pub(crate) fn waiting(longest: Duration, status: &str) {
    let longer = u32::try_from((2 * longest).as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::ExtendTimeoutUsec(longer),
        NotifyState::Status(status),
    ]);
}

/// A reload begins. [`reloaded`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[
            NotifyState::Reloading,
            now,
            NotifyState::Status("Reloading the configuration"),
        ]),
        Err(error) => warn!(%error, "cannot read the monotonic clock for the service manager"),
    }
}

/// A reload has ended. The server runs on, also if it `applied` nothing.
pub(crate) fn reloaded(applied: bool) {
    let status = if applied {
        "Reloaded the configuration"
    } else {
        "Runs with the previous configuration: the last reload failed, see the log"
    };
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The server drains, then stops. It asks for `longest` to do so, whatever limit the service manager has by itself.
pub(crate) fn stopping(longest: Duration) {
    let longest = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(longest),
        NotifyState::Status("Draining: no new calls are accepted"),
    ]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "cannot notify the service manager");
    }
}
