//! The nodes behind the edge, and the choice of one of them.

use crate::edge::Settings;
use crate::health::{Health, NodeState};
use rustc_hash::FxHashMap;
use sip_message::home_hash;
use sip_transport::{Flow, Listener, ListenerId, Protocol};
use std::net::SocketAddr;
use std::sync::Arc;

/// One node, as the operator or the controller describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its identity: unique in the fleet for as long as its calls last, such as the UID of a pod.
    pub identity: String,
    /// The number of the identity in branches and Record-Route values. All edges must derive it in the same way.
    pub number: u32,
    /// Where it listens, over UDP.
    pub address: SocketAddr,
    /// Whether it listens there over TCP too. Long messages go over TCP.
    pub has_tcp: bool,
    /// Whether it drains: it keeps its calls and gets no new ones.
    pub is_draining: bool,
}

/// Why a list of nodes is refused. The edge keeps the nodes that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// No node at all. An edge without nodes refuses all calls.
    #[error("the set has no nodes")]
    Empty,
    /// Two nodes have one identity, or identities with the same hash.
    #[error(
        "the nodes {0} and {1} have the same identity, or identities with the same hash: rename one"
    )]
    SameIdentity(String, String),
    /// Two nodes have one address.
    #[error("the nodes {0} and {1} have the same address")]
    SameAddress(String, String),
    /// No UDP listener of the edge can send to the node.
    #[error(
        "no UDP listener leads to the node {0} at {1}: add one with an address of the same family"
    )]
    Unreachable(String, SocketAddr),
}

/// A node of the set.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) member: Member,
    /// Hash of the identity, for the choice by Call-ID.
    spread: u64,
    pub(crate) udp: Flow,
    tcp: Option<Flow>,
    pub(crate) health: Arc<Health>,
}

impl Node {
    /// The flow for a message of this size. Over UDP, longer messages would be fragmented.
    pub(crate) fn flow(&self, size: usize, largest_datagram: usize) -> Flow {
        self.tcp
            .filter(|_| size > largest_datagram)
            .unwrap_or(self.udp)
    }

    fn takes(&self, kind: Kind) -> bool {
        match self.health.state() {
            NodeState::Alive => kind == Kind::Any || !self.member.is_draining,
            NodeState::Unavailable => kind == Kind::Any,
            NodeState::Unknown | NodeState::Dead => false,
        }
    }
}

/// Which nodes may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those that take new calls.
    New,
    /// Also those that drain: the request belongs to a call that may be theirs.
    Any,
}

/// The set of nodes. It never changes; the next set replaces it as a whole.
#[derive(Clone, Debug)]
pub struct Members {
    nodes: Box<[Node]>,
    by_number: FxHashMap<u32, usize>,
    by_address: FxHashMap<SocketAddr, usize>,
}

impl Members {
    /// Builds a set. Nodes that are in `previous` keep their health.
    ///
    /// # Errors
    /// The set is empty or contradictory, or a node cannot be reached from the listeners.
    pub fn new(
        members: Vec<Member>,
        settings: &Settings,
        workers: u16,
        previous: Option<&Self>,
    ) -> Result<Self, MembersError> {
        if members.is_empty() {
            return Err(MembersError::Empty);
        }
        let mut set = Self {
            nodes: Box::default(),
            by_number: FxHashMap::default(),
            by_address: FxHashMap::default(),
        };
        let mut nodes: Vec<Node> = Vec::with_capacity(members.len());
        for member in members {
            let node = node(member, settings, workers, previous)?;
            let both = |place: usize| {
                let other = nodes.get(place).map(|other| other.member.identity.clone());
                (other.unwrap_or_default(), node.member.identity.clone())
            };
            if let Some(place) = set.by_number.insert(node.member.number, nodes.len()) {
                let (one, other) = both(place);
                return Err(MembersError::SameIdentity(one, other));
            }
            let address = canonical(node.member.address);
            if let Some(place) = set.by_address.insert(address, nodes.len()) {
                let (one, other) = both(place);
                return Err(MembersError::SameAddress(one, other));
            }
            nodes.push(node);
        }
        set.nodes = nodes.into();
        Ok(set)
    }

    /// The nodes with their health, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (&Member, &Health)> {
        self.nodes.iter().map(|node| (&node.member, &*node.health))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this number, if it answers.
    pub(crate) fn living(&self, number: u32) -> Option<&Node> {
        let node = self.nodes.get(*self.by_number.get(&number)?)?;
        (node.health.state() != NodeState::Dead).then_some(node)
    }

