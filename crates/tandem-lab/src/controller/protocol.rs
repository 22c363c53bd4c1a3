//! What a controller and its agents say to each other: JSON objects, one to a WebSocket text message, told apart by `type`. The reference with examples
//! is in `docs/laboratory.md`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of the protocol. An agent of another one is refused.
pub const PROTOCOL: u32 = 1;

/// Largest message, in octets.
pub const LARGEST_MESSAGE: usize = 2 << 20;

/// Most phones of one agent: their list fits into a message.
pub const MOST_PHONES: u32 = 100_000;

/// How far the numbers of one agent's phones may lie apart: it keeps a little memory for each number between them.
pub const WIDEST: u32 = 1_000_000;

/// Most calls of one `call` message.
pub const MOST_CALLS: usize = 10_000;

/// How often the controller says at least something (a WebSocket ping), and agents do (a report).
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// Who has said nothing for so long is gone.
pub const SILENCE: Duration = Duration::from_secs(5);

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// First of all, and again after each reconnection.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// What people call it. No two agents have the same.
        name: String,
        /// How many phones it can play.
        most_phones: u32,
        /// The run that its counts are of; `null`: it has had none.
        run: Option<u64>,
        /// Phones that are registered.
        registered: u32,
        /// Calls that have begun and not ended.
        in_progress: u64,
    },
    /// The calls of a batch have been given to their phones.
    Begun {
        /// Number of the batch.
        batch: u64,
    },
    /// What has happened: several times a second while there is news, and once a second anyhow.
    Report(Box<AgentReport>),
}

/// What has happened at an agent. Counts are those since the run began, or since phones were told to register; delays are
/// those since the last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The run that calls are counted of.
    pub run: Option<u64>,
    /// Number of the [`FromController::Register`] that the next two are of.
    pub registration: Option<u64>,
    /// Phones that are registered.
    pub registered: u32,
    /// Registrations that failed, by status code or reason.
    #[serde(default)]
    pub unregistered: BTreeMap<String, u64>,
    /// Calls that have begun and not ended, of whatever run.
    pub in_progress: u64,
    /// Calls that the agent was told to begin.
    pub commanded: u64,
    /// Calls that were answered with a 2xx.
    pub answered: u64,
    /// Calls that have ended as they should, with the answer of their BYE.
    pub succeeded: u64,
    /// Calls that have failed, by status code or reason.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Messages that were no SIP.
    pub nonsense: u64,
    /// Messages that nobody waited for, or not any more.
    pub unexpected: u64,
    /// Phones for which the server has contacts of others.
    #[serde(default)]
    pub shared_registrations: u64,
    /// Messages to phones that the kernel dropped, and messages of phones that could not be sent.
    pub not_carried: u64,
    /// Session request delay (RFC 6076 section 4.3), INVITE to the first response that says that somebody was found: pairs of microseconds and how often.
    #[serde(default)]
    pub session_request_delay: Distribution,
    /// From when the agent had read a call's command to the first response that says that somebody was found, the challenge included.
    #[serde(default)]
    pub response_delay: Distribution,
    /// From when the agent had read a call's command to its 200.
    #[serde(default)]
    pub answer_delay: Distribution,
    /// Registration request delay (RFC 6076 section 4.1).
    #[serde(default)]
    pub registration_delay: Distribution,
    /// From when the agent had read a call's command to its INVITE.
    #[serde(default)]
    pub lateness: Distribution,
}

/// Values and how often each came.
pub type Distribution = Vec<(u64, u64)>;

/// What a controller says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromController {
    /// The agent is not taken. It may try again later.
    Refused {
        /// Why.
        reason: String,
    },
    /// Play these phones, and register them.
    Register {
        /// For reports.
        registration: u64,
        /// Their numbers, ascending.
        phones: Vec<u32>,
        /// How many registrations begin in a second.
        per_second: u32,
    },
    /// A run begins: count from here.
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

/// Counts beyond which an agent talks nonsense.
const PLAUSIBLE: u64 = 1 << 40;

impl AgentReport {
    /// Whether its counts can be: sums of those of many agents do not overflow.
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
    /// The message.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl FromController {
    /// The message.
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
        let phones = (0..MOST_PHONES)
            .map(|phone| 4_000_000_000 + phone)
            .collect();
        let message = FromController::Register {
            registration: 1,
            phones,
            per_second: 200,
        };
        assert!(message.to_json().len() <= LARGEST_MESSAGE);
    }
}
