//! What the invariants see: every datagram at both ends of the network, every step of every worker, and the state that
//! the phones believe in.
use crate::dice::Fingerprint;
use crate::phone::PhoneEvent;
use sip_dialog::CallEvent;
use sip_message::{HeaderName, Message, Method, Via};
use sip_transport::Time;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The owner of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A machine under test, by its index in the world.
    Host(usize),
    /// A phone, by its index in the world.
    Phone(usize),
    /// No owner: the datagram goes nowhere.
    Nobody,
}

/// A message as the network sees it. Its keys are parsed once for all invariants.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The parsed message.
    pub message: Message<'a>,
    /// Its method; for a response, the method of `CSeq`.
    pub method: Method<'a>,
    /// Its status code; 0 in a request.
    pub status: u16,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// Branch of the topmost Via; empty if there is none (RFC 2543).
    pub branch: &'a [u8],
    /// `CSeq` number.
    pub cseq: u32,
    /// From tag; empty if there is none.
    pub from_tag: &'a [u8],
    /// To tag; empty if there is none.
    pub to_tag: &'a [u8],
}

impl<'a> Seen<'a> {
    /// Parses the keys; `None` if the bytes are no SIP message or lack a key.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let message = Message::parse(bytes).ok()?;
        let method = message.method();
        let status = message.status();
        let call_id = message.call_id()?;
        let branch = message.top_via()?.branch().unwrap_or_default();
        let cseq = message.cseq()?.number;
        let from_tag = message.from()?.tag().unwrap_or_default();
        let to_tag = message.to()?.tag().unwrap_or_default();
        Some(Self {
            message,
            method,
            status,
            call_id,
            branch,
            cseq,
            from_tag,
            to_tag,
        })
    }

    /// Whether it is a request.
    pub const fn is_request(&self) -> bool {
        self.status == 0
    }

    /// Whether it is a final response.
    pub const fn is_final(&self) -> bool {
        self.status >= 200
    }

    /// Whether it is a 2xx response to an INVITE.
    pub fn is_acceptance(&self) -> bool {
        self.status / 100 == 2 && self.method == Method::Invite
    }

    /// Identifies the transaction. ACK and CANCEL count as transactions of their own.
    pub fn transaction(&self) -> u64 {
        self.name(self.branch, self.method.as_bytes())
    }

    /// Identifies the INVITE transaction that an ACK or CANCEL with this branch refers to.
    pub fn invite_transaction(&self) -> u64 {
        self.name(self.branch, b"INVITE")
    }

    /// Identifies the transaction upstream of the machine that added the topmost Via, from the Via below.
    pub fn upstream_transaction(&self) -> u64 {
        let below = self
            .message
            .values(HeaderName::Via)
            .nth(1)
            .unwrap_or_default();
        let branch = Via::parse(below)
            .and_then(|via| via.branch())
            .unwrap_or_default();
        self.name(branch, self.method.as_bytes())
    }

    fn name(&self, branch: &[u8], method: &[u8]) -> u64 {
        hash(&[branch, method, self.call_id, &self.cseq.to_le_bytes()])
    }

    /// Identifies the dialog, seen from the sender of a request or the receiver of a response.
    pub fn dialog(&self) -> u64 {
        dialog(self.call_id, self.from_tag, self.to_tag)
    }

    /// Identifies the dialog, seen from the other party.
    pub fn dialog_of_receiver(&self) -> u64 {
        dialog(self.call_id, self.to_tag, self.from_tag)
    }

    /// Whether a machine forwarded it. A message with one Via is the machine's own.
    pub fn is_forwarded(&self) -> bool {
        self.message.values(HeaderName::Via).nth(1).is_some()
    }

    /// Identifies the call.
    pub fn call(&self) -> u64 {
        hash(&[self.call_id])
    }
}

/// Identifies a dialog by its Call-ID, the tag of one party and that of the other.
pub fn dialog(call_id: &[u8], own_tag: &[u8], other_tag: &[u8]) -> u64 {
    hash(&[call_id, b"/", own_tag, b"/", other_tag])
}

