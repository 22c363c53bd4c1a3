//! A long call goes on while every process that knows it is killed and replaced.

use crate::calls::register;
use crate::members::{Fleet, Member, Members as _};
use crate::records::Records;
use interop::{Scenario, header, wait_until};

/// The node that has the dialog, once it and the store agree on it.
fn owner(fleet: &Fleet) -> usize {
    let mut owner = None;
    wait_until("one node has the dialog, and the store knows it", || {
        let nodes = 0..fleet.nodes.len();
        let owners: Vec<usize> = nodes
            .filter(|place| fleet.dialogs(*place, "") > 0)
            .collect();
        owner = match owners[..] {
            [place] => {
                let node = &fleet.nodes[place];
                let is_connected = node.count("tandem_fleet_dialogs_connected", "") == 1;
                let is_written = node.count("tandem_dialogs_unsaved", "") == 0;
                (is_connected && is_written).then_some(place)
            }
            _ => None,
        };
        owner.is_some()
    });
    owner.expect("found")
}

#[test]
fn a_long_call_outlives_its_node_its_edge_and_the_store() {
    let mut fleet = Fleet::start(3);
    let bob = Scenario::new("answer_long").at(fleet.edges[0].address());
    let bob = bob.start(&fleet.nodes[0]);
    register(&fleet, 0, "bob", &bob);
    let alice = Scenario::new("call_long").at(fleet.edges[0].address());
    let alice = alice.start(&fleet.nodes[0]);
    bob.wait_for("ACK");

    // Its node is killed, and a re-INVITE reaches another one.
    let first = owner(&fleet);
    fleet.kill(Member::Node(first));
    alice.cue();
    wait_until("the re-INVITE is acknowledged", || {
        bob.messages().received("ACK").len() == 2
    });
    assert_ne!(owner(&fleet), first);
    fleet.restart(Member::Node(first));
    fleet.wait_until_whole();

    // Its edge is killed; a refresh waits until it is back.
    fleet.kill(Member::Edge(0));
    alice.cue();
    fleet.restart(Member::Edge(0));
    wait_until("the refresh is answered", || {
        let messages = alice.messages();
        let answers = messages.received("SIP/2.0 200");
        let mut numbers = answers.iter().map(|answer| header(answer, "CSeq"));
        numbers.any(|number| number == ["4 UPDATE"])
    });
    fleet.wait_until_whole();

    // Redis is killed and comes back empty, and then the node that has the call is killed.
    let last = owner(&fleet);
    let written = |fleet: &Fleet| fleet.nodes[last].count("tandem_fleet_dialogs_written_total", "");
    let before = written(&fleet);
    fleet.kill(Member::Redis);
    fleet.restart(Member::Redis);
    wait_until("the store has the dialog again", || {
        written(&fleet) > before
    });
    fleet.kill(Member::Node(last));
    alice.cue();
    alice.finish();
    let bob = bob.finish();
    fleet.restart(Member::Node(last));

    assert_eq!(bob.messages.received("BYE").len(), 1);
    Records::of(&fleet, 1).are_of_exactly(1);
    wait_until("no dialog is left", || {
        (0..3).all(|place| fleet.dialogs(place, "") == 0)
    });
}
