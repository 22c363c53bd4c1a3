//! Counters of one worker: written by that worker alone, read by anybody. Never reset.
use sip_dialog::Ended;
use sip_message::Method;
use sip_transport::Counter;

/// Why something received went no further. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by the reason")]
#[repr(usize)]
pub enum DropReason {
    NotSip,
    MalformedResponse,
    StrayResponse,
    ForgedResponse,
    StrayAck,
    KeepAlive,
    TooManyHeaders,
    NoTarget,
    Banned,
    Scanner,
    WaitingFull,
    Waited,
}
/// Their labels, in the order of [`DropReason`].
pub const DROPS: [&str; 12] = [
    "not_sip",
    "malformed_response",
    "stray_response",
    "forged_response",
    "stray_ack",
    "keep_alive",
    "too_many_headers",
    "no_target",
    "banned",
    "scanner",
    "waiting_full",
    "waited",
];

/// What the server does at once with a message, and so answers for alone: no phone's and no next hop's time is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by the stage")]
#[repr(usize)]
pub enum Stage {
    Challenge,
    Invite,
    Answer,
    Registration,
}
/// Their labels, in the order of [`Stage`].
pub const STAGES: [&str; 4] = [
    "invite_to_challenge",
    "invite_to_forwarded",
    "answer_to_forwarded",
    "register_to_final",
];

/// What called for a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by the cause")]
#[repr(usize)]
pub enum Challenged {
    First,
    Stale,
    Failed,
}
/// Their labels, in the order of [`Challenged`].
pub const CHALLENGES: [&str; 3] = ["first", "stale", "failed"];

/// Classes of responses, 1xx to 6xx.
pub const CLASSES: usize = 6;
/// Why a policy refused a request, with 403 unless something else is said. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refused {
    /// From names one of our domains, but no user that could prove it.
    Nameless,
    /// The credentials prove another subscriber than the one the request speaks for, or it registers for another one.
    Impostor,
    /// Other domains may not call our subscribers.
    Stranger,
    /// Other domains may not send this method.
    StrangerMethod,
    /// The sender may not reach other domains.
    Relay,
    /// A Route leads past us.
    Route,
    /// A Path did not come from an edge proxy.
    Path,
    /// A routing rule says so, with the status of its own.
    Rule,
    /// A limit of calls is reached: 503, 486 or 480.
    Limit,
    /// A subscriber diverts a call to where it may not call: 480, or the response of its phones.
    Diversion,
    /// No phone reports this event: 489.
    Event,
}
/// Their labels, in the order of [`Refused`].
pub const REFUSALS: [&str; 11] = [
    "nameless",
    "impostor",
    "stranger",
    "stranger_method",
    "relay",
    "route",
    "path",
    "rule",
    "limit",
    "diversion",
    "event",
];

/// Why a call was diverted by its callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DiversionCause {
    /// The callee forwards all calls.
    Always,
    /// Its phones are busy.
    Busy,
    /// Its phones rang for too long.
    NoAnswer,
    /// The call reached none of its phones.
    NotRegistered,
    /// One of its phones redirected the call.
    Redirected,
}
/// Their labels, in the order of [`DiversionCause`].
pub const DIVERSIONS: [&str; 5] = [
    "always",
    "busy",
    "no_answer",
    "not_registered",
    "redirected",
];

/// What a node does for requests and dialogs of another process: another node, or this one before it was restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Takeover {
    /// A response was forwarded by its Via chain.
    Response,
    /// A CANCEL was forwarded to the targets of its INVITE.
    Cancel,
    /// The ACK of a failure was forwarded to the targets of its INVITE.
    Ack,
    /// A CANCEL or an ACK was not, because there were too many.
    Limited,
    /// A request came for a dialog that is not here.
    DialogMissed,
    /// The state of a dialog was adopted.
    DialogAdopted,
    /// A dialog was dropped because another node has adopted it.
    DialogDisowned,
    /// A BYE that waited for the state of its dialog was forgotten to make room.
    ByeForgotten,
}

/// Their labels, in the order of [`Takeover`].
pub const TAKEOVERS: [&str; 8] = [
    "response",
    "cancel",
    "ack",
    "limited",
    "dialog_missed",
    "dialog_adopted",
    "dialog_disowned",
    "bye_forgotten",
];

