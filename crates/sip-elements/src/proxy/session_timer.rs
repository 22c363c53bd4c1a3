//! Session timers in forwarded messages (RFC 4028 section 8).

use crate::Settings;
use sip_dialog::{Agreed, Requested};
use sip_message::{Message, Patch};

/// Returns what the copy of a request asks for, if anything. A request that would be rejected is forwarded unchanged: it was checked
/// before it waited for the control plane, and a reload has changed the settings since.
pub(super) fn requested<'m>(settings: &Settings, request: &Message<'m>) -> Option<Requested<'m>> {
    let timers = settings.session_timers?;
    timers.requested(request).ok().flatten()
}

/// Completes a 2xx of a callee that does not support session timers, for a caller that does.
pub(super) fn agree(patch: &mut Patch<'_, '_>, response: &Message<'_>, settings: &Settings) {
    if settings.session_timers.is_some()
        && let Some(agreed) = Agreed::of(response)
    {
        agreed.patch(patch, response);
    }
}
