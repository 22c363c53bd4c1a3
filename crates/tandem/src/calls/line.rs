//! A call as one line of JSON: what records and events contain.
use crate::config::Keyword;
use serde::Serialize;
use serde_json::ser::Formatter;
use sip_dialog::{CallEvent, CallRecord, Change, Ended};
use sip_transport::Time;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

/// The last millisecond that RFC 3339 can express: the end of the year 9999, in milliseconds since the Unix epoch.
const LAST_MILLISECOND: u64 = 253_402_300_799_999;

/// The kind of a change: the name of its event.
pub(crate) const fn kind(change: Change) -> &'static str {
    match change {
        Change::Started => "started",
        Change::Ringing => "ringing",
        Change::Answered => "answered",
        Change::Ended(_) => "ended",
    }
}

/// Who ended the call, or what.
pub(crate) const fn ended_by(ended: Ended) -> &'static str {
    match ended {
        Ended::ByCaller => "caller",
        Ended::ByCallee => "callee",
        Ended::Refused => "refused",
        Ended::NoAnswer => "no_answer",
        Ended::NoAck => "no_ack",
        Ended::Expired => "expired",
        Ended::ByOperator => "operator",
    }
}

/// The identifier of a call: 32 hexadecimal digits.
pub(crate) fn id(call: &CallRecord) -> String {
    hexadecimal(call.id)
}

/// An identifier of a call or a dialog as text.
pub(crate) fn hexadecimal(id: u128) -> String {
    format!("{id:032x}")
}

/// Milliseconds since the Unix epoch.
pub(crate) const fn milliseconds(time: Time) -> u64 {
    time.as_micros() / 1_000
}

/// Bytes of a message as text. A sequence that is not UTF-8, and NUL, which databases refuse, become U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') {
        return text.replace('\0', "\u{fffd}").into();
    }
    text
}

/// The text; `None` if it is empty.
fn given(bytes: &[u8]) -> Option<Cow<'_, str>> {
    (!bytes.is_empty()).then(|| text(bytes))
}

/// The fields of a line, in their order.
#[derive(Serialize)]
struct Line<'c> {
    /// The kind of the event; records have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    id: String,
    call_id: Cow<'c, str>,
    from: Cow<'c, str>,
    from_tag: Option<Cow<'c, str>>,
    to: Cow<'c, str>,
    to_tag: Option<Cow<'c, str>>,
    request_uri: Cow<'c, str>,
    identity: Option<Cow<'c, str>>,
    source: SocketAddr,
    source_transport: &'static str,
    destination: Option<SocketAddr>,
    destination_transport: Option<&'static str>,
    attempts: u16,
    started: String,
    ringing: Option<String>,
    answered: Option<String>,
    ended: Option<String>,
    ring_ms: u64,
    talk_ms: u64,
    status: Option<u16>,
    ended_by: Option<&'static str>,
    reason: Option<Cow<'c, str>>,
}

impl<'c> Line<'c> {
    fn new(event: &'c CallEvent) -> Self {
        let call = &*event.call;
        Self {
            event: None,
            id: id(call),
            call_id: text(&call.call_id),
            from: text(&call.from),
            from_tag: given(&call.from_tag),
            to: text(&call.to),
            to_tag: given(&call.to_tag),
            request_uri: text(&call.request_uri),
            identity: given(&call.identity),
            source: call.source,
            source_transport: call.source_transport.word(),
            destination: call.destination.map(|(address, _)| address),
            destination_transport: call.destination.map(|(_, protocol)| protocol.word()),
            attempts: call.attempts,
            started: rfc3339(call.started),
            ringing: call.ringing.map(rfc3339),
            answered: call.answered.map(rfc3339),
            ended: call.ended.map(rfc3339),
            ring_ms: between(call.ringing, call.answered.or(call.ended)),
            talk_ms: between(call.answered, call.ended),
            status: (call.status != 0).then_some(call.status),
            ended_by: match event.change {
                Change::Ended(ended) => Some(ended_by(ended)),
                Change::Started | Change::Ringing | Change::Answered => None,
            },
            reason: given(&call.reason),
        }
    }
}

/// Appends the record of a call that has ended, with a line feed.
pub(crate) fn append_record(lines: &mut Vec<u8>, event: &CallEvent) {
    append(lines, &Line::new(event));
    lines.push(b'\n');
}

/// Appends an event, without a line feed.
pub(crate) fn append_event(text: &mut Vec<u8>, event: &CallEvent) {
    let line = Line {
        event: Some(kind(event.change)),
        ..Line::new(event)
    };
    append(text, &line);
}

fn append(lines: &mut Vec<u8>, line: &Line<'_>) {
    let mut serializer = serde_json::Serializer::with_formatter(lines, OneLine);
    line.serialize(&mut serializer)
        .expect("a Vec takes all bytes, and the fields are texts and numbers");
}

