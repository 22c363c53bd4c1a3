//! The merge alone: nodes that get the same records end with the same bindings, in whatever order and however often the records arrive.
use super::nodes::{Kind, Node};
use crate::fleet_store::outbox::Outgoing;
use proptest::prelude::*;
use std::time::Duration;

/// What happens at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    Register {
        node: usize,
        user: u8,
        host: u8,
    },
    Remove {
        node: usize,
        user: u8,
    },
    /// The node gets all records of another one.
    Hear {
        node: usize,
        from: usize,
    },
}

const NODES: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    let node = || 0..NODES;
    prop_oneof![
        4 => (node(), 0..3_u8, 1..3_u8).prop_map(|(node, user, host)| Event::Register { node, user, host }),
        2 => (node(), 0..3_u8).prop_map(|(node, user)| Event::Remove { node, user }),
        1 => (node(), node()).prop_map(|(node, from)| Event::Hear { node, from }),
    ]
}

fn kind(number: usize) -> Kind {
    Kind {
        // Clocks up to two minutes apart.
        ahead: Duration::from_secs(60 * number as u64),
        most_bindings: 100,
        ..Kind::default()
    }
}

fn deliver<'r>(node: &Node, records: impl IntoIterator<Item = &'r Outgoing>) {
    for record in records {
        let received = node
            .fleet
            .receive(&record.field, &record.value, node.fleet.now(), |_| true);
        assert!(received.is_some(), "readable");
    }
}

/// Carries out the events. Returns all records that were written.
fn play(events: &[Event]) -> Vec<Outgoing> {
    let nodes: Vec<Node> = (0..NODES)
        .map(|number| Node::alone(&format!("node-{number}"), kind(number)))
        .collect();
    let mut written: Vec<Vec<Outgoing>> = vec![Vec::new(); NODES];
    for (cseq, event) in (1..).zip(events) {
        match *event {
            Event::Register { node, user, host } => {
                nodes[node].register_contact(
                    &format!("user{user}"),
                    &format!("192.0.2.{host}"),
                    cseq,
                );
            }
            Event::Remove { node, user } => {
                let fleet = &nodes[node].fleet;
                let address = super::nodes::address(&format!("user{user}")).into_boxed_slice();
                fleet.locations().remove(&address, fleet.now());
                fleet.outbox.add(fleet.stamp(&[address], fleet.now()), 0);
            }
            Event::Hear { node, from } => {
                let records = written[from].clone();
                deliver(&nodes[node], &records);
            }
        }
        for (node, written) in nodes.iter().zip(&mut written) {
            written.extend(node.fleet.outbox.take().records);
            node.fleet.outbox.settle(Vec::new(), false);
        }
    }
    written.concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_merge_is_commutative_associative_and_idempotent(
        events in proptest::collection::vec(event(), 1..40),
        order in any::<u64>(),
    ) {
        let records = play(&events);
        let first = Node::alone("first", kind(0));
        deliver(&first, &records);
        // In another order, some of them twice.
        let mut shuffled: Vec<&Outgoing> = records.iter().chain(records.iter().step_by(2)).collect();
        let hasher = |record: &&Outgoing| (record.version.time.word() ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        shuffled.sort_by_key(hasher);
        let second = Node::alone("second", kind(0));
        deliver(&second, shuffled);
        prop_assert_eq!(first.everything(), second.everything());
        // Two halves that were merged before: a third node gets the result of each.
        let third = Node::alone("third", kind(0));
        let (left, right) = records.split_at(records.len() / 2);
        deliver(&third, right);
        deliver(&third, left);
        deliver(&third, &records);
        prop_assert_eq!(first.everything(), third.everything());
    }
}

#[test]
fn a_record_from_a_clock_that_is_hours_ahead_is_refused() {
    let ahead = Kind {
        ahead: Duration::from_secs(7_200),
        ..Kind::default()
    };
    let (wrong, right) = (
        Node::alone("wrong", ahead),
        Node::alone("right", Kind::default()),
    );
    wrong.register("alice", 1);
    let records = wrong.fleet.outbox.take().records;
    deliver(&right, &records);
    assert_eq!(right.everything().len(), 0);
    assert_eq!(right.ignored(crate::fleet_store::Ignored::Ahead), 1);
}

#[test]
fn a_record_without_room_is_counted_and_taken_over_later() {
    let small = Kind {
        most_bindings: 1,
        ..Kind::default()
    };
    let (a, b) = (Node::alone("a", Kind::default()), Node::alone("b", small));
    b.register("bob", 1);
    a.register("alice", 1);
    let records = a.fleet.outbox.take().records;
    deliver(&b, &records);
    assert_eq!(b.ignored(crate::fleet_store::Ignored::NoRoom), 1);
    b.fleet
        .locations()
        .remove(b"bob@example.org", b.fleet.now());
    deliver(&b, &records);
    assert_eq!(b.found("alice"), [1]);
}
