//! The exact counts of a run.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An OPTIONS to the server itself, and its response.
    Options,
    /// A NOTIFY as a keep-alive, and its response.
    KeepAlive,
    /// A REGISTER, challenged or not, and its 200.
    Register,
    /// A call, from its first INVITE to the response to BYE.
    Call,
    /// A connection opened for one OPTIONS, and closed after the response.
    Connection,
    /// A hostile request, or bytes that are not a request.
    Attack,
    /// A keep-alive of 600 bytes that an echo server answers in place: the kernel's cost of two datagrams.
    Echo,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Options,
        Self::KeepAlive,
        Self::Register,
        Self::Call,
        Self::Connection,
        Self::Attack,
        Self::Echo,
    ];

    /// The plural, as in reports.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::KeepAlive => "keep-alives",
            Self::Register => "registrations",
            Self::Call => "calls",
            Self::Connection => "connections",
            Self::Attack => "attacks",
            Self::Echo => "echoes",
        }
    }
}

/// A measured delay, in microseconds. The delays of RFC 6076 begin when the request was due that the server could process: the one with
/// credentials, if the server asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Delay {
    /// Registration request delay (RFC 6076 section 4.1): REGISTER to 200.
    Registration,
    /// From the due time of a registration to its 200; challenge included.
    Registered,
    /// Session request delay (section 4.3): INVITE to the first 1xx other than 100, or the 2xx.
    SessionRequest,
    /// Session disconnect delay (section 4.4): BYE to its response.
    SessionDisconnect,
    /// INVITE to its 100.
    Trying,
    /// INVITE without credentials to its 401 or 407.
    Challenge,
    /// INVITE sent by the caller to INVITE received by the callee.
    Forwarding,
    /// 200 sent by the callee to 200 received by the caller.
    AnswerForwarding,
    /// From the due time of a call to the first 1xx other than 100, or the 2xx; challenge included.
    Response,
    /// From the due time of a call to its 200.
    Answer,
    /// From the due time of a connection to the response to its request.
    Connection,
    /// OPTIONS, NOTIFY or a datagram to be echoed to its response, or an attack to its end.
    Other,
    /// How late units began: the delay of the generator itself.
    Lateness,
}

impl Delay {
    pub(super) const ALL: [Self; 13] = [
        Self::Registration,
        Self::Registered,
        Self::SessionRequest,
        Self::SessionDisconnect,
        Self::Trying,
        Self::Challenge,
        Self::Forwarding,
        Self::AnswerForwarding,
        Self::Response,
        Self::Answer,
        Self::Connection,
        Self::Other,
        Self::Lateness,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration_request_delay",
            Self::Registered => "due_to_registration",
            Self::SessionRequest => "session_request_delay",
            Self::SessionDisconnect => "session_disconnect_delay",
            Self::Trying => "invite_to_100",
            Self::Challenge => "invite_to_challenge",
            Self::Forwarding => "invite_to_callee",
            Self::AnswerForwarding => "answer_to_caller",
            Self::Response => "due_to_response",
            Self::Answer => "due_to_answer",
            Self::Connection => "connection_to_response",
            Self::Other => "other_response_delay",
            Self::Lateness => "lateness",
        }
    }
}

impl From<Delay> for String {
    fn from(delay: Delay) -> Self {
        delay.name().into()
    }
}

impl TryFrom<String> for Delay {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|delay| delay.name() == name);
        found.ok_or_else(|| format!("no delay is named `{name}`"))
    }
}

/// The same names on the command line as in reports.
impl clap::ValueEnum for Delay {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.name().into())
    }
}

/// The outcomes of units of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ends {
    /// Units started.
    pub attempted: u64,
    /// Units that ended as expected.
    pub succeeded: u64,
    /// Units that ended otherwise.
    pub failed: u64,
    /// Units that were due but not started, because too many were in progress.
    pub skipped: u64,
}

