//! What the data plane asks the control plane, and what comes back. Nothing here knows what a database is.
use crate::Settings;
use crate::auth::StoredCredentials;
use sip_transport::selection::{Candidate, Destination};
use std::sync::Arc;

/// Names what waits for an answer; the answer carries it back. Stale ones are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// A question. It has a deadline (`Settings::question_deadline`); an answer that comes later is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The credentials of a subscriber, which tell too whether there is one (404 or 480). The control plane puts them (or their absence) into the shared cache, then answers.
    Credentials {
        /// Who waits.
        ticket: Ticket,
        /// User part of the address of record.
        username: Box<[u8]>,
        /// Domain, which is the realm too.
        domain: Box<[u8]>,
    },
    /// How a destination is reached that is a name (RFC 3263).
    Resolve {
        /// Who waits.
        ticket: Ticket,
        /// What the URI says of it.
        destination: Destination,
        /// The chance for the draw among its servers. All requests of a call bring the same.
        seed: u64,
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
    /// To `Question::Resolve`.
    Resolved {
        /// Who waited.
        ticket: Ticket,
        /// The ways, best first, no more than [`sip_transport::selection::MOST_CANDIDATES`]. Empty: there is none; `Err`: the name servers
        /// did not say.
        result: Result<Vec<Candidate>, NameServersFailed>,
    },
    /// A save has succeeded: answers that wait for it may go.
    Saved,
    /// New settings, from now on.
    Settings(Arc<Settings>),
    /// Take no new calls (503 to requests that create dialogs or bindings), finish the ones there are.
    Drain(bool),
}

/// The store could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

/// The name servers could not be asked, or were silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServersFailed;
