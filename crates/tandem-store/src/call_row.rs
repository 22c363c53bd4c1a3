//! The record of a call as it is saved.

use std::borrow::Cow;
use std::net::SocketAddr;

/// The record of one call that has ended. Times are milliseconds since the Unix epoch. Texts must not contain NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow<'a> {
    /// Identifies the call among all calls of all nodes.
    pub id: Cow<'a, str>,
    /// The Call-ID.
    pub call_id: Cow<'a, str>,
    /// The URI in From.
    pub from_uri: Cow<'a, str>,
    /// The tag in From.
    pub from_tag: Cow<'a, str>,
    /// The URI in To.
    pub to_uri: Cow<'a, str>,
    /// The tag in To; empty without an answer.
    pub to_tag: Cow<'a, str>,
    /// The Request-URI as received.
    pub request_uri: Cow<'a, str>,
    /// The subscriber that authenticated, or an empty text.
    pub identity: Cow<'a, str>,
    /// Where the INVITE came from, and the word for its transport.
    pub source: (SocketAddr, &'a str),
    /// The next hop that answered or was tried last, and the word for its transport.
    pub destination: Option<(SocketAddr, &'a str)>,
    /// The number of next hops that were tried.
    pub attempts: u16,
    /// When the INVITE arrived.
    pub started: i64,
    /// When the callee rang.
    pub ringing: Option<i64>,
    /// When the callee answered.
    pub answered: Option<i64>,
    /// When the call ended.
    pub ended: i64,
    /// The status of the final response to the INVITE; 0 if there was none.
    pub status: u16,
    /// The word for who ended the call, or what.
    pub ended_by: Cow<'a, str>,
    /// The Reason header field of the request that ended the call, or an empty text.
    pub reason: Cow<'a, str>,
}