impl Ends {
    fn add(&mut self, other: &Self) {
        self.attempted += other.attempted;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Units that were due in one tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cohort {
    /// Units started.
    pub attempted: u64,
    /// Units that succeeded within ten seconds, beyond the time that calls ring and talk.
    pub succeeded: u64,
}

/// Counts and delays of a run, or of a part of it.
#[derive(Clone, Debug)]
pub struct Figures {
    ends: [Ends; Kind::ALL.len()],
    /// Failures by kind and reason: a status code, `timeout`, `unreachable` (ICMP), `transport`, `unacknowledged`.
    pub failures: BTreeMap<(&'static str, String), u64>,
    /// Attacks that the server rejected, by status code; 0 means no response.
    pub refusals: BTreeMap<u16, u64>,
    /// INVITEs that reached a callee.
    pub calls_taken: u64,
    /// Messages retransmitted by the phones.
    pub retransmissions_sent: u64,
    /// Those of them that were INVITEs.
    pub invites_retransmitted: u64,
    /// Those of them that were 2xx responses to INVITE.
    pub answers_retransmitted: u64,
    /// Duplicates received by the phones.
    pub retransmissions_received: u64,
    /// Responses that arrived too late for their transaction.
    pub late_messages: u64,
    /// Received messages that are not valid SIP.
    pub nonsense: u64,
    /// 503 responses to registrations before the run, which were retried.
    pub put_off: u64,
    /// Phones for which the server returned contacts of others.
    pub shared_registrations: u64,
    /// Units by the tenth of a second in which they were due, counted from the start.
    pub cohorts: BTreeMap<u32, Cohort>,
    delays: Vec<Histogram<u64>>,
}

/// Upper bound of the histograms, in microseconds: two minutes.
const LONGEST: u64 = 120_000_000;

impl Default for Figures {
    fn default() -> Self {
        let delay = || {
            Histogram::new_with_bounds(1, LONGEST, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are sound"))
        };
        Self {
            ends: [Ends::default(); Kind::ALL.len()],
            failures: BTreeMap::new(),
            refusals: BTreeMap::new(),
            calls_taken: 0,
            retransmissions_sent: 0,
            invites_retransmitted: 0,
            answers_retransmitted: 0,
            retransmissions_received: 0,
            late_messages: 0,
            nonsense: 0,
            put_off: 0,
            shared_registrations: 0,
            cohorts: BTreeMap::new(),
            delays: Delay::ALL.map(|_| delay()).to_vec(),
        }
    }
}

impl Figures {
    /// The outcomes of one kind.
    pub fn ends(&self, kind: Kind) -> &Ends {
        &self.ends[kind as usize]
    }

    pub(super) fn ends_mut(&mut self, kind: Kind) -> &mut Ends {
        &mut self.ends[kind as usize]
    }

    /// The outcomes of all kinds together.
    pub fn total(&self) -> Ends {
        self.ends.iter().fold(Ends::default(), |mut total, ends| {
            total.add(ends);
            total
        })
    }

    /// Distribution of a delay, in microseconds.
    pub fn delay(&self, delay: Delay) -> &Histogram<u64> {
        &self.delays[delay as usize]
    }

    pub(super) fn record(&mut self, delay: Delay, value: Duration) {
        self.delays[delay as usize].saturating_record(value.as_micros() as u64);
    }

    pub(super) fn succeed(&mut self, kind: Kind) {
        self.ends_mut(kind).succeeded += 1;
    }

    pub(super) fn fail(&mut self, kind: Kind, reason: &dyn std::fmt::Display) {
        self.ends_mut(kind).failed += 1;
        let reason = (kind.plural(), reason.to_string());
        *self.failures.entry(reason).or_default() += 1;
    }

    /// Adds the counts and delays of another part.
    pub fn add(&mut self, other: &Self) {
        for (mine, others) in self.ends.iter_mut().zip(&other.ends) {
            mine.add(others);
        }
        for (reason, count) in &other.failures {
            *self.failures.entry(reason.clone()).or_default() += count;
        }
        for (status, count) in &other.refusals {
            *self.refusals.entry(*status).or_default() += count;
        }
        self.calls_taken += other.calls_taken;
        self.retransmissions_sent += other.retransmissions_sent;
        self.invites_retransmitted += other.invites_retransmitted;
        self.answers_retransmitted += other.answers_retransmitted;
        self.retransmissions_received += other.retransmissions_received;
        self.late_messages += other.late_messages;
        self.nonsense += other.nonsense;
        self.put_off += other.put_off;
        self.shared_registrations += other.shared_registrations;
        for (tenth, others) in &other.cohorts {
            let cohort = self.cohorts.entry(*tenth).or_default();
            cohort.attempted += others.attempted;
            cohort.succeeded += others.succeeded;
        }
        for (mine, others) in self.delays.iter_mut().zip(&other.delays) {
            // Both have the same bounds.
            let _ = mine.add(others);
        }
    }
}
