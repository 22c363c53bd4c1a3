//! The member set of a fleet: which nodes there are, and which of them take new calls. Controller and edges share it.
//!
//! A [`MemberSet`] is valid by construction: it has at least one node, and no two nodes with the same instance, id, name or address. An edge
//! therefore never has to handle an empty set. JSON that describes another set is an error.

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hasher as _;
use std::net::SocketAddr;

/// Longest instance or name, in bytes.
pub const LONGEST_NAME: usize = 128;
/// Largest number of nodes in a set.
pub const MOST_MEMBERS: usize = 1_024;
/// Longest member set in JSON, in bytes. A reader of sets needs no more.
pub const LONGEST_SET: usize = 1 << 20;

/// The 32-bit id of an instance on the wire: the low half of `SipHash` 2-4 of its bytes, with the key 0.
///
/// The hash needs no secret: what carries an id is sealed as a whole. The key must never change, because dialogs outlive processes.
pub fn instance_id(instance: &str) -> u32 {
    let mut hasher = SipHasher24::new_with_keys(0, 0);
    hasher.write(instance.as_bytes());
    hasher.finish() as u32
}

/// Whether a node takes new calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It does.
    Active,
    /// It only serves the calls that it has.
    Draining,
}

impl MemberState {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Active, Self::Draining];

    /// The word in JSON and in labels of metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
        }
    }
}

/// How an edge may reach a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberTransport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// A node of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What edges, dialogs and bindings refer to: in Kubernetes the UID of the pod.
    pub instance: String,
    /// The name for people: in Kubernetes that of the pod.
    pub name: String,
    /// Where it takes SIP from edges.
    pub address: SocketAddr,
    /// Whether it takes new calls.
    #[serde(default = "active")]
    pub state: MemberState,
    /// The transports of `address`.
    #[serde(default = "both")]
    pub transports: Vec<MemberTransport>,
    /// Where its admin interface is. Edges ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<SocketAddr>,
}

const fn active() -> MemberState {
    MemberState::Active
}

fn both() -> Vec<MemberTransport> {
    vec![MemberTransport::Udp, MemberTransport::Tcp]
}

impl Member {
    /// An active node that an edge reaches over UDP and TCP.
    pub fn new(instance: impl Into<String>, name: impl Into<String>, address: SocketAddr) -> Self {
        Self {
            instance: instance.into(),
            name: name.into(),
            address,
            state: active(),
            transports: both(),
            admin: None,
        }
    }

    /// Its id on the wire.
    pub fn id(&self) -> u32 {
        instance_id(&self.instance)
    }

    /// Checks this node alone.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn check(&self) -> Result<(), InvalidMembers> {
        for (field, text) in [("instance", &self.instance), ("name", &self.name)] {
            let is_plain =
                |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'?' | b'#');
            if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(is_plain) {
                return Err(InvalidMembers::Text {
                    field,
                    text: text.escape_debug().take(2 * LONGEST_NAME).collect(),
                });
            }
        }
        let is_unusable =
            |address: SocketAddr| address.port() == 0 || address.ip().is_unspecified();
        match [Some(self.address), self.admin]
            .into_iter()
            .flatten()
            .find(|it| is_unusable(*it))
        {
            Some(address) => Err(InvalidMembers::Unreachable { address }),
            None if self.transports.is_empty() => Err(InvalidMembers::NoTransport {
                instance: self.instance.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// Why nodes are no member set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidMembers {
    /// There is no node.
    Empty,
    /// There are more nodes than [`MOST_MEMBERS`].
    TooMany(usize),
    /// Instance or name is empty, too long or has other characters than visible ASCII without `/`, `?` and `#`.
    Text {
        /// `instance` or `name`.
        field: &'static str,
        /// Its value.
        text: String,
    },
    /// Nobody can send to this address.
    Unreachable {
        /// The address.
        address: SocketAddr,
    },
    /// The node has no transport.
    NoTransport {
        /// Its instance.
        instance: String,
    },
    /// Two nodes have the same value.
    Twice {
        /// What it is: `instance`, `id`, `name` or `address`.
        field: &'static str,
        /// The value.
        value: String,
        /// The instances of both.
        instances: [String; 2],
    },
    /// The text is no JSON of a member set.
    Json(String),
}

impl fmt::Display for InvalidMembers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("the set has no nodes"),
            Self::TooMany(count) => write!(
                formatter,
                "the set has {count} nodes; at most {MOST_MEMBERS} are allowed"
            ),
            Self::Text { field, text } => write!(
                formatter,
                "`{field}` = \"{text}\": must be 1 to {LONGEST_NAME} visible ASCII characters without spaces, /, ? and #"
            ),
            Self::Unreachable { address } => write!(
                formatter,
                "the address {address} cannot be reached: it needs an IP address and a port other than 0"
            ),
            Self::NoTransport { instance } => {
                write!(formatter, "the node {instance} has no transport")
            }
            Self::Twice {
                field,
                value,
                instances: [one, other],
            } => write!(
                formatter,
                "the nodes {one} and {other} have the same {field} {value}"
            ),
            Self::Json(problem) => write!(formatter, "not a member set: {problem}"),
        }
    }
}

