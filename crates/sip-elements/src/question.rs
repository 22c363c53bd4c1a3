//! The questions of the data plane to the control plane, and the answers. Nothing here depends on a database.
use crate::Settings;
use crate::auth::StoredCredentials;
use crate::operator::DialogRequest;
use crate::owner::{BranchId, DescribedId, ParkedId};
use crate::trace::TraceOrder;
use sip_transport::selection::{Candidate, Destination};
use std::net::IpAddr;
use std::sync::Arc;

/// A question to the control plane. Answers after its deadline (`Settings::question_deadline`) are ignored, and so are
/// answers to a request that no longer waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The credentials of a subscriber. The answer also decides between 404 and 480, because it tells whether the
    /// subscriber exists.
    ///
    /// The control plane first puts the credentials, or their absence, into the shared cache. Then it answers.
    Credentials {
        /// Identifies the waiting request.
        ticket: ParkedId,
        /// The user part of the address of record.
        username: Box<[u8]>,
        /// The domain, which is also the realm.
        domain: Box<[u8]>,
    },
    /// The addresses of a destination that is given by name (RFC 3263).
    Resolve {
        /// Identifies the waiting branch.
        ticket: BranchId,
        /// The destination as the URI describes it.
        destination: Destination,
        /// The seed for the random choice among its servers. All requests of a call use the same one.
        seed: u64,
    },
    /// The session description to forward in place of the one in this message. Asked only with
    /// [`SessionDescriptions::Ask`](crate::SessionDescriptions::Ask). A response that its sender repeats is asked about again.
    /// The ACK of a 2xx is not asked about: it has no transaction, so it cannot wait.
    Describe {
        /// Identifies the waiting message.
        ticket: DescribedId,
        /// The message as received, with its body.
        message: Arc<[u8]>,
        /// The address that it came from.
        source: IpAddr,
    },
}

/// A message of the control plane to a worker: the reply to a question, or an order.
#[derive(Clone, Debug)]
pub enum ControlMessage {
    /// Answers `Question::Credentials`.
    Credentials {
        /// The ticket of the question.
        ticket: ParkedId,
        /// The credentials. `Ok(None)`: there is no such subscriber. `Err`: the store cannot answer.
        result: Result<Option<StoredCredentials>, StoreFailed>,
    },
    /// Answers `Question::Resolve`.
    Resolved {
        /// The ticket of the question.
        ticket: BranchId,
        /// The candidates, best first, at most [`sip_transport::selection::MAX_CANDIDATES`]. Empty: there are none.
        /// `Err`: the name servers gave no answer.
        result: Result<Vec<Candidate>, NameServersFailed>,
    },
    /// Answers `Question::Describe`.
    Described {
        /// The ticket of the question.
        ticket: DescribedId,
        /// What to do with the session description. `Err`: a request is refused with 503, and a response passes unchanged.
        result: Result<Description, NotDescribed>,
    },
    /// A save has succeeded, so answers that waited for it can be sent.
    Saved,
    /// New settings that take effect now.
    Settings(Arc<Settings>),
    /// Whether to drain: reject new calls (503 to requests that create dialogs or bindings) and finish the existing ones.
    Drain(bool),
    /// Which messages to copy from now on.
    Trace(Arc<TraceOrder>),
    /// The state of a dialog that another node has recorded ([`Record::Dialog`](crate::Record::Dialog)), for the worker that is its home
    /// ([`Exchange::home_of_dialog`](crate::Exchange::home_of_dialog)). It is refused if the dialog is here, or the table is full. A BYE that
    /// came up to 32 seconds before ends it at once.
    Adopt {
        /// What [`Exchange::restore`](crate::Exchange::restore) reads.
        state: Box<[u8]>,
    },
    /// Another node has adopted this dialog. It is dropped without a record, and without a change in the store.
    Disown {
        /// Its id.
        id: u128,
        /// Its key ([`Exchange::key_of_dialog`](crate::Exchange::key_of_dialog)).
        key: u64,
    },
    /// A request of an operator about the dialogs of this worker.
    Dialogs(DialogRequest),
}

/// What to do with the session description of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// Forward it unchanged.
    Keep,
    /// Forward this body instead. Its type stays `application/sdp`.
    Replace(Box<[u8]>),
}

/// There is no session description to forward, for example because no media relay is reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDescribed;

/// The store could not be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

/// The name servers could not be queried, or did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServersFailed;