    /// The node at this address.
    pub(crate) fn at(&self, address: SocketAddr) -> Option<&Node> {
        self.nodes.get(*self.by_address.get(&canonical(address))?)
    }

    /// Whether a node has this address, with any port.
    pub(crate) fn has_address(&self, address: std::net::IpAddr) -> bool {
        let ip = address.to_canonical();
        let is_there = |node: &Node| node.member.address.ip().to_canonical() == ip;
        self.nodes.iter().any(is_there)
    }

    /// Chooses the node for a call by rendezvous (highest random weight). A change of the set moves only the calls of the nodes that left,
    /// and the share of those that came. If no node answers probes, all of them count as answering.
    pub(crate) fn choose(&self, call: u64, kind: Kind) -> Option<&Node> {
        let best = |takes: &dyn Fn(&Node) -> bool| {
            let nodes = self.nodes.iter().filter(|node| takes(node));
            nodes.max_by_key(|node| mix(call ^ node.spread))
        };
        best(&|node| node.takes(kind))
            .or_else(|| best(&|node| node.takes(Kind::Any)))
            .or_else(|| best(&|_| true))
    }
}

fn node(
    member: Member,
    settings: &Settings,
    workers: u16,
    previous: Option<&Members>,
) -> Result<Node, MembersError> {
    let hash = home_hash(member.identity.as_bytes());
    let udp = flow_to(settings, Side::Nodes, Protocol::Udp, member.address);
    let udp =
        udp.ok_or_else(|| MembersError::Unreachable(member.identity.clone(), member.address))?;
    let tcp =
        flow_to(settings, Side::Nodes, Protocol::Tcp, member.address).filter(|_| member.has_tcp);
    let known = previous.and_then(|set| set.nodes.get(*set.by_number.get(&member.number)?));
    let known = known.filter(|known| known.member.address == member.address);
    let health = known.map_or_else(
        || Arc::new(Health::new(workers)),
        |it| Arc::clone(&it.health),
    );
    Ok(Node {
        spread: mix(hash),
        udp,
        tcp,
        health,
        member,
    })
}

/// The side of the edge that a message leaves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Clients,
    Nodes,
}

