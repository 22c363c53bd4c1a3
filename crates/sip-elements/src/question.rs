//! What the data plane asks the control plane, and what comes back. Nothing here knows what a database is.
use crate::Settings;
use crate::auth::StoredCredentials;
use std::net::SocketAddr;
use std::sync::Arc;

/// Names what waits for an answer; the answer carries it back. Stale ones are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// A question. It has a deadline (`Settings::question_deadline`); an answer that comes later is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The credentials of a subscriber. The control plane puts them (or their absence) into the shared cache, then answers.
    Credentials {
        /// Who waits.
        ticket: Ticket,
        /// User part of the address of record.
        username: Box<[u8]>,
        /// Domain, which is the realm too.
        domain: Box<[u8]>,
    },
    /// Does this subscriber exist? (404 or 480.) Answered as `Credentials` is.
    Resolve {
        /// Who waits.
        ticket: Ticket,
        /// The host name to resolve.
        host: Box<[u8]>,
        /// The port for the addresses.
        port: u16,
    },
}

/// What comes back, and orders.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To `Question::Credentials`: `Ok(None)` = no such subscriber; `Err` = the store can't say.
    Credentials {
        /// Who waited.
        ticket: Ticket,
        /// What is known.
        result: Result<Option<StoredCredentials>, StoreFailed>,
    },
    /// To `Question::Resolve`; empty: the name does not resolve.
    Resolved {
        /// Who waited.
        ticket: Ticket,
        /// The addresses, best first.
        addresses: Vec<SocketAddr>,
    },
    /// New settings, from now on.
    Settings(Arc<Settings>),
    /// Take no new calls (503 to requests that create dialogs or bindings), finish the ones there are.
    Drain(bool),
}

/// The store could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;
