//! What a reader receives: server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
use crate::calls::line::{append_event, kind};
use axum::body::Bytes;
use sip_dialog::CallEvent;
use std::fmt;
use std::str::FromStr;

/// How long a browser waits before it connects again, in milliseconds.
const RETRY: u32 = 2_000;
/// The longest text of an identifier, in bytes.
const LONGEST_ID: usize = 64;

/// The identifier of an event. The first part tells one run of the process from another, the second is the place among its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// When the process started, in microseconds since the Unix epoch.
    pub run: u64,
    /// The number of the event.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}-{}", self.run, self.number)
    }
}

/// The text is not an identifier of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Last-Event-ID is not the id of an event, such as 6f2d1c0a9e4b7-42")]
pub struct InvalidEventId;

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        if text.len() > LONGEST_ID {
            return Err(InvalidEventId);
        }
        let (run, number) = text.split_once('-').ok_or(InvalidEventId)?;
        Ok(Self {
            run: u64::from_str_radix(run, 16).map_err(|_| InvalidEventId)?,
            number: number.parse().map_err(|_| InvalidEventId)?,
        })
    }
}

/// Why the server ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The reader was too slow: events left the ring before it took them, or it took nothing for too long.
    Slow,
    /// The server stops.
    Stopping,
}

impl Goodbye {
    /// The word in the event and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Stopping => "stopping",
        }
    }
}

/// An event of a call.
pub(super) fn event(id: EventId, event: &CallEvent) -> Bytes {
    let mut text = format!("id: {id}\nevent: {}\ndata: ", kind(event.change)).into_bytes();
    append_event(&mut text, event);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// The beginning of a stream: the position of the reader, also before the first event.
pub(super) fn beginning(id: EventId) -> Bytes {
    format!("retry: {RETRY}\nid: {id}\n\n").into()
}

/// A sign of life, with the position of the reader: events that its filter skips need not be searched again.
pub(super) fn heartbeat(id: EventId) -> Bytes {
    format!(": heartbeat\nid: {id}\n\n").into()
}

/// Events are missing between the last one that the reader had and the next one. It has no id.
pub(super) fn gap(reason: &str) -> Bytes {
    format!("event: gap\ndata: {{\"event\":\"gap\",\"reason\":\"{reason}\"}}\n\n").into()
}

/// The last event of a stream.
pub(super) fn end(goodbye: Goodbye) -> Bytes {
    let reason = goodbye.word();
    format!("event: end\ndata: {{\"event\":\"end\",\"reason\":\"{reason}\"}}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample;

    #[test]
    fn an_id_is_read_as_it_is_written_and_anything_else_is_refused() {
        for id in [
            EventId { run: 0, number: 0 },
            EventId {
                run: u64::MAX,
                number: u64::MAX,
            },
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in [
            "",
            "-",
            "1",
            "x-1",
            "1-x",
            "1-18446744073709551616",
            "1-2-3",
        ] {
            assert_eq!(text.parse::<EventId>(), Err(InvalidEventId), "{text}");
        }
        let huge = format!("1-{}", "0".repeat(1 << 20));
        assert_eq!(huge.parse::<EventId>(), Err(InvalidEventId));
    }

    #[test]
    fn a_hostile_text_does_not_end_an_event() {
        let mut hostile = sample::ended(1);
        hostile.call.from = b"x\n\nevent: end\ndata: {}\r\r"[..].into();
        let id = EventId { run: 10, number: 7 };
        let frame = event(id, &hostile);
        let frame = std::str::from_utf8(&frame).expect("text");
        let lines: Vec<&str> = frame.split(['\n', '\r']).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(&lines[..2], ["id: a-7", "event: ended"]);
        let data = lines[2].strip_prefix("data: ").expect("data");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["from"], "x\n\nevent: end\ndata: {}\r\r");
        assert_eq!(&lines[3..], ["", ""]);
    }
}
