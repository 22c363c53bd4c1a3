//! What the server tells about a call: an event for each change, and one record once the call has ended.

use sip_transport::{Protocol, Time};
use std::net::SocketAddr;

/// A change in the life of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The INVITE was forwarded for the first time.
    Started,
    /// The first provisional response other than 100 was forwarded.
    Ringing,
    /// The first 2xx was forwarded.
    Answered,
    /// The call has ended or has failed. The record is complete.
    Ended(Ended),
}

/// Who ended a call, or what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The caller sent BYE, or CANCEL before the answer.
    ByCaller,
    /// The callee sent BYE.
    ByCallee,
    /// The INVITE got a final response other than 2xx from a callee or from this server.
    Refused,
    /// No final response arrived in time.
    NoAnswer,
    /// The callee answered, but no ACK followed.
    NoAck,
    /// The session was not refreshed in time (RFC 4028), or the longest life of a dialog was over.
    Expired,
    /// An operator ended it.
    ByOperator,
}

impl Ended {
    /// The labels of all reasons, in their order.
    pub const LABELS: [&str; 7] = [
        "caller",
        "callee",
        "refused",
        "no_answer",
        "no_ack",
        "expired",
        "operator",
    ];
}

/// An event of a call, with what is known about the call so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// What has changed.
    pub change: Change,
    /// The call.
    pub call: Box<CallRecord>,
}

/// What is known about one call. Texts are bytes of the message they come from, at most [`LONGEST_TEXT`] each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Identifies the call among all calls of all nodes.
    pub id: u128,
    /// The Call-ID.
    pub call_id: Box<[u8]>,
    /// The URI in From.
    pub from: Box<[u8]>,
    /// The tag in From.
    pub from_tag: Box<[u8]>,
    /// The URI in To.
    pub to: Box<[u8]>,
    /// The tag of the callee that answered; empty before.
    pub to_tag: Box<[u8]>,
    /// The Request-URI as received.
    pub request_uri: Box<[u8]>,
    /// The subscriber that authenticated (`user@domain`); empty if the caller is a trusted peer or proved nothing.
    pub identity: Box<[u8]>,
    /// The address that the INVITE came from.
    pub source: SocketAddr,
    /// The transport that it came over.
    pub source_transport: Protocol,
    /// The next hop that answered, or that was tried last. `None` if none was tried.
    pub destination: Option<(SocketAddr, Protocol)>,
    /// The number of next hops that were tried.
    pub attempts: u16,
    /// When the INVITE arrived.
    pub started: Time,
    /// When the first provisional response other than 100 was forwarded.
    pub ringing: Option<Time>,
    /// When the first 2xx was forwarded.
    pub answered: Option<Time>,
    /// When the call ended.
    pub ended: Option<Time>,
    /// The status of the final response to the INVITE; 0 before.
    pub status: u16,
    /// The Reason header field of the BYE or CANCEL (RFC 3326), also if an operator ended the call; empty if there was none.
    pub reason: Box<[u8]>,
}

/// The longest text in a record, in bytes. Longer ones are cut.
pub const LONGEST_TEXT: usize = 512;
