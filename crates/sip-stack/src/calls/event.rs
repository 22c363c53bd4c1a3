//! What a program learns of its calls and registrations.

use sip_message::Message;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Identifies a call or a registration of a user agent. Numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(pub(crate) u64);

/// An event of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallEvent {
    /// A peer calls: its INVITE. The program rings, accepts or rejects.
    Incoming(ReceivedMessage),
    /// The called party is alerted or sends early media: a provisional response other than 100. There may be several.
    Ringing(ReceivedMessage),
    /// The called party has answered: the 2xx. The ACK is on its way.
    Answered(ReceivedMessage),
    /// The caller has the answer: the ACK.
    Confirmed(ReceivedMessage),
    /// The peer has changed the session (re-INVITE or UPDATE), and the change was accepted: its request.
    Renegotiated(ReceivedMessage),
    /// The call is over. No further event follows.
    Ended(CallEnd),
}

/// Why a call is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallEnd {
    /// The program ended it.
    ByUs,
    /// The peer ended it with BYE, or with CANCEL before the answer.
    ByPeer,
    /// The called party or a server rejected it: the final response.
    Rejected(ReceivedMessage),
    /// The called party did not answer in time ([`Bounds::ringing`](crate::Bounds::ringing)), or no response arrived (Timer B).
    NoAnswer,
    /// No server could be reached.
    Unreachable,
    /// We accepted the call, but no ACK arrived within 64*T1 (section 13.3.1.4).
    NoAck,
}

/// An event of a registration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RegistrationEvent {
    /// The binding exists for this time. The user agent refreshes it before.
    Registered(Duration),
    /// The registrar refused: its final response. `None`: it did not respond, or could not be reached. After a failure, the user agent
    /// retries every 30 s, unless the registrar refused the first request.
    Failed(Option<ReceivedMessage>),
    /// The binding has been removed.
    Ended,
}

/// A message that a peer has sent.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedMessage(Box<[u8]>);

impl ReceivedMessage {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self(message.bytes().into())
    }

    /// The message.
    #[expect(clippy::missing_panics_doc, reason = "see below")]
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.0).expect("the bytes of a message that was parsed before")
    }

    /// The status code; 0 for a request.
    pub fn status(&self) -> u16 {
        self.message().status()
    }

    /// The body, such as a session description.
    pub fn body(&self) -> &[u8] {
        self.message().body()
    }
}

impl fmt::Debug for ReceivedMessage {
    /// Writes the first line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.0.split(|octet| *octet == b'\r').next();
        f.write_str(&String::from_utf8_lossy(first.unwrap_or_default()))
    }
}

/// A session description with its media type. Text and bytes convert into one of type `application/sdp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The value of Content-Type.
    pub content_type: Cow<'static, str>,
    /// The body. If it is empty, the message has no body.
    pub body: Box<[u8]>,
}

impl Session {
    /// No session description.
    pub fn none() -> Self {
        Self::from(&b""[..])
    }
}

impl From<&[u8]> for Session {
    fn from(body: &[u8]) -> Self {
        Self {
            content_type: Cow::Borrowed("application/sdp"),
            body: body.into(),
        }
    }
}

impl<const N: usize> From<&[u8; N]> for Session {
    fn from(body: &[u8; N]) -> Self {
        body[..].into()
    }
}

impl From<&str> for Session {
    fn from(body: &str) -> Self {
        body.as_bytes().into()
    }
}

impl From<String> for Session {
    fn from(body: String) -> Self {
        body.as_bytes().into()
    }
}

impl From<Vec<u8>> for Session {
    fn from(body: Vec<u8>) -> Self {
        body[..].into()
    }
}