impl std::error::Error for InvalidMembers {}

/// The nodes of a fleet at one moment; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct MemberSet {
    epoch: String,
    generation: u64,
    nodes: Vec<Member>,
}

/// A set as JSON describes it.
#[derive(Deserialize)]
struct Unchecked {
    #[serde(default)]
    epoch: String,
    generation: u64,
    nodes: Vec<Member>,
}

impl TryFrom<Unchecked> for MemberSet {
    type Error = InvalidMembers;

    fn try_from(set: Unchecked) -> Result<Self, InvalidMembers> {
        Self::new(set.epoch, set.generation, set.nodes)
    }
}

impl MemberSet {
    /// Checks the nodes, and sorts them by instance.
    ///
    /// `epoch` names one start of a controller; it is empty in a file that somebody writes. `generation` counts the sets of an epoch.
    ///
    /// # Errors
    /// Why these nodes are no set.
    pub fn new(
        epoch: impl Into<String>,
        generation: u64,
        mut nodes: Vec<Member>,
    ) -> Result<Self, InvalidMembers> {
        check(&nodes)?;
        nodes.sort_by(|one, other| one.instance.cmp(&other.instance));
        Ok(Self {
            epoch: epoch.into(),
            generation,
            nodes,
        })
    }

    /// Reads a set.
    ///
    /// # Errors
    /// The text is no JSON of a set, or the set is invalid.
    pub fn parse(json: &[u8]) -> Result<Self, InvalidMembers> {
        serde_json::from_slice(json).map_err(|error| InvalidMembers::Json(error.to_string()))
    }

    /// The set as one line of JSON, without the line end.
    pub fn to_json(&self) -> String {
        // Strings, numbers and addresses can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The start of the controller that numbers the generations.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The number of this set in its epoch.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The nodes, sorted by instance; at least one.
    pub fn nodes(&self) -> &[Member] {
        &self.nodes
    }

    /// The node with this instance.
    pub fn node(&self, instance: &str) -> Option<&Member> {
        self.nodes.iter().find(|node| node.instance == instance)
    }

    /// Whether a receiver that has `present` may replace it by this set. In one epoch, only a later generation may. Another epoch is that of a
    /// controller that was started again, whose numbers are not comparable.
    pub fn supersedes(&self, present: &Self) -> bool {
        self.epoch != present.epoch || self.generation > present.generation
    }
}

/// Checks nodes as [`MemberSet::new`] does.
///
/// # Errors
/// As there.
pub fn check(nodes: &[Member]) -> Result<(), InvalidMembers> {
    if nodes.is_empty() {
        return Err(InvalidMembers::Empty);
    }
    if nodes.len() > MOST_MEMBERS {
        return Err(InvalidMembers::TooMany(nodes.len()));
    }
    let mut seen = HashMap::new();
    for node in nodes {
        node.check()?;
        for (field, value) in [
            ("instance", node.instance.clone()),
            ("id", format!("{:08x}", node.id())),
            ("name", node.name.clone()),
            ("address", node.address.to_string()),
        ] {
            if let Some(other) = seen.insert((field, value.clone()), &node.instance) {
                return Err(InvalidMembers::Twice {
                    field,
                    value,
                    instances: [other.clone(), node.instance.clone()],
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
