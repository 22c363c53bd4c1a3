//! What happened in a run, counted exactly.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An OPTIONS for the server itself, and its answer.
    Options,
    /// A NOTIFY that keeps a way open, and its answer.
    KeepAlive,
    /// A REGISTER, challenged or not, and its 200.
    Register,
    /// A call from its first INVITE to the answer of its BYE.
    Call,
    /// A connection that is opened for one OPTIONS, and closed behind its answer.
    Connection,
    /// A request of somebody who tries to get in, or what is no request at all.
    Attack,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Options,
        Self::KeepAlive,
        Self::Register,
        Self::Call,
        Self::Connection,
        Self::Attack,
    ];

    /// What people call several of it.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::KeepAlive => "keep-alives",
            Self::Register => "registrations",
            Self::Call => "calls",
            Self::Connection => "connections",
            Self::Attack => "attacks",
        }
    }
}

/// A delay that is measured, in microseconds. Those of RFC 6076 begin when the request was due that the server could serve (the
/// one with credentials, where it asked for them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Delay {
    /// Registration request delay (RFC 6076 section 4.1): REGISTER to 200.
    Registration,
    /// Session request delay (section 4.3): INVITE to the first response that says that somebody was found.
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
    /// From when the call was due to the first response that says that somebody was found, the challenge included.
    Response,
    /// From when the call was due to its 200, whatever lay between.
    Answer,
    /// From when a connection was due to the response of the request that it was opened for.
    Connection,
    /// OPTIONS or NOTIFY to its response, or an attack to what ended it.
    Other,
    /// How late units began: the generator's own delay.
    Lateness,
}

impl Delay {
    pub(super) const ALL: [Self; 12] = [
        Self::Registration,
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

    /// As it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration_request_delay",
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
        found.ok_or_else(|| format!("there is no delay `{name}`"))
    }
}

/// On the command line as in reports.
impl clap::ValueEnum for Delay {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.name().into())
    }
}

/// How units of one kind ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ends {
    /// Begun.
    pub attempted: u64,
    /// Ended as they should.
    pub succeeded: u64,
    /// Ended otherwise.
    pub failed: u64,
    /// Due but not begun, because too many were in progress.
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
    /// Begun.
    pub attempted: u64,
    /// Ended as they should, within ten seconds beside the time that calls ring and talk.
    pub succeeded: u64,
}

/// Counts and delays of a run, or of a part of it.
#[derive(Clone, Debug)]
pub struct Figures {
    ends: [Ends; Kind::ALL.len()],
    /// Failures by kind and reason: a status code, `timeout`, `unreachable` (ICMP), `transport`, `unacknowledged`.
    pub failures: BTreeMap<(&'static str, String), u64>,
    /// Attacks that came to nothing, by what they were answered with; 0: nothing.
    pub refusals: BTreeMap<u16, u64>,
    /// INVITEs that reached a callee.
    pub calls_taken: u64,
    /// Messages sent again.
    pub retransmissions_sent: u64,
    /// Messages that came again.
    pub retransmissions_received: u64,
    /// Responses that nobody waited for any more.
    pub late_messages: u64,
    /// What came and is no SIP message, or one that cannot be.
    pub nonsense: u64,
    /// Registrations that the server put off with 503, before the run.
    pub put_off: u64,
    /// Phones whose registration came back with contacts of others.
    pub shared_registrations: u64,
    /// Units by the tenth of a second that they were due in, counted from the start.
    pub cohorts: BTreeMap<u32, Cohort>,
    delays: Vec<Histogram<u64>>,
}

/// Longest delay that is told apart, in microseconds: two minutes.
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
    /// How units of a kind ended.
    pub fn ends(&self, kind: Kind) -> &Ends {
        &self.ends[kind as usize]
    }

    pub(super) fn ends_mut(&mut self, kind: Kind) -> &mut Ends {
        &mut self.ends[kind as usize]
    }

    /// Of all kinds together.
    pub fn total(&self) -> Ends {
        self.ends.iter().fold(Ends::default(), |mut total, ends| {
            total.add(ends);
            total
        })
    }

    /// A delay's distribution, in microseconds.
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

    /// Counts what others counted, too.
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
