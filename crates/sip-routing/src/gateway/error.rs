//! What is wrong with the description of a gateway or a group.

use super::{MAX_GATEWAYS, MAX_GROUPS, MAX_MEMBERS, RewritingProblem};
use std::time::Duration;

/// What is wrong with the description of a gateway or a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The name of a gateway.
    #[error("gateway `{name}`: a name has 1 to 128 visible ASCII characters, without spaces")]
    GatewayName {
        /// The name.
        name: Box<str>,
    },
    /// The name of a group.
    #[error("gateway group `{name}`: a name has 1 to 128 visible ASCII characters, without spaces")]
    GroupName {
        /// The name.
        name: Box<str>,
    },
    /// Two gateways with one name.
    #[error("gateway `{name}` is declared twice; give each gateway a name of its own")]
    DuplicateGateway {
        /// The name.
        name: Box<str>,
    },
    /// Two groups with one name.
    #[error("gateway group `{name}` is declared twice; give each group a name of its own")]
    DuplicateGroup {
        /// The name.
        name: Box<str>,
    },
    /// No host.
    #[error("gateway `{name}` has no host; allowed: a domain name or an address")]
    NoHost {
        /// The gateway.
        name: Box<str>,
    },
    /// A port of 0.
    #[error(
        "gateway `{name}` has port 0; allowed: 1 to 65535, or none for the port of the protocol"
    )]
    NoPort {
        /// The gateway.
        name: Box<str>,
    },
    /// A number out of range.
    #[error("gateway `{name}`: {setting} is {value}; allowed: {least} to {most}")]
    Number {
        /// The gateway.
        name: Box<str>,
        /// What the number is.
        setting: &'static str,
        /// The number.
        value: u64,
        /// The smallest allowed number.
        least: u64,
        /// The largest allowed number.
        most: u64,
    },
    /// A duration out of range.
    #[error("gateway `{name}`: {setting} is {value:?}; allowed: {least:?} to {most:?}")]
    Duration {
        /// The gateway.
        name: Box<str>,
        /// What the duration is.
        setting: &'static str,
        /// The duration.
        value: Duration,
        /// The shortest allowed duration.
        least: Duration,
        /// The longest allowed duration.
        most: Duration,
    },
    /// A maximum of 0 calls.
    #[error(
        "gateway `{name}`: a maximum of 0 calls; allowed: 1 or more. To take a gateway out, disable it"
    )]
    NoCalls {
        /// The gateway.
        name: Box<str>,
    },
    /// No response to a probe counts as an answer.
    #[error(
        "gateway `{name}` could never be active: no response to a probe counts as an answer; allowed: 1 or more codes from 200 to 699"
    )]
    NoProbeAnswers {
        /// The gateway.
        name: Box<str>,
    },
    /// A code that cannot fail over.
    #[error(
        "gateway `{name}` would fail over on {status}; allowed: 300 to 599. A 2xx ends the search, and a 6xx speaks for the callee everywhere"
    )]
    FailoverCode {
        /// The gateway.
        name: Box<str>,
        /// The first such code.
        status: u16,
    },
    /// A rewriting of numbers and identities that is not possible.
    #[error("gateway `{name}`: {problem}")]
    Rewriting {
        /// The gateway.
        name: Box<str>,
        /// What is wrong with it.
        problem: RewritingProblem,
    },
    /// A group without members.
    #[error("gateway group `{group}` has no members; allowed: 1 to {MAX_MEMBERS}")]
    EmptyGroup {
        /// The group.
        group: Box<str>,
    },
    /// A group with too many members.
    #[error(
        "gateway group `{group}` has {count} members; allowed: 1 to {MAX_MEMBERS}. Split it into groups"
    )]
    TooManyMembers {
        /// The group.
        group: Box<str>,
        /// How many it has.
        count: usize,
    },
    /// A member that is no gateway.
    #[error(
        "gateway group `{group}` names `{gateway}`, which is not declared; declare the gateway, or remove the member"
    )]
    UnknownMember {
        /// The group.
        group: Box<str>,
        /// The member.
        gateway: Box<str>,
    },
    /// A member that is listed twice.
    #[error(
        "gateway group `{group}` lists `{gateway}` twice; list it once, with the sum of the weights"
    )]
    DuplicateMember {
        /// The group.
        group: Box<str>,
        /// The member.
        gateway: Box<str>,
    },
    /// A weight out of range.
    #[error(
        "gateway group `{group}`: `{gateway}` has weight {weight}; allowed: 1 to 1000. To take a gateway out, disable it"
    )]
    Weight {
        /// The group.
        group: Box<str>,
        /// The member.
        gateway: Box<str>,
        /// The weight.
        weight: u16,
    },
    /// Too many gateways.
    #[error("{count} gateways are declared; allowed: up to {MAX_GATEWAYS}")]
    TooManyGateways {
        /// How many are declared.
        count: usize,
    },
    /// Too many groups.
    #[error("{count} gateway groups are declared; allowed: up to {MAX_GROUPS}")]
    TooManyGroups {
        /// How many are declared.
        count: usize,
    },
}