/// Hashes a sequence of byte strings.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut print = Fingerprint::default();
    for part in parts {
        print.write(part);
    }
    print.value()
}

/// Created, ended and live entries of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Account {
    pub created: u64,
    pub ended: u64,
    pub live: u64,
}

/// The entries in the tables of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Server transactions.
    pub servers: Account,
    /// Client transactions.
    pub clients: Account,
    /// Response contexts of the proxy.
    pub contexts: Account,
    /// Dialogs of calls.
    pub dialogs: Account,
    /// Those of them that no 2xx has confirmed.
    pub early_dialogs: u64,
    /// Requests that wait for the control plane.
    pub parked: u64,
    /// Message bytes that these tables hold.
    pub held: Held,
    /// The places of its calls.
    pub places: Places,
}

/// The places of calls in a limit and on gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The calls of this worker that hold places, counted one by one.
    pub calls: u64,
    /// The places that are taken in the limit of all calls, by the calls of all workers of the machine.
    pub taken: u64,
}

/// Message bytes that the tables of a worker hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes by the worker's own accounts.
    pub believed: u64,
    /// Bytes counted one by one.
    pub counted: u64,
    /// Sources in the worker's accounts.
    pub sources: u64,
}

/// Why a worker ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A datagram, received or handed over.
    Message,
    /// An answer of the control plane.
    Answer,
    /// A timer.
    Deadline,
}

/// The output of a worker for one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Why it ran.
    pub cause: Cause,
    /// Messages sent.
    pub sent: usize,
    /// The longest of them, in bytes.
    pub longest: usize,
    /// Messages handed over to sibling workers.
    pub handed_over: usize,
    /// Questions asked.
    pub asked: usize,
}

/// A contact in the registrar's view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundContact {
    /// `user@domain`.
    pub address: String,
    /// The contact URI.
    pub contact: String,
    /// When it expires, in seconds since the Unix epoch.
    pub expires_at: u64,
}

/// A dialog on the disk of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedDialog {
    /// Identifies the dialog among those of all machines.
    pub id: u128,
    /// When it ends unless it is refreshed.
    pub expires: Time,
}

/// An event in the world.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A datagram was sent. The network decides whether it arrives.
    Sent {
        /// The sender.
        from: Party,
        /// Its address.
        source: SocketAddr,
        /// The owner of the destination.
        to: Party,
        /// The destination.
        destination: SocketAddr,
        /// The message; `None` if the datagram is no message.
        seen: Option<&'a Seen<'a>>,
    },
    /// A datagram arrived at a live receiver.
    Delivered {
        /// The sender.
        from: Party,
        /// Its address.
        source: SocketAddr,
        /// The receiver.
        to: Party,
        /// The message; `None` if the datagram is no message.
        seen: Option<&'a Seen<'a>>,
    },
    /// A worker handled one input.
    Ran {
        /// The machine.
        host: usize,
        /// The worker.
        worker: usize,
        /// Its output.
        step: Step,
        /// Its tables after it.
        census: Census,
        /// Its questions that are neither answered nor past their deadline.
        outstanding: usize,
    },
    /// The bindings of a machine were counted.
    Bindings {
        /// The machine.
        host: usize,
        /// Their number.
        account: Account,
    },
    /// A worker recorded a change of a call, after it sent the messages of this round.
    Call {
        /// The machine.
        host: usize,
        /// The change.
        event: &'a CallEvent,
    },
    /// The dialogs on the disk of a machine were read: at intervals, at the end, and after a crash.
    SavedDialogs {
        /// The machine.
        host: usize,
        /// The dialogs.
        saved: &'a [SavedDialog],
    },
    /// A machine started, for the first time or again.
    Booted {
        /// The machine.
        host: usize,
        /// The live dialogs of all workers.
        dialogs: u64,
        /// The calls of each worker that hold places.
        calls: Vec<u64>,
    },
    /// A machine stopped without warning.
    Crashed {
        /// The machine.
        host: usize,
    },
    /// A phone reported an event.
    Phone {
        /// The phone.
        phone: usize,
        /// The event.
        event: &'a PhoneEvent,
    },
    /// No phone has a transaction left, and the network is empty.
    Calm {
        /// The registrar's view of each machine.
        bindings: &'a [Vec<BoundContact>],
    },
    /// So much time has passed since `Calm` that everything must have ended.
    Quiet {
        /// The registrar's view of each machine.
        bindings: &'a [Vec<BoundContact>],
    },
}

