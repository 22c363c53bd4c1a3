//! What the transaction user learns from a call: matches, events, counts, refusals.

use crate::{ClientId, ServerId};

/// The table is full: answer 503 with Retry-After.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the transaction table is full")
    }
}

impl std::error::Error for Full {}

/// What a request means to the transactions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestMatch {
    /// No transaction: the transaction user decides (an ACK that lands here acknowledges a 2xx, or belongs to nobody).
    New,
    /// A retransmission (the stored response went out again) or the ACK of a non-2xx final response: done.
    Absorbed,
}

/// What a response means to the transactions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMatch {
    /// It belongs to one of them, and the transaction user must see it.
    Told(ClientResponse),
    /// It belongs to one of them: a retransmission, or a response to a CANCEL.
    Absorbed,
    /// It belongs to none of them: its transaction has ended, or was never ours.
    Stray,
    /// Its branch looks like ours, but we did not write it for this Call-ID, or the response does not come from where its request went.
    Forged,
}

impl ResponseMatch {
    /// What the transaction user must see.
    pub const fn told(self) -> Option<ClientResponse> {
        match self {
            Self::Told(response) => Some(response),
            Self::Absorbed | Self::Stray | Self::Forged => None,
        }
    }
}

/// A response that the transaction user must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientResponse {
    /// Its transaction.
    pub id: ClientId,
    /// What the transaction user gave at `reserve_client`.
    pub owner: u64,
}

/// What time brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Timer B or F, or the 64*T1 after a CANCEL that nobody answered: no final response came. The transaction is gone.
    ClientTimeout {
        /// The transaction.
        id: ClientId,
        /// What the transaction user gave.
        owner: u64,
    },
    /// Timer H: no ACK came for a non-2xx final response. The transaction is gone.
    ServerUnacknowledged {
        /// The transaction.
        id: ServerId,
        /// What the transaction user gave.
        owner: u64,
    },
}

/// Counts since the start: `created == ended + live` always holds, for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Server transactions begun.
    pub servers_created: u64,
    /// Server transactions that are gone.
    pub servers_ended: u64,
    /// Server transactions there are.
    pub servers_live: u64,
    /// Client transactions begun, with those reserved and those of our CANCELs.
    pub clients_created: u64,
    /// Client transactions that are gone.
    pub clients_ended: u64,
    /// Client transactions there are.
    pub clients_live: u64,
    /// Requests of ours sent again by timer A or E.
    pub requests_retransmitted: u64,
    /// Responses of ours sent again, by timer G or because the request came again.
    pub responses_retransmitted: u64,
    /// Requests that went no further than their transaction: retransmissions, and ACKs of non-2xx responses.
    pub requests_absorbed: u64,
    /// Responses that belong to no client transaction.
    pub responses_stray: u64,
    /// Responses with a branch that we did not write, or from an address that their request was not sent to.
    pub responses_forged: u64,
    /// Events that the transaction user was given.
    pub timeouts: u64,
    /// Transactions refused because a table was full.
    pub full: u64,
    /// Responses held back from senders that may be elsewhere than their datagrams say: three times the bytes of their request had gone out.
    pub responses_withheld: u64,
}
