//! Results for the transaction user: matches, events, counters, refusals.

use crate::{ClientId, ServerId};

/// The table is full. Answer 503 with Retry-After.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the transaction table is full")
    }
}

impl std::error::Error for Full {}

/// How a request matches the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestMatch {
    /// No match: the transaction user decides. An ACK that lands here acknowledges a 2xx, or belongs to no call.
    New,
    /// A retransmission (the stored response was sent again), or the ACK of a non-2xx final response. Nothing is left to do.
    Absorbed,
}

/// How a response matches the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMatch<O> {
    /// It matches a transaction, and the transaction user must see it.
    Told(ClientResponse<O>),
    /// It matches a transaction: a retransmission, or a response to a CANCEL. Nothing is left to do.
    Absorbed,
    /// It matches no transaction: its transaction has ended, or was never ours.
    Stray,
    /// Its branch looks like ours, but we did not write it for this Call-ID, or the response comes from another address than its request
    /// went to.
    Forged,
}

impl<O: Copy> ResponseMatch<O> {
    /// The response that the transaction user must see, if any.
    pub fn told(self) -> Option<ClientResponse<O>> {
        match self {
            Self::Told(response) => Some(response),
            Self::Absorbed | Self::Stray | Self::Forged => None,
        }
    }
}

/// A response that the transaction user must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientResponse<O> {
    /// Its transaction.
    pub id: ClientId,
    /// The value that the transaction user passed to `reserve_client`.
    pub owner: O,
}

/// What the expiry of a timer means for the transaction user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<O> {
    /// No final response arrived before timer B or F fired, or within 64*T1 after a CANCEL. The transaction has ended.
    ClientTimeout {
        /// The transaction.
        id: ClientId,
        /// The value that the transaction user passed.
        owner: O,
    },
    /// Timer H: no ACK arrived for a non-2xx final response. The transaction has ended.
    ServerUnacknowledged {
        /// The transaction.
        id: ServerId,
        /// The value that the transaction user set.
        owner: Option<O>,
    },
}

/// Counters since the start. For servers and clients, `created == ended + live` always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Server transactions created.
    pub servers_created: u64,
    /// Server transactions ended.
    pub servers_ended: u64,
    /// Live server transactions.
    pub servers_live: u64,
    /// Client transactions created, including reserved ones and those of CANCELs.
    pub clients_created: u64,
    /// Client transactions ended.
    pub clients_ended: u64,
    /// Live client transactions.
    pub clients_live: u64,
    /// Requests retransmitted by timer A or E.
    pub requests_retransmitted: u64,
    /// Those of them that were INVITEs, by timer A.
    pub invites_retransmitted: u64,
    /// Responses retransmitted, by timer G or because the request was retransmitted.
    pub responses_retransmitted: u64,
    /// Requests handled by their transaction alone: retransmissions, and ACKs of non-2xx responses.
    pub requests_absorbed: u64,
    /// Responses that match no client transaction.
    pub responses_stray: u64,
    /// Responses with a branch that we did not write, or from an address that their request was not sent to.
    pub responses_forged: u64,
    /// Timeouts reported to the transaction user.
    pub timeouts: u64,
    /// Transactions refused because a table was full.
    pub full: u64,
    /// Responses withheld from senders that may be at another address than their datagrams say, because three times the bytes of their
    /// request had been sent.
    pub responses_withheld: u64,
}