/// The flow to an address: from a listener of this protocol and family, preferably one of this side and on the same network.
pub(crate) fn flow_to(
    settings: &Settings,
    side: Side,
    protocol: Protocol,
    remote: SocketAddr,
) -> Option<Flow> {
    let remote = canonical(remote);
    let fits = |listener: &Listener| {
        listener.protocol == protocol && listener.address.is_ipv4() == remote.is_ipv4()
    };
    // Lower is better.
    let rank = |(place, listener): &(usize, &Listener)| {
        let is_for_nodes = settings.for_nodes.get(*place) == Some(&true);
        let is_loopback = listener.address.ip().is_loopback();
        let is_near = is_loopback == remote.ip().is_loopback();
        let is_of_side = is_for_nodes == (side == Side::Nodes);
        let is_direct = listener.reaches_directly(remote.ip());
        (!is_of_side, !is_near, !is_direct)
    };
    let listeners = settings.listeners.iter().enumerate();
    let (place, _) = listeners
        .filter(|(_, listener)| fits(listener))
        .min_by_key(rank)?;
    Some(Flow::to(ListenerId(u16::try_from(place).ok()?), remote))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Makes every bit of the result depend on every bit of the number (the finalizer of `SplitMix64`).
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let listeners = [Protocol::Udp, Protocol::Tcp].map(|protocol| Listener {
            protocol,
            address: "192.0.2.1:5060".parse().expect("an address"),
            prefix_length: 24,
            advertised: "192.0.2.1:5060".to_owned(),
            behind_balancer: false,
        });
        Settings::new(listeners.into())
    }

    fn member(number: u8) -> Member {
        Member {
            identity: format!("node-{number}"),
            number: number.into(),
            address: format!("192.0.2.{number}:5060")
                .parse()
                .expect("an address"),
            has_tcp: true,
            is_draining: false,
        }
    }

    fn set(numbers: impl IntoIterator<Item = u8>) -> Members {
        let members = numbers.into_iter().map(member).collect();
        let set = Members::new(members, &settings(), 1, None).expect("a set");
        for node in set.nodes() {
            node.health.set(NodeState::Alive);
        }
        set
    }

    /// The identity of the node of each of 30,000 calls.
    fn homes(set: &Members) -> Vec<String> {
        let call = |number: u64| mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..30_000)
            .map(|number| set.choose(call(number), Kind::New).expect("a node"))
            .map(|node| node.member.identity.clone())
            .collect()
    }

    fn share(homes: &[String], node: &str) -> usize {
        homes.iter().filter(|home| *home == node).count()
    }

    #[test]
    fn calls_spread_evenly_over_the_nodes() {
        let homes = homes(&set(1..=5));
        for number in 1..=5 {
            let share = share(&homes, &format!("node-{number}"));
            assert!((5_700..6_300).contains(&share), "node {number}: {share}");
        }
    }

    #[test]
    fn a_new_node_takes_its_share_and_no_call_moves_between_the_others() {
        let (before, after) = (homes(&set(1..=3)), homes(&set(1..=4)));
        let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
        let (count, all_to_new) = moved.fold((0, true), |(count, all), (_, new)| {
            (count + 1, all && new == "node-4")
        });
        assert!(all_to_new);
        assert!((7_200..7_800).contains(&count), "{count} of 30,000");
    }

    #[test]
    fn a_dead_node_loses_its_calls_and_the_others_keep_theirs() {
        let set = set(1..=3);
        let before = homes(&set);
        set.nodes()[1].health.set(NodeState::Dead);
        let after = homes(&set);
        for (old, new) in before.iter().zip(&after) {
            assert!(if old == "node-2" {
                new != old
            } else {
                new == old
            });
        }
        assert_eq!(
            set.living(set.nodes()[1].member.number)
                .map(|node| node.member.number),
            None
        );
    }

    #[test]
    fn a_draining_node_gets_what_follows_its_calls_but_no_new_ones() {
        let mut members: Vec<Member> = (1..=2).map(member).collect();
        members[0].is_draining = true;
        let set = Members::new(members, &settings(), 1, None).expect("a set");
        set.nodes().iter().for_each(|node| {
            node.health.set(NodeState::Alive);
        });
        assert_eq!(share(&homes(&set), "node-1"), 0);
        let follows = |call| set.choose(call, Kind::Any).expect("a node").member.number;
        assert!((0..64).any(|call| follows(mix(call)) == set.nodes()[0].member.number));
        assert!(set.living(set.nodes()[0].member.number).is_some());
    }

    #[test]
    fn without_a_node_that_answers_all_of_them_are_tried() {
        let set = set(1..=2);
        set.nodes().iter().for_each(|node| {
            node.health.set(NodeState::Dead);
        });
        assert_ne!(share(&homes(&set), "node-1"), 0);
        assert_ne!(share(&homes(&set), "node-2"), 0);
    }

    #[test]
    fn the_next_set_keeps_the_health_of_nodes_that_stay() {
        let before = set(1..=2);
        before.nodes()[0].health.set(NodeState::Dead);
        let mut moved = member(2);
        moved.address = "192.0.2.9:5060".parse().expect("an address");
        let members = vec![member(1), moved, member(3)];
        let after = Members::new(members, &settings(), 1, Some(&before)).expect("a set");
        let states: Vec<NodeState> = after.iter().map(|(_, health)| health.state()).collect();
        let expected = [NodeState::Dead, NodeState::Unknown, NodeState::Unknown];
        assert_eq!(states, expected);
    }

    #[test]
    fn contradictory_sets_are_refused() {
        let refused = |members| Members::new(members, &settings(), 1, None).err();
        assert_eq!(refused(Vec::new()), Some(MembersError::Empty));
        let name = |number: u8| format!("node-{number}");
        assert_eq!(
            refused(vec![member(1), member(1)]),
            Some(MembersError::SameIdentity(name(1), name(1)))
        );
        let twin = Member {
            identity: name(2),
            number: 2,
            ..member(1)
        };
        assert_eq!(
            refused(vec![member(1), twin]),
            Some(MembersError::SameAddress(name(1), name(2)))
        );
        let far = Member {
            address: "[2001:db8::1]:5060".parse().expect("an address"),
            ..member(1)
        };
        assert_eq!(
            refused(vec![far.clone()]),
            Some(MembersError::Unreachable(name(1), far.address))
        );
    }
}
