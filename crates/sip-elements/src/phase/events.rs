//! Answers subscriptions to events that no phone can report: waiting messages, presence and the like of an address of record (RFC 6665).
//! Without a server for them, they would reach the phones of the subscriber, often the one that sent them.

use crate::WorkerParts;
use crate::metrics::Refused;
use crate::own_response::Refusal;
use sip_message::{HeaderName, Message, Method};

/// Refuses a SUBSCRIBE or PUBLISH for one of our subscribers if the operator wants no phone to get its event package. A rule that sends
/// it to a server of such events comes first.
pub(crate) fn refuse(parts: &WorkerParts<'_>, request: &Message<'_>) -> Result<(), Refusal> {
    if !matches!(request.method(), Method::Subscribe | Method::Publish) {
        return Ok(());
    }
    let value = request.header(HeaderName::Event).unwrap_or_default();
    let package = value.split(|byte| *byte == b';').next().unwrap_or_default();
    let package = package.trim_ascii();
    let refused = &parts.settings.proxy.refused_events;
    let is_package = |name: &String| name.as_bytes().eq_ignore_ascii_case(package);
    if !refused.iter().any(is_package) {
        return Ok(());
    }
    parts.metrics.refused(Refused::Event);
    Err(Refusal::BadEvent)
}
