//! The protocol between controller and agents: JSON objects, one per WebSocket text message, distinguished by `type`. The reference with
//! examples is in `docs/laboratory.md`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of the protocol. The controller rejects agents with another version.
pub const PROTOCOL: u32 = 1;

/// Largest message, in bytes.
pub const LARGEST_MESSAGE: usize = 2 << 20;

/// Maximum number of phones per agent: their list fits into a message.
pub const MAX_PHONES: u32 = 100_000;

/// Maximum distance between the numbers of one agent's phones: the agent keeps a little memory for each number in between.
pub const WIDEST: u32 = 1_000_000;

/// Maximum number of calls in a `call` message.
pub const MAX_CALLS: usize = 10_000;

/// Interval of heartbeats: the controller sends a WebSocket ping, agents send a report.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// A peer that is silent for this long counts as gone.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Messages of agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// The first message, also after each reconnection.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Name of the agent, unique at its controller.
        name: String,
        /// Maximum number of phones that it can play.
        most_phones: u32,
        /// The run of its counts; `null` before the first.
        run: Option<u64>,
        /// Phones that are registered.
        registered: u32,
        /// Calls in progress.
        in_progress: u64,
    },
    /// The phones have received the calls of a batch.
    Begun {
        /// Number of the batch.
        batch: u64,
    },
    /// Progress: several times a second while it changes, and at least once a second.
    Report(Box<AgentReport>),
}

/// Progress of an agent. Counts are since the run began, or since the order to register; delays are those since the last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The run of the calls.
    pub run: Option<u64>,
    /// Number of the [`FromController::Register`] that the next two fields belong to.
    pub registration: Option<u64>,
    /// Phones that are registered.
    pub registered: u32,
    /// Registrations that failed, by status code or reason.
    #[serde(default)]
    pub unregistered: BTreeMap<String, u64>,
    /// Calls in progress, of any run.
    pub in_progress: u64,
    /// Calls that the agent was told to begin.
    pub commanded: u64,
    /// Calls that were answered with a 2xx.
    pub answered: u64,
    /// Calls that ended normally, with a response to BYE.
    pub succeeded: u64,
    /// Calls that have failed, by status code or reason.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Messages that are not SIP.
    pub nonsense: u64,
    /// Messages without a matching transaction, or too late.
    pub unexpected: u64,
    /// Phones for which the server holds contacts of others.
    #[serde(default)]
    pub shared_registrations: u64,
    /// Messages to phones that the kernel dropped, and messages of phones that could not be sent.
    pub not_carried: u64,
    /// Session request delay (RFC 6076 section 4.3), from INVITE to the first 1xx other than 100, or the 2xx: pairs of microseconds and
    /// count.
    #[serde(default)]
    pub session_request_delay: Distribution,
    /// From reading a call's command to the first 1xx other than 100, or the 2xx, challenge included.
    #[serde(default)]
    pub response_delay: Distribution,
    /// From reading a call's command to its 200.
    #[serde(default)]
    pub answer_delay: Distribution,
    /// Registration request delay (RFC 6076 section 4.1).
    #[serde(default)]
    pub registration_delay: Distribution,
    /// From reading a call's command to its INVITE.
    #[serde(default)]
    pub lateness: Distribution,
}

/// Values and their counts.
pub type Distribution = Vec<(u64, u64)>;

/// Messages of the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromController {
    /// The agent is rejected. It may retry later.
    Refused {
        /// Why.
        reason: String,
    },
    /// Play these phones, and register them.
    Register {
        /// Number for the reports.
        registration: u64,
        /// Their numbers, ascending.
        phones: Vec<u32>,
        /// How many registrations begin in a second.
        per_second: u32,
    },
    /// A run begins: reset the counts.
    Begin {
        /// Its number.
        run: u64,
        /// From 180 to 200, in milliseconds.
        ringing_ms: u64,
        /// From ACK to BYE, in milliseconds.
        talking_ms: u64,
    },
    /// Begin these calls now.
    Call {
        /// Number of the batch, for [`FromAgent::Begun`].
        batch: u64,
        /// Caller and callee of each. The callee may be another agent's.
        calls: Vec<(u32, u32)>,
    },
    /// End all calls.
    Stop,
}

/// Counts above this value are implausible.
const PLAUSIBLE: u64 = 1 << 40;

impl AgentReport {
    /// Whether the counts are plausible, so that sums over many agents cannot overflow.
    pub fn is_plausible(&self) -> bool {
        let counts = [
            self.in_progress,
            self.commanded,
            self.answered,
            self.succeeded,
            self.nonsense,
            self.unexpected,
            self.shared_registrations,
            self.not_carried,
        ];
        let reasons = self.failed.values().chain(self.unregistered.values());
        let distributions = [
            &self.session_request_delay,
            &self.response_delay,
            &self.answer_delay,
            &self.registration_delay,
            &self.lateness,
        ];
        let delays = distributions.into_iter().flatten().map(|(_, count)| count);
        self.failed.len() + self.unregistered.len() <= 1_000
            && counts
                .iter()
                .chain(reasons)
                .chain(delays)
                .all(|count| *count <= PLAUSIBLE)
    }
}

impl FromAgent {
    /// Serializes the message.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl FromController {
    /// Serializes the message.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

fn json(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_else(|_| unreachable!("plain data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_shows() {
        let page = include_str!("../../../../docs/laboratory.md");
        let shown = |begin: &'static str| {
            page.lines()
                .find(|line| line.starts_with(begin))
                .unwrap_or_else(|| panic!("docs/laboratory.md shows no {begin}"))
        };
        for kind in ["hello", "begun", "report"] {
            let line = shown(&*format!(r#"{{"type":"{kind}""#).leak());
            let message: FromAgent = serde_json::from_str(line).expect(line);
            assert_eq!(message.to_json(), line);
        }
        for kind in ["refused", "register", "begin", "call", "stop"] {
            let line = shown(&*format!(r#"{{"type":"{kind}""#).leak());
            let message: FromController = serde_json::from_str(line).expect(line);
            assert_eq!(message.to_json(), line);
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"type":"dance"}"#,
            r#"{"type":"begun"}"#,
            r#"{"type":"begun","batch":-1}"#,
        ] {
            assert!(serde_json::from_str::<FromAgent>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_longest_list_of_phones_fits_into_a_message() {
        let phones = (0..MAX_PHONES).map(|phone| 4_000_000_000 + phone).collect();
        let message = FromController::Register {
            registration: 1,
            phones,
            per_second: 200,
        };
        assert!(message.to_json().len() <= LARGEST_MESSAGE);
    }
}
