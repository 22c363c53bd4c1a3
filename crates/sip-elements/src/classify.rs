//! Estimates how urgent a message is from a few of its lines. An overloaded worker uses this because it cannot parse
//! everything first.
//!
//! A wrong estimate does no harm: the message is served a little later or earlier, and the phases then judge it properly.

use sip_message::LineEnds;
use sip_transport::overload::Urgency;

/// The maximum number of lines that are examined.
const MAX_LINES: usize = 64;

/// Methods that belong to an existing call or transaction.
const OF_CALLS: [&[u8]; 3] = [b"BYE", b"PRACK", b"UPDATE"];

/// Methods that always come first. They cost little, so it does not matter which call they belong to.
const ALWAYS_FIRST: [&[u8]; 2] = [b"ACK", b"CANCEL"];

/// The first letters of the header fields to find: To, Route, Authorization, Proxy-Authorization.
const FIRST_OCTETS: &[u8; 8] = b"tTrRaApP";

/// Estimates the urgency of a message.
///
/// - First: responses, requests of existing calls (by method or To tag), and bytes that are no request at all.
/// - Then: requests with credentials.
/// - Last: all other requests.
///
/// With `is_recorded`, all dialogs through this server carry a proof in their Route. A request without one then does not
/// count as part of a call.
pub(crate) fn urgency(bytes: &[u8], is_recorded: bool) -> Urgency {
    // Line ends before a message do not count (section 7.5).
    let begin = bytes
        .iter()
        .position(|octet| !matches!(octet, b'\r' | b'\n'));
    let bytes = begin.and_then(|begin| bytes.get(begin..));
    let bytes = bytes.unwrap_or_default();
    let is_request = bytes.first().is_some_and(u8::is_ascii_graphic);
    if !is_request || bytes.starts_with(b"SIP/") {
        return Urgency::First;
    }
    let mut lines = lines(bytes);
    let method = lines.next().and_then(first_word);
    let is_one_of = |methods: &[&[u8]]| method.is_some_and(|method| methods.contains(&method));
    if is_one_of(&ALWAYS_FIRST) {
        return Urgency::First;
    }
    let mut is_of_call = is_one_of(&OF_CALLS);
    let mut has_proof = !is_recorded;
    let mut urgency = Urgency::New;
    let (mut is_to, mut is_route) = (false, false);
    for line in lines.take(MAX_LINES) {
        let value = match line.first() {
            Some(first) if FIRST_OCTETS.contains(first) => {
                let (name, value) = split_field(line);
                is_to = name.eq_ignore_ascii_case(b"to") || name.eq_ignore_ascii_case(b"t");
                is_route = name.eq_ignore_ascii_case(b"route");
                if name.eq_ignore_ascii_case(b"authorization")
                    || name.eq_ignore_ascii_case(b"proxy-authorization")
                {
                    urgency = Urgency::Proven;
                }
                value
            }
            Some(first) if !first.is_ascii_whitespace() => {
                (is_to, is_route) = (false, false);
                continue;
            }
            _ if line.trim_ascii_end().is_empty() => break,
            // It continues the line before.
            _ => line,
        };
        is_of_call |= is_to && has_tag(value);
        has_proof |= is_route && value.windows(4).any(|octets| octets == b";ck=");
        if is_of_call && has_proof {
            return Urgency::First;
        }
    }
    urgency
}

/// The lines of a message, without their line feeds.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    LineEnds::new(bytes).chain([bytes.len()]).map(move |end| {
        let line = bytes.get(begin..end).unwrap_or_default();
        begin = end + 1;
        line
    })
}

/// The bytes before the first space.
fn first_word(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii_end().split(|octet| *octet == b' ').next()
}

/// The name and the value of a header field line.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = line.splitn(2, |octet| *octet == b':');
    let name = parts.next().unwrap_or_default().trim_ascii();
    (name, parts.next().unwrap_or_default())
}