/// Upper bounds of the latency buckets, in microseconds; one more bucket holds the rest.
pub const LATENCY_BOUNDS: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 1_500_000, 2_000_000, 5_000_000, 30_000_000,
];

/// A histogram of latencies.
#[derive(Debug, Default)]
pub struct Latency {
    /// One for each of [`LATENCY_BOUNDS`], and the rest.
    pub buckets: [Counter; LATENCY_BOUNDS.len() + 1],
    /// Sum in microseconds.
    pub sum: Counter,
}

impl Latency {
    /// Records one.
    pub fn record(&self, elapsed: std::time::Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let place = LATENCY_BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.increment();
        }
        self.sum.add(micros);
    }
}

/// The labels of [`WorkerMetrics::transactions`].
pub const TRANSACTION_COUNTS: [&str; 13] = [
    "servers_created",
    "servers_ended",
    "servers_live",
    "clients_created",
    "clients_ended",
    "clients_live",
    "requests_retransmitted",
    "responses_retransmitted",
    "requests_absorbed",
    "responses_stray",
    "responses_forged",
    "timeouts",
    "full",
];

/// All counters of one worker.
#[derive(Debug)]
pub struct WorkerMetrics {
    /// Requests received, by method.
    pub requests: [Counter; Method::LABELS.len()],
    /// Responses sent upstream or made by us, by status code minus 100.
    pub responses_sent: Box<[Counter]>,
    /// Responses received, by class (index 0 = 1xx).
    pub responses_received: [Counter; 6],
    /// Responses sent upstream or made by us, by the method of their request and class (index 0 = 1xx).
    pub responses_by_method: [[Counter; CLASSES]; Method::LABELS.len()],
    /// Challenges sent, by [`Challenged`].
    pub challenges: [Counter; CHALLENGES.len()],
    /// Dropped, by reason.
    pub drops: [Counter; DROPS.len()],
    /// Refused by policy, by reason.
    pub refusals: [Counter; REFUSALS.len()],
    /// Time from a request to its final response, by method.
    pub latency: [Latency; Method::LABELS.len()],
    /// Time from the arrival of a message until the server had done its part, by [`Stage`].
    pub stages: [Latency; STAGES.len()],
    /// Time from the arrival of a message until its turn came.
    pub queueing: Latency,
    /// Gauges and counts of the transaction layer, copied at each expiry round.
    pub transactions: [Counter; TRANSACTION_COUNTS.len()],
    /// The number of the order that says which messages are copied.
    pub trace_order: Counter,
    /// Live response contexts.
    pub response_contexts: Counter,
    /// Response contexts begun.
    pub response_contexts_created: Counter,
    /// Response contexts ended.
    pub response_contexts_ended: Counter,
    /// Dialogs begun.
    pub dialogs_created: Counter,
    /// Dialogs ended, by [`Ended`].
    pub dialogs_ended: [Counter; Ended::LABELS.len()],
    /// Dialogs without a 2xx.
    pub dialogs_early: Counter,
    /// Dialogs with a 2xx.
    pub dialogs_confirmed: Counter,
    /// Bytes of the texts of dialogs.
    pub dialogs_bytes: Counter,
    /// Dialogs that were not begun: the table is full, their source has used its share, or their INVITE has too many.
    pub dialogs_refused: Counter,
    /// Calls that were answered while the node drains and wait for their ACK.
    pub unacknowledged: Counter,
    /// Parked requests.
    pub parked: Counter,
    /// Bindings of this server at gateways that are being removed.
    pub registrations_leaving: Counter,
    /// Answers to REGISTER that wait for their bindings to be saved.
    pub held_answers: Counter,
    /// Held answers that were dropped because their clients had stopped waiting.
    pub held_answers_dropped: Counter,
    /// Questions asked.
    pub questions: Counter,
    /// Questions whose deadline passed.
    pub questions_expired: Counter,
    /// Requests refused because a table was full.
    pub refused_full: Counter,
    /// Messages for an edge that is gone, sent through another one.
    pub round_edges: Counter,
    /// Requests whose Route carries a proof of ours that is not valid for them, or no longer.
    pub unproven: Counter,
    /// Requests that were to go where none may lead.
    pub off_limits: Counter,
    /// Remote targets remembered because they changed in the middle of their dialog.
    pub refreshed_targets: Counter,
    /// Those forgotten to make room, or never remembered because their source has its share.
    pub refreshed_targets_evicted: Counter,
    /// Bytes of messages held.
    pub held_bytes: Counter,
    /// Sources without proof that something is held for.
    pub held_sources: Counter,
    /// Entries of tables refused because their source had its share.
    pub shares_refused: Counter,
    /// Responses held back because three times the bytes of a request had been sent to a sender without proof.
    pub responses_withheld: Counter,
    /// Times the next candidate of a target was tried because one failed.
    pub failovers: Counter,
    /// Requests forwarded without a transaction.
    pub forwarded_statelessly: Counter,
    /// Calls that their callee diverted, by [`DiversionCause`].
    pub diversions: [Counter; DIVERSIONS.len()],
    /// What was done for requests and dialogs of another process, by [`Takeover`].
    pub takeovers: [Counter; TAKEOVERS.len()],
    /// Bindings that ended with their connection.
    pub bindings_disconnected: Counter,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            responses_sent: (0..600).map(|_| Counter::default()).collect(),
            responses_received: Default::default(),
            responses_by_method: Default::default(),
            challenges: Default::default(),
            drops: Default::default(),
            refusals: Default::default(),
            latency: Default::default(),
            stages: Default::default(),
            queueing: Latency::default(),
            transactions: Default::default(),
            trace_order: Counter::default(),
            response_contexts: Counter::default(),
            response_contexts_created: Counter::default(),
            response_contexts_ended: Counter::default(),
            dialogs_created: Counter::default(),
            dialogs_ended: Default::default(),
            dialogs_early: Counter::default(),
            dialogs_confirmed: Counter::default(),
            dialogs_bytes: Counter::default(),
            dialogs_refused: Counter::default(),
            unacknowledged: Counter::default(),
            parked: Counter::default(),
            registrations_leaving: Counter::default(),
            held_answers: Counter::default(),
            held_answers_dropped: Counter::default(),
            questions: Counter::default(),
            questions_expired: Counter::default(),
            refused_full: Counter::default(),
            round_edges: Counter::default(),
            unproven: Counter::default(),
            off_limits: Counter::default(),
            refreshed_targets: Counter::default(),
            refreshed_targets_evicted: Counter::default(),
            held_bytes: Counter::default(),
            held_sources: Counter::default(),
            shares_refused: Counter::default(),
            responses_withheld: Counter::default(),
            failovers: Counter::default(),
            forwarded_statelessly: Counter::default(),
            diversions: Default::default(),
            takeovers: Default::default(),
            bindings_disconnected: Counter::default(),
        }
    }
}

