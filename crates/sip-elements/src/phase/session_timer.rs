//! Rejects session intervals that are malformed or too small (RFC 4028 section 8.1).

use crate::Settings;
use crate::own_response::Refusal;
use sip_dialog::Rejection;
use sip_message::Message;

/// Checks the session interval of a request that is about to be forwarded.
pub(crate) fn check(settings: &Settings, request: &Message<'_>) -> Result<(), Refusal> {
    let Some(timers) = settings.session_timers else {
        return Ok(());
    };
    match timers.requested(request) {
        Ok(_) => Ok(()),
        Err(Rejection::Malformed(reason)) => Err(Refusal::Because(400, reason)),
        Err(Rejection::TooSmall { min_se }) => Err(Refusal::IntervalTooSmall { min_se }),
    }
}