/// Facts about a machine that cannot be observed.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The domain it is responsible for.
    pub domain: String,
    /// Its listeners.
    pub listeners: Vec<SocketAddr>,
    /// Its configured next hop, to which it may send anything.
    pub outbound: Option<SocketAddr>,
    /// Whether it forwards requests of its own subscribers to other domains.
    pub relays: bool,
    /// Methods that its own subscribers must authenticate.
    pub challenged: Vec<String>,
    /// The line that its control plane adds to each session description; `None` if it replaces none.
    pub description_mark: Option<String>,
    /// Whether it asks the phones to refresh their sessions (RFC 4028).
    pub session_timers: bool,
    /// Its bounds.
    pub bounds: Bounds,
}

/// The bounds of one worker of a machine, and its promised times.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Server transactions.
    pub servers: u64,
    /// Client transactions.
    pub clients: u64,
    /// Response contexts.
    pub contexts: u64,
    /// Dialogs of calls.
    pub dialogs: u64,
    /// Requests that wait for the control plane.
    pub parked: u64,
    /// Message bytes that these tables hold.
    pub held_bytes: u64,
    /// Bindings of the whole machine.
    pub bindings: u64,
    /// Messages that one received message or answer may cause.
    pub fan_out: usize,
    /// T1.
    pub t1: Duration,
    /// The longest time from the arrival of an INVITE to its final response.
    pub invite_answered: Duration,
    /// The same for other requests.
    pub other_answered: Duration,
    /// How long a question may wait.
    pub question_deadline: Duration,
    /// How long a response may wait for the control plane, behind other responses of its call too.
    pub response_waits: Duration,
    /// A binding acknowledged longer ago than this survives a crash.
    pub write_behind: Duration,
    /// A dialog that has changed longer ago than this survives a crash as it is.
    pub save_window: Duration,
    /// How long a dialog lives without a refresh.
    pub dialog_lifetime: Duration,
}

/// Facts about a phone that cannot be observed.
#[derive(Clone, Debug)]
pub struct PhoneFacts {
    /// `user@domain`, the identity that it may use.
    pub address_of_record: String,
    /// Whether it follows the protocol: its messages are well-formed and its credentials are right.
    pub honest: bool,
    /// The machine it registers with.
    pub home: usize,
}

/// Facts about a world that cannot be observed.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The machines.
    pub hosts: Vec<HostFacts>,
    /// The phones.
    pub phones: Vec<PhoneFacts>,
    /// The longest delay of a datagram, a hand-over or a stalled machine.
    pub lateness: Duration,
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What happened.
    pub what: String,
    /// The Call-ID concerned, to select its messages from the trace.
    pub call_id: Option<Vec<u8>>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// A rule that holds in every world at every time.
pub trait Invariant: fmt::Debug {
    /// Its name, which is that of its file.
    fn name(&self) -> &'static str;

    /// Records an event; an error if the event violates the rule.
    fn observe(
        &mut self,
        facts: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation>;
}

/// Builds the violation of an invariant.
pub(crate) fn violation(
    invariant: &'static str,
    what: String,
    call_id: Option<&[u8]>,
) -> Violation {
    Violation {
        invariant,
        what,
        call_id: call_id.map(<[u8]>::to_vec),
    }
}