/// Whether the parameters after the address contain a non-empty tag.
fn has_tag(value: &[u8]) -> bool {
    let behind = value.rsplit(|octet| *octet == b'>').next();
    let mut params = behind.unwrap_or_default().split(|octet| *octet == b';');
    params.any(|param| {
        let mut parts = param.splitn(2, |octet| *octet == b'=');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let tag = parts.next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"tag") && !tag.is_empty() && !tag.starts_with(b"\"")
    })
}

#[cfg(test)]
mod tests {
    use super::{Urgency, urgency};

    #[test]
    fn a_glance_tells_calls_that_exist_from_new_requests() {
        let rows = [
            ("SIP/2.0 200 OK\nTo: <sip:b@x>\n\n", Urgency::First),
            ("\r\n\r\n", Urgency::First),
            ("", Urgency::First),
            ("\u{0}\u{1}", Urgency::First),
            ("ACK sip:b@x SIP/2.0\nTo: <sip:b@x>\n\n", Urgency::First),
            ("CANCEL sip:b@x SIP/2.0\nTo: <sip:b@x>\n\n", Urgency::First),
            ("BYE sip:b@x SIP/2.0\nt: <sip:b@x>\n\n", Urgency::First),
            ("INVITE sip:b@x SIP/2.0\nTo: <sip:b@x>\n\n", Urgency::New),
            (
                "\r\nINVITE sip:b@x SIP/2.0\nTo: <sip:b@x>\n\n",
                Urgency::New,
            ),
            ("\n\r\n%INVITE sip:b@x SIP/2.0\n\n", Urgency::New),
            ("\r\n\r\n", Urgency::First),
            (
                "INVITE sip:b@x SIP/2.0\nTo: <sip:b@x>;tag=1\n\n",
                Urgency::First,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nt:sip:b@x ; x=y; TAG = 1\n\n",
                Urgency::First,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nTo: <sip:b@x>\n ;tag=1\n\n",
                Urgency::First,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nTo: <sip:b@x;tag=1>;tag=\"\"\n\n",
                Urgency::New,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nTo: <sip:b@x>;tag=\n\n",
                Urgency::New,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nFrom: <sip:a@x>;tag=1\n\nTo: <sip:b@x>;tag=1\n",
                Urgency::New,
            ),
            (
                "REGISTER sip:x SIP/2.0\nauthorization : Digest\nTo: <sip:b@x>\n\n",
                Urgency::Proven,
            ),
            (
                "INVITE sip:b@x SIP/2.0\nProxy-Authorization: Digest\nTo: <sip:b@x>;tag=1\n\n",
                Urgency::First,
            ),
            ("OPTIONS", Urgency::New),
        ];
        for (text, expected) in rows {
            for text in [text.to_owned(), text.replace('\n', "\r\n")] {
                assert_eq!(urgency(text.as_bytes(), false), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn where_dialogs_are_recorded_a_tag_without_a_proof_is_no_call() {
        let proof = "Route: <sip:192.0.2.1;lr;ck=e0123>";
        let rows = [
            ("BYE", "", Urgency::New),
            ("BYE", proof, Urgency::First),
            ("INVITE", "", Urgency::New),
            ("INVITE", "Route: <sip:192.0.2.1;lr>", Urgency::New),
            ("INVITE", "Subject: ;ck=e0123", Urgency::New),
            ("INVITE", "Authorization: Digest", Urgency::Proven),
            ("INVITE", proof, Urgency::First),
            (
                "INVITE",
                "route: <sip:192.0.2.9;lr>,\n <sip:192.0.2.1;lr;ck=e0123>",
                Urgency::First,
            ),
            ("ACK", "", Urgency::First),
            ("CANCEL", "", Urgency::First),
        ];
        for (method, line, expected) in rows {
            for lines in [
                format!("To: <sip:b@x>;tag=1\n{line}"),
                format!("{line}\nTo: <sip:b@x>;tag=1"),
            ] {
                let text = format!("{method} sip:b@x SIP/2.0\n{}\n\n", lines.trim());
                assert_eq!(urgency(text.as_bytes(), true), expected, "{text:?}");
            }
        }
    }
}
