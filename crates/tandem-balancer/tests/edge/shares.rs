//! Which calls move when the set of nodes changes: counted over a thousand calls for each node.

use crate::support::{Bench, one_sided, request, udp};
use sip_message::HeaderName;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_balancer::{Control, Member, Members};

const ALICE: &str = "203.0.113.7:5060";
const NODES: usize = 4;
const CALLS: usize = 1_000 * NODES;

fn address(number: usize) -> SocketAddr {
    format!("10.0.1.{number}:5060").parse().expect("an address")
}

/// An edge, its nodes, and the calls that it has seen.
struct Fleet {
    bench: Bench,
    members: Arc<Members>,
    /// For each call, its node and the Route of its requests.
    calls: Vec<(SocketAddr, String)>,
}

impl Fleet {
    /// Nodes 1 to 4, with calls in progress.
    fn new() -> Self {
        let bench = Bench::new(one_sided());
        let members = Arc::clone(&bench.members);
        let mut fleet = Self {
            bench,
            members,
            calls: Vec::new(),
        };
        fleet.change(1..=NODES, &[]);
        let call = |number| fleet.bench.one(udp(ALICE), &invite(number));
        let sent: Vec<_> = (0..CALLS).map(call).collect();
        let calls = sent.iter().map(|invite| {
            let route = invite.values(HeaderName::RecordRoute).join(", ");
            (invite.flow.remote, route)
        });
        fleet.calls = calls.collect();
        fleet
    }

    /// Gives the edge another set. All of its nodes answer probes.
    fn change(&mut self, numbers: impl IntoIterator<Item = usize>, draining: &[usize]) {
        let member = |number: usize| Member {
            identity: format!("node-{number}"),
            number: number as u32,
            address: address(number),
            has_tcp: false,
            is_draining: draining.contains(&number),
        };
        let list = numbers.into_iter().map(member).collect();
        let members = Members::new(list, &self.bench.settings, 1, Some(&self.members));
        self.members = Arc::new(members.expect("a set"));
        let members = Arc::clone(&self.members);
        self.bench.control(Control::Members(members));
        for probe in self.bench.pass(self.bench.settings.probe_interval) {
            self.bench.receive(probe.flow, &probe.answer(200, ""));
        }
    }

    /// How many calls in progress got their BYE to another node, by the node that they had.
    fn moved_in_progress(&mut self) -> BTreeMap<SocketAddr, usize> {
        let mut moved = BTreeMap::new();
        for (number, (node, route)) in self.calls.iter().enumerate() {
            let route = format!("Route: {route}\r\n");
            let bye = request("BYE", "UDP", ALICE, &call_id(number), &route);
            if self.bench.one(udp(ALICE), &bye).flow.remote != *node {
                *moved.entry(*node).or_default() += 1;
            }
        }
        moved
    }

    /// How many new calls with the same Call-IDs go to another node than before: from which node to which.
    fn moved_new(&mut self) -> BTreeMap<(SocketAddr, SocketAddr), usize> {
        let mut moved = BTreeMap::new();
        for (number, (node, _)) in self.calls.iter().enumerate() {
            let now = self.bench.one(udp(ALICE), &invite(number)).flow.remote;
            if now != *node {
                *moved.entry((*node, now)).or_default() += 1;
            }
        }
        moved
    }

    fn of(&self, node: usize) -> usize {
        let is_there = |(at, _): &&(SocketAddr, String)| *at == address(node);
        self.calls.iter().filter(is_there).count()
    }
}

fn call_id(number: usize) -> String {
    format!("call-{number}")
}

fn invite(number: usize) -> String {
    request("INVITE", "UDP", ALICE, &call_id(number), "")
}

#[test]
fn a_node_that_joins_takes_its_share_of_new_calls_and_no_call_in_progress() {
    let mut fleet = Fleet::new();
    for node in 1..=NODES {
        assert!((900..1_100).contains(&fleet.of(node)), "{}", fleet.of(node));
    }
    fleet.change(1..=NODES + 1, &[]);
    assert_eq!(fleet.moved_in_progress(), BTreeMap::new());
    let moved = fleet.moved_new();
    let all: usize = moved.values().sum();
    assert!((CALLS / 5 - 100..CALLS / 5 + 100).contains(&all), "{all}");
    assert!(moved.keys().all(|(_, to)| *to == address(NODES + 1)));
    // Each of the others gives up its share.
    assert!(
        moved.values().all(|count| (150..250).contains(count)),
        "{moved:?}"
    );
}

#[test]
fn a_node_that_drains_gives_up_its_new_calls_only() {
    let mut fleet = Fleet::new();
    fleet.change(1..=NODES, &[2]);
    assert_eq!(fleet.moved_in_progress(), BTreeMap::new());
    let moved = fleet.moved_new();
    assert!(moved.keys().all(|(from, _)| *from == address(2)));
    assert_eq!(moved.values().sum::<usize>(), fleet.of(2));
    // The others take equal parts.
    assert_eq!(moved.len(), NODES - 1);
    assert!(
        moved.values().all(|count| (270..400).contains(count)),
        "{moved:?}"
    );
}

#[test]
fn a_node_that_leaves_moves_its_own_calls_and_no_others() {
    let mut fleet = Fleet::new();
    fleet.change([1, 2, 4], &[]);
    let own = fleet.of(3);
    assert_eq!(
        fleet.moved_in_progress(),
        BTreeMap::from([(address(3), own)])
    );
    let moved = fleet.moved_new();
    assert!(moved.keys().all(|(from, _)| *from == address(3)));
    assert_eq!(moved.values().sum::<usize>(), own);
}
