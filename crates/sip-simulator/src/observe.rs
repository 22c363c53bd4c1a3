//! What the invariants see: every datagram at both ends of the network, every round of every worker, and what the
//! phones come to believe.
use crate::dice::Fingerprint;
use crate::phone::PhoneEvent;
use sip_message::{HeaderName, Message, Method, Via};
use sip_transport::Time;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Who lives at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A machine under test, by its place in the world.
    Host(usize),
    /// A phone, by its place in the world.
    Phone(usize),
    /// Nobody: the datagram goes nowhere.
    Nobody,
}

/// A message as the network sees it, its keys read once for all invariants.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The parsed message.
    pub message: Message<'a>,
    /// Its method; of a response: that of `CSeq`.
    pub method: Method<'a>,
    /// Its status code; 0 in a request.
    pub status: u16,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// Branch of the topmost Via, empty where there is none (RFC 2543).
    pub branch: &'a [u8],
    /// `CSeq` number.
    pub cseq: u32,
    /// From tag, empty where there is none.
    pub from_tag: &'a [u8],
    /// To tag, empty where there is none.
    pub to_tag: &'a [u8],
}

impl<'a> Seen<'a> {
    /// Reads the keys; `None` for what is no SIP message or lacks one of them.
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

    /// Names the transaction; ACK and CANCEL count as their own.
    pub fn transaction(&self) -> u64 {
        self.name(self.branch, self.method.as_bytes())
    }

    /// Names the INVITE transaction that an ACK or CANCEL with this branch is about.
    pub fn invite_transaction(&self) -> u64 {
        self.name(self.branch, b"INVITE")
    }

    /// Names the transaction on the other side of the machine that put the topmost Via on: the one below.
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

    /// Names the call.
    pub fn call(&self) -> u64 {
        hash(&[self.call_id])
    }
}

/// A name for a sequence of byte strings.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut print = Fingerprint::default();
    for part in parts {
        print.write(part);
    }
    print.value()
}

/// Created, ended and live members of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Account {
    pub created: u64,
    pub ended: u64,
    pub live: u64,
}

/// What one worker has in its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Server transactions.
    pub servers: Account,
    /// Client transactions.
    pub clients: Account,
    /// Response contexts of the proxy.
    pub contexts: Account,
    /// Requests that wait for the control plane.
    pub parked: u64,
    /// Messages that these hold.
    pub held: Held,
}

/// What the tables of a worker hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes, as the worker accounts for them.
    pub believed: u64,
    /// Bytes, counted one by one.
    pub counted: u64,
    /// Sources that it accounts for.
    pub sources: u64,
}

/// Why a worker ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A datagram, of its own or handed over.
    Message,
    /// The control plane.
    Answer,
    /// Time.
    Deadline,
}

/// How much a worker put out in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
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
    /// When it ends, seconds since the Unix epoch.
    pub expires_at: u64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A datagram left its sender; whether it arrives is the network's business.
    Sent {
        /// The sender.
        from: Party,
        /// Its address.
        source: SocketAddr,
        /// Who lives where it goes.
        to: Party,
        /// Where it goes.
        destination: SocketAddr,
        /// The message; `None` when it is none.
        seen: Option<&'a Seen<'a>>,
    },
    /// A datagram arrived at somebody who is alive.
    Delivered {
        /// The sender.
        from: Party,
        /// Its address.
        source: SocketAddr,
        /// The receiver.
        to: Party,
        /// The message; `None` when it is none.
        seen: Option<&'a Seen<'a>>,
    },
    /// A worker ran.
    Ran {
        /// The machine.
        host: usize,
        /// The worker.
        worker: usize,
        /// What it put out.
        round: Round,
        /// Its tables afterwards.
        census: Census,
        /// Its questions that are neither answered nor past their deadline.
        outstanding: usize,
    },
    /// The bindings of a machine were counted.
    Bindings {
        /// The machine.
        host: usize,
        /// How many there are.
        account: Account,
    },
    /// A machine started, for the first time or again.
    Booted {
        /// The machine.
        host: usize,
    },
    /// A machine stopped without warning.
    Crashed {
        /// The machine.
        host: usize,
    },
    /// A phone learned something.
    Phone {
        /// The phone.
        phone: usize,
        /// What.
        event: &'a PhoneEvent,
    },
    /// No phone has a transaction left and the network is empty; the registrars' views are attached.
    Calm {
        /// Of each machine.
        bindings: &'a [Vec<BoundContact>],
    },
    /// So much time has passed since that everything must have ended.
    Quiet {
        /// Of each machine.
        bindings: &'a [Vec<BoundContact>],
    },
}

/// What is known of a machine besides what can be observed.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The domain it is responsible for.
    pub domain: String,
    /// Its listeners.
    pub listeners: Vec<SocketAddr>,
    /// Where it may send anything: its configured next hop.
    pub outbound: Option<SocketAddr>,
    /// Whether it forwards requests of its own subscribers to other domains.
    pub relays: bool,
    /// Methods that its own subscribers must authenticate.
    pub challenged: Vec<String>,
    /// Its bounds.
    pub bounds: Bounds,
}

/// The bounds of one worker of a machine, and its promises in time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Server transactions.
    pub servers: u64,
    /// Client transactions.
    pub clients: u64,
    /// Response contexts.
    pub contexts: u64,
    /// Requests that wait for the control plane.
    pub parked: u64,
    /// Bytes of messages that these hold.
    pub held_bytes: u64,
    /// Bindings of the whole machine.
    pub bindings: u64,
    /// Messages that one received message or answer may cause.
    pub fan_out: usize,
    /// T1.
    pub t1: Duration,
    /// How long an INVITE may take from its arrival to its final response.
    pub invite_answered: Duration,
    /// The same for other requests.
    pub other_answered: Duration,
    /// How long a question may wait.
    pub question_deadline: Duration,
    /// A binding acknowledged longer ago than this survives a crash.
    pub write_behind: Duration,
}

/// What is known of a phone besides what can be observed.
#[derive(Clone, Debug)]
pub struct PhoneFacts {
    /// `user@domain`, the identity that it may use.
    pub address_of_record: String,
    /// Whether it keeps to the protocol: what it sends is well-formed and its credentials are right.
    pub honest: bool,
    /// The machine it registers with.
    pub home: usize,
}

/// What is known of a world besides what can be observed.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The machines.
    pub hosts: Vec<HostFacts>,
    /// The phones.
    pub phones: Vec<PhoneFacts>,
    /// Longest time that a datagram, a hand-over or a stalled machine can be late.
    pub lateness: Duration,
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What happened.
    pub what: String,
    /// The Call-ID concerned, to pick its messages out of the trace.
    pub call_id: Option<Vec<u8>>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// A rule that holds in every world at every time.
pub trait Invariant: fmt::Debug {
    /// Its name: that of its file.
    fn name(&self) -> &'static str;

    /// Takes note of something that happened; an error when it must not have.
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
