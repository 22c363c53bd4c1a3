//! What the configuration says about gateways and groups, before it is checked.

use super::registration::RegistrationDescription;
use super::{FailoverRules, Rewriting, StatusSet, WaitRules};
use crate::limit::Rate;
use sip_message::digest::Credential;
use sip_transport::selection::Destination;
use std::time::Duration;

/// A gateway as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayDescription {
    /// Its identity: 1 to 128 visible ASCII characters.
    pub name: Box<str>,
    /// Where it is, located by the rules of RFC 3263.
    pub destination: Destination,
    /// The maximum number of calls at a time; `None` for no maximum.
    pub max_calls: Option<u32>,
    /// New calls per second; `None` for no maximum.
    pub rate: Option<Rate>,
    /// When it goes inactive, and when it returns.
    pub health: HealthRules,
    /// After which outcomes a call tries the next member.
    pub failover: FailoverRules,
    /// What answers its challenges.
    pub credential: Option<Credential>,
    /// The registration that it requires.
    pub registration: Option<RegistrationDescription>,
    /// Whether it is in the same trust domain (RFC 3325): it may see identities that callers withhold, and its own are believed.
    pub trusted: bool,
    /// How numbers and identities are written for it.
    pub rewriting: Rewriting,
    /// How long a call waits for it.
    pub wait: WaitRules,
}

impl GatewayDescription {
    /// A gateway with the default rules and no maximum.
    pub fn new(name: &str, destination: Destination) -> Self {
        Self {
            name: name.into(),
            destination,
            max_calls: None,
            rate: None,
            health: HealthRules::default(),
            failover: FailoverRules::default(),
            credential: None,
            registration: None,
            trusted: false,
            rewriting: Rewriting::default(),
            wait: WaitRules::default(),
        }
    }
}

/// When a gateway goes inactive, and when it returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRules {
    /// Whether the gateway is probed with OPTIONS. Otherwise an inactive one gets one call in each `interval` as a trial.
    pub probe: bool,
    /// The time between two probes: 1 second to 1 hour.
    pub interval: Duration,
    /// How long a probe waits for its final response: 100 ms to `interval`. One probe at a time is therefore under way.
    pub timeout: Duration,
    /// Consecutive misses until the gateway goes inactive: 1 to 100.
    pub misses: u8,
    /// Consecutive answers until an inactive gateway returns: 1 to 100.
    pub answers: u8,
    /// Final responses to a probe that count as an answer.
    pub probe_answers: StatusSet,
    /// What a failed call counts.
    pub weights: MissWeights,
    /// The longest rest that a 503 with `Retry-After` gets: up to 1 hour. Zero: `Retry-After` is ignored.
    pub longest_rest: Duration,
}

impl HealthRules {
    /// Any final response except 408 and 503.
    ///
    /// A server that is alive may refuse OPTIONS with 401, 403, 404, 405, 483 or 501, and it need not know a header field of ours.
    /// 408 and 503 are what a proxy in front of a dead server answers for it, and what an overloaded server says.
    pub const PROBE_ANSWERS: StatusSet = StatusSet::EMPTY
        .with(200, 699)
        .without(408, 408)
        .without(503, 503);
}

impl Default for HealthRules {
    fn default() -> Self {
        Self {
            probe: true,
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            misses: 5,
            answers: 5,
            probe_answers: Self::PROBE_ANSWERS,
            weights: MissWeights::default(),
            longest_rest: Duration::from_secs(300),
        }
    }
}

/// How many misses a failed call counts: 0 to 100 each. With 0, it says nothing about the gateway.
///
/// All are 1 by default, as for a probe. A timeout is not heavier, because a gateway under load can lose one INVITE as easily as one
/// OPTIONS. Set `unavailable` to 0 for a gateway that answers 503 when only the dialed number is out of service: otherwise a caller who
/// repeats such a number could take it out while no other call succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissWeights {
    /// No response other than 100 in time.
    pub timeout: u8,
    /// The request could not be sent: connection refused or lost, ICMP error.
    pub transport_error: u8,
    /// A 503.
    pub unavailable: u8,
}

impl Default for MissWeights {
    fn default() -> Self {
        Self {
            timeout: 1,
            transport_error: 1,
            unavailable: 1,
        }
    }
}

/// A group of gateways as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its identity: 1 to 128 visible ASCII characters.
    pub name: Box<str>,
    /// How a call chooses among members of one priority.
    pub algorithm: Algorithm,
    /// Whether its members are tried while no gateway is up.
    pub all_inactive: AllInactive,
    /// 1 to 64 members.
    pub members: Vec<MemberDescription>,
}

impl GroupDescription {
    /// A group without members, with the default algorithm.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            algorithm: Algorithm::default(),
            all_inactive: AllInactive::default(),
            members: Vec::new(),
        }
    }

    /// Adds a member with weight 1 and priority 0.
    #[must_use]
    pub fn member(mut self, gateway: &str) -> Self {
        self.members.push(MemberDescription {
            gateway: gateway.into(),
            weight: 1,
            priority: 0,
        });
        self
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// The name of the gateway.
    pub gateway: Box<str>,
    /// Its share among members of one priority: 1 to 1,000.
    pub weight: u16,
    /// Lower numbers first. The next priority gets a call only if no member of this one takes it.
    pub priority: u16,
}

/// How a call chooses among members of one priority. All algorithms follow the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Weighted rendezvous hash of the Call-ID: a member that joins or leaves moves only its own share of the calls.
    #[default]
    Rendezvous,
    /// In turn. With all members up, each gets exactly its weight in each round.
    RoundRobin,
    /// Randomly, by a hash of the Call-ID. A member that joins or leaves moves calls of all others.
    Random,
    /// The member with the fewest calls relative to its weight.
    LeastCalls,
}

impl Algorithm {
    /// Whether the Call-ID alone chooses among members of one priority, and their number does not matter.
    pub const fn is_by_call(self) -> bool {
        matches!(self, Self::Rendezvous)
    }
}

/// What happens to calls while no gateway is up, in this group and in the others that the call may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllInactive {
    /// Inactive and resting members are tried anyway: a chance is better than a certain failure, and probes can be wrong about all
    /// gateways at once, for example when the own network was away. Disabled members stay out.
    #[default]
    Try,
    /// No member is chosen. The caller gets 503 without waiting for timeouts.
    Refuse,
}
