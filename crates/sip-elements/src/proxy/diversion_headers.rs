//! Tells the next callee who has diverted a call: Diversion (RFC 5806), and History-Info (RFC 7044) with the causes of RFC 4458.

use super::diversions::Diversion;
use crate::metrics::DiversionCause as Cause;
use crate::settings::DiversionHeaders;
use sip_message::{HeaderName, Message, Params, Patch};
use std::io::Write as _;

/// Longer indexes of another server are not continued, in bytes.
const LONGEST_INDEX: usize = 64;

/// The reason in Diversion.
const fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Always => "unconditional",
        Cause::Busy => "user-busy",
        Cause::NoAnswer => "no-answer",
        Cause::NotRegistered => "unavailable",
        Cause::Redirected => "deflection",
    }
}

/// The `cause` of the URI in History-Info (RFC 4458 section 2.2).
const fn number(cause: Cause) -> u16 {
    match cause {
        Cause::Always => 302,
        Cause::Busy => 486,
        Cause::NoAnswer => 408,
        Cause::NotRegistered => 503,
        Cause::Redirected => 480,
    }
}

/// Adds the header fields of these diversions, the first one first. `is_believed`: the History-Info of the request is kept, and continued.
pub(super) fn write(
    patch: &mut Patch<'_, '_>,
    request: &Message<'_>,
    path: &[Diversion],
    headers: DiversionHeaders,
    is_believed: bool,
) {
    if path.is_empty() {
        return;
    }
    if matches!(
        headers,
        DiversionHeaders::Diversion | DiversionHeaders::Both
    ) {
        for diversion in path {
            patch.prepend_with(HeaderName::Diversion, |into| {
                let reason = reason(diversion.cause);
                into.extend_from_slice(b"<sip:");
                into.extend_from_slice(&diversion.by);
                // Writing to a vector cannot fail.
                let _ = write!(into, ">;reason={reason};counter=1");
            });
        }
    }
    if matches!(
        headers,
        DiversionHeaders::HistoryInfo | DiversionHeaders::Both
    ) {
        write_history(patch, request, path, is_believed);
    }
}

fn write_history(
    patch: &mut Patch<'_, '_>,
    request: &Message<'_>,
    path: &[Diversion],
    is_believed: bool,
) {
    let entries = request.values(HeaderName::HistoryInfo);
    let last = entries.last().filter(|_| is_believed);
    let mut index = last.and_then(last_index).unwrap_or_default().to_vec();
    if index.is_empty() {
        let value = [b"<", request.request_uri(), b">;index=1"].concat();
        patch.append(HeaderName::HistoryInfo, &value);
        index.push(b'1');
    }
    for diversion in path {
        let parent = index.clone();
        index.extend_from_slice(b".1");
        let mut value = Vec::with_capacity(diversion.target.len() + 32);
        value.push(b'<');
        value.extend_from_slice(&diversion.target);
        // Writing to a vector cannot fail.
        let _ = write!(value, ";cause={}>;index=", number(diversion.cause));
        value.extend_from_slice(&index);
        value.extend_from_slice(b";mp=");
        value.extend_from_slice(&parent);
        patch.append(HeaderName::HistoryInfo, &value);
    }
}

/// The index of the last entry in a History-Info value, if it can be continued.
fn last_index(value: &[u8]) -> Option<&[u8]> {
    let params = value.rsplit(|byte| *byte == b'>').next()?;
    let index = Params::new(params).value(b"index")?;
    let is_index = |index: &&[u8]| {
        index.len() <= LONGEST_INDEX
            && index.first().is_some_and(u8::is_ascii_digit)
            && index
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    Some(index).filter(is_index)
}
