//! The lines of a trace: one JSON object each. The server writes them, and `tandem ctl trace` reads them.
use super::Seen;
use axum::body::Bytes;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sip_elements::trace::Direction;
use sip_message::Message;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first line: all workers copy messages now.
    Started(Started),
    /// A message.
    Message(CapturedMessage),
    /// The last line.
    Ended(Ended),
}

/// What is traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The user, as requested.
    pub user: Option<String>,
    /// The Call-ID, as requested.
    pub call_id: Option<String>,
    /// How long the trace lasts.
    pub seconds: u64,
}

/// A message that the server received or sent, decrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedMessage {
    /// When it arrived or was sent, as in RFC 3339, with microseconds.
    pub time: String,
    /// `received` or `sent`.
    pub direction: String,
    /// `UDP`, `TCP`, `TLS`, `WS` or `WSS`.
    pub transport: String,
    /// The address of the server.
    pub local: SocketAddr,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The worker that handled it.
    pub worker: u16,
    /// The Call-ID. Bytes that are not UTF-8 are replaced.
    pub call_id: String,
    /// The message, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The message in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// Why there are no more messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// A sentence.
    pub reason: String,
    /// Messages that this trace has shown.
    pub messages: u64,
    /// Messages that the workers could not copy while the trace ran, of all traces and of the collector.
    pub dropped: u64,
}

impl Event {
    /// The line with its end.
    pub(super) fn line(&self) -> Bytes {
        // Serializing strings and numbers cannot fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

impl CapturedMessage {
    pub(super) fn new(seen: &Seen<'_>) -> Self {
        let traced = seen.traced;
        let at = UNIX_EPOCH + Duration::from_micros(traced.at.as_micros());
        let text = std::str::from_utf8(&traced.bytes).ok();
        let call_id = Message::parse(&traced.bytes).ok();
        let call_id = call_id.and_then(|message| message.call_id());
        Self {
            time: humantime::format_rfc3339_micros(at).to_string(),
            direction: match traced.direction {
                Direction::Received => "received".to_owned(),
                Direction::Sent => "sent".to_owned(),
            },
            transport: seen.protocol.via_token().to_owned(),
            local: seen.local,
            remote: traced.flow.remote,
            worker: seen.worker,
            call_id: String::from_utf8_lossy(call_id.unwrap_or_default()).into_owned(),
            text: text.map(str::to_owned),
            base64: text
                .is_none()
                .then(|| BASE64_STANDARD.encode(&traced.bytes)),
        }
    }

    /// The bytes of the message; empty if they cannot be read.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match (&self.text, &self.base64) {
            (Some(text), _) => text.as_bytes().into(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).unwrap_or_default().into(),
            (None, None) => Cow::default(),
        }
    }

    /// Microseconds since 1970; 0 if the time cannot be read.
    pub fn micros(&self) -> u64 {
        let time = humantime::parse_rfc3339(&self.time).ok();
        let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_micros() as u64)
    }

    /// Whether the server received it.
    pub fn is_received(&self) -> bool {
        self.direction == "received"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_elements::trace::{Readers, Traced};
    use sip_transport::{Flow, Listener, ListenerId, Protocol, Time};

    fn written_and_read(bytes: &[u8]) -> CapturedMessage {
        let traced = Traced {
            at: Time::from_micros(1_700_000_000_123_456),
            direction: Direction::Received,
            flow: Flow::to(
                ListenerId(0),
                "[2001:db8::7]:40000".parse().expect("an address"),
            ),
            readers: Readers::default(),
            bytes: bytes.into(),
        };
        let listener = Listener {
            protocol: Protocol::Wss,
            address: "[2001:db8::1]:443".parse().expect("an address"),
            prefix_length: 64,
            advertised: String::new(),
            behind_balancer: false,
        };
        let seen = Seen::new(&traced, 3, &[listener]).expect("a listener");
        let line = Event::Message(CapturedMessage::new(&seen)).line();
        let end = line.iter().position(|byte| *byte == b'\n');
        assert_eq!(end, Some(line.len() - 1), "one line");
        match serde_json::from_slice(&line).expect("JSON") {
            Event::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_survives_its_line_byte_by_byte() {
        for bytes in [
            &b"OPTIONS sip:a SIP/2.0\r\nCall-ID: one\r\n\r\n\x1b[2J"[..],
            b"OPTIONS sip:a SIP/2.0\r\nCall-ID: one\r\n\r\n\xff\x00",
        ] {
            let read = written_and_read(bytes);
            assert_eq!(read.bytes(), bytes);
            assert_eq!(read.time, "2023-11-14T22:13:20.123456Z");
            assert_eq!(read.micros(), 1_700_000_000_123_456);
            assert_eq!((read.transport.as_str(), read.worker), ("WSS", 3));
            assert_eq!(read.call_id, "one");
            assert!(read.is_received());
        }
    }
}