/// A time in UTC with milliseconds (RFC 3339).
pub(crate) fn rfc3339(time: Time) -> String {
    let milliseconds = milliseconds(time).min(LAST_MILLISECOND);
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Milliseconds between two times as they are written; 0 if one of them never came.
pub(super) fn between(from: Option<Time>, to: Option<Time>) -> u64 {
    let (Some(from), Some(to)) = (from, to) else {
        return 0;
    };
    milliseconds(to).saturating_sub(milliseconds(from))
}

/// JSON without line breaks and control characters of any kind, also those that JSON allows in strings: terminals obey some, and some
/// programs end a line at others.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let controls =
            |letter: char| matches!(letter, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}');
        let is_plain = fragment.is_ascii() && !fragment.contains('\u{7f}');
        if is_plain || !fragment.contains(controls) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut escaped = String::with_capacity(fragment.len() + 16);
        for letter in fragment.chars() {
            if controls(letter) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(letter));
            } else {
                escaped.push(letter);
            }
        }
        writer.write_all(escaped.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample::{call, ended};

    fn record(event: &CallEvent) -> String {
        let mut lines = Vec::new();
        append_record(&mut lines, event);
        String::from_utf8(lines).expect("JSON is UTF-8")
    }

    #[test]
    fn a_record_has_all_fields_in_a_fixed_order() {
        let expected = concat!(
            r#"{"id":"0000000000000000000000000000002a","call_id":"call-42@192.0.2.7","#,
            r#""from":"sip:alice@example.org","from_tag":"a1","to":"sip:bob@example.org","to_tag":"b1","#,
            r#""request_uri":"sip:bob@example.org","identity":"alice@example.org","#,
            r#""source":"192.0.2.7:5060","source_transport":"udp","#,
            r#""destination":"[2001:db8::9]:5061","destination_transport":"tls","attempts":2,"#,
            r#""started":"2026-11-22T20:00:00.000Z","ringing":"2026-11-22T20:00:01.250Z","#,
            r#""answered":"2026-11-22T20:00:04.000Z","ended":"2026-11-22T20:01:04.007Z","#,
            r#""ring_ms":2750,"talk_ms":60007,"status":200,"ended_by":"callee","#,
            r#""reason":"Q.850;cause=16"}"#,
            "\n"
        );
        assert_eq!(record(&ended(42)), expected);
    }

    #[test]
    fn what_a_failed_call_lacks_is_null() {
        let mut event = ended(1);
        event.change = Change::Ended(Ended::Refused);
        let call = &mut event.call;
        (call.ringing, call.answered, call.destination) = (None, None, None);
        (call.to_tag, call.identity, call.reason) = Default::default();
        (call.attempts, call.status) = (0, 403);
        let record: serde_json::Value = serde_json::from_str(&record(&event)).expect("JSON");
        for field in [
            "ringing",
            "answered",
            "destination",
            "destination_transport",
            "to_tag",
            "identity",
            "reason",
        ] {
            assert!(record[field].is_null(), "{field}");
        }
        assert_eq!(record["ring_ms"], 0);
        assert_eq!(record["talk_ms"], 0);
        assert_eq!(record["status"], 403);
        assert_eq!(record["ended_by"], "refused");
    }

    #[test]
    fn hostile_texts_stay_in_their_field_and_on_their_line() {
        let hostile = b"x\",\"status\":999}\r\n{\x00\x07\x1b[2J\xff\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\x7f\\\xf0\x9f\x93\x9e";
        let mut event = ended(7);
        for field in [
            &mut event.call.call_id,
            &mut event.call.from,
            &mut event.call.request_uri,
            &mut event.call.reason,
        ] {
            *field = hostile[..].into();
        }
        let line = record(&event);
        let controls = line.chars().filter(|letter| letter.is_control());
        assert_eq!(controls.collect::<String>(), "\n");
        assert!(line.ends_with("}\n") && !line.contains(['\u{2028}', '\u{2029}']));
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["status"], 200);
        let text = "x\",\"status\":999}\r\n{\u{fffd}\u{7}\u{1b}[2J\u{fffd}\u{85}\u{2028}\u{2029}\u{7f}\\📞";
        for field in ["call_id", "from", "request_uri", "reason"] {
            assert_eq!(read[field], text, "{field}");
        }
    }

    #[test]
    fn clocks_that_jump_make_odd_times_but_lines_all_the_same() {
        let mut event = ended(3);
        event.call.answered = Some(Time::from_micros(u64::MAX));
        event.call.ended = Some(Time::from_micros(0));
        let read: serde_json::Value = serde_json::from_str(&record(&event)).expect("JSON");
        assert_eq!(read["answered"], "9999-12-31T23:59:59.999Z");
        assert_eq!(read["ended"], "1970-01-01T00:00:00.000Z");
        assert_eq!(read["talk_ms"], 0);
    }

    #[test]
    fn an_event_says_what_has_changed() {
        for (change, kind) in [
            (Change::Started, "started"),
            (Change::Ringing, "ringing"),
            (Change::Answered, "answered"),
            (Change::Ended(Ended::NoAck), "ended"),
        ] {
            let event = CallEvent {
                change,
                call: Box::new(call(5)),
            };
            let mut text = Vec::new();
            append_event(&mut text, &event);
            let read: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!(read["event"], kind);
            assert_eq!(read["ended_by"].is_null(), kind != "ended");
        }
    }
}
