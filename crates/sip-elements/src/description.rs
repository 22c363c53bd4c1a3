//! Session descriptions (SDP) in forwarded messages: when the control plane is asked for one, and the one place that replaces a
//! body.

use crate::{SessionDescriptions, Settings};
use sip_message::{HeaderName, Message, Patch};
use std::sync::Arc;

/// The type of a session description (RFC 8866 section 8.1).
const MEDIA_TYPE: &[u8] = b"application/sdp";

/// Whether the control plane is asked for the session description of this message. A compressed body, or one of several parts, passes
/// unchanged.
pub(crate) fn is_asked_for(settings: &Settings, message: &Message<'_>) -> bool {
    settings.proxy.session_descriptions == SessionDescriptions::Ask
        && !message.body().is_empty()
        && is_description(message)
        && !is_compressed(message)
}

fn is_description(message: &Message<'_>) -> bool {
    let Some(value) = message.header(HeaderName::ContentType) else {
        return false;
    };
    let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE)
}

fn is_compressed(message: &Message<'_>) -> bool {
    let names: [&[u8]; 2] = [b"Content-Encoding", b"e"];
    let is_one = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    message.headers().any(|header| is_one(header.name_bytes))
}

/// The message with another body. `None` if it would be too long, or would have too many lines.
pub(crate) fn with_body(message: &Message<'_>, body: &[u8]) -> Option<Arc<[u8]>> {
    let mut patched = Vec::new();
    Patch::new(message).body(body).write(&mut patched);
    Message::parse(&patched).is_ok().then(|| patched.into())
}