impl WorkerMetrics {
    /// Copies the counts of the transaction layer, in the order of [`TRANSACTION_COUNTS`].
    pub fn publish_transactions(&self, stats: &sip_transaction::Stats) {
        let values = [
            stats.servers_created,
            stats.servers_ended,
            stats.servers_live,
            stats.clients_created,
            stats.clients_ended,
            stats.clients_live,
            stats.requests_retransmitted,
            stats.responses_retransmitted,
            stats.requests_absorbed,
            stats.responses_stray,
            stats.responses_forged,
            stats.timeouts,
            stats.full,
        ];
        for (counter, value) in self.transactions.iter().zip(values) {
            counter.set(value);
        }
    }

    /// Counts a response sent to a request whose method has this place among the labels.
    pub fn sent(&self, method: usize, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        let by_class = self.responses_by_method.get(method);
        if let Some(counter) = by_class.and_then(|classes| classes.get(class)) {
            counter.increment();
        }
        if let Some(counter) = self
            .responses_sent
            .get(usize::from(status.saturating_sub(100)))
        {
            counter.increment();
        }
    }

    /// Counts a refusal by policy.
    pub fn refused(&self, reason: Refused) {
        if let Some(counter) = self.refusals.get(reason as usize) {
            counter.increment();
        }
    }

    /// Counts a diverted call.
    pub(crate) fn diverted(&self, cause: DiversionCause) {
        if let Some(counter) = self.diversions.get(cause as usize) {
            counter.increment();
        }
    }

    /// Counts what was done for another process.
    pub fn took_over(&self, takeover: Takeover) {
        if let Some(counter) = self.takeovers.get(takeover as usize) {
            counter.increment();
        }
    }

    /// Counts a drop.
    pub fn dropped(&self, reason: DropReason) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.increment();
        }
    }
}
