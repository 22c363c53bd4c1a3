//! What a gateway counts.

use serde::Serialize;

/// The counts of a gateway since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// OPTIONS outside a call that it has answered, with any status.
    pub probes: u64,
    /// New calls, without retransmissions.
    pub calls: u64,
    /// Calls that it has answered with 200.
    pub answered: u64,
    /// Calls whose 200 was acknowledged.
    pub acknowledged: u64,
    /// Answered calls that have ended: by BYE, or because there was no ACK.
    pub ended: u64,
    /// Answered calls that have not ended.
    pub live: u64,
    /// Calls without ACK within 64*T1.
    pub unacknowledged: u64,
    /// Calls that it has refused, those that were cancelled excepted.
    pub refused: u64,
    /// Calls that were cancelled before it had answered.
    pub cancelled: u64,
    /// Calls that arrived again over another path and got 482 (RFC 3261 section 8.2.2.2).
    pub merged: u64,
    /// Calls that arrived again with new credentials. The first one has ended then.
    pub replaced: u64,
    /// Requests for calls that it does not know.
    pub unknown: u64,
    /// Retransmissions that it has received.
    pub retransmissions_received: u64,
    /// Retransmissions of its 200 without a retransmission of the INVITE: the ACK had not arrived.
    pub retransmissions_sent: u64,
    /// Datagrams that it has ignored.
    pub ignored: u64,
}
