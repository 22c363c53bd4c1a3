//! Session timers as a proxy handles them (RFC 4028 section 8).

mod any_message;
mod requests;
mod responses;

use sip_dialog::SessionTimerSettings;
use std::time::Duration;

/// Asks for 30 minutes and accepts two minutes.
const TIMERS: SessionTimerSettings = SessionTimerSettings {
    interval: Duration::from_secs(1_800),
    min_interval: Duration::from_secs(120),
};

/// Lines of a header, each with its line end.
fn header(lines: &[impl AsRef<str>]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_ref(), "\r\n"])
        .collect()
}
