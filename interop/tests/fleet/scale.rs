//! A fleet gets more nodes and loses them again, and follows its controller.

use crate::calls::{Calls, TALKING, Tally};
use crate::members::{EDGES, Fleet, Member, Members as _};
use crate::records::Records;
use interop::wait_until;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn no_call_fails_while_the_fleet_grows_from_two_nodes_to_five_and_shrinks_to_two() {
    let mut fleet = Fleet::start(2);
    let duration = Duration::from_secs(30);
    let calls: Vec<Calls> = (0..EDGES)
        .map(|edge| Calls::start(&fleet, edge, "udp", 10, duration))
        .collect();
    sleep(TALKING);
    for _ in 0..3 {
        fleet.add_node();
    }
    fleet.wait_until_whole();
    sleep(TALKING);
    let (leaving, staying) = ([0, 2, 3], [1, 4]);
    // They have calls, which end as their parties want.
    wait_until("each node has calls", || {
        (0..5).all(|place| fleet.dialogs(place, "confirmed") > 0)
    });
    fleet.drain(&leaving);
    wait_until("the calls of the draining nodes are over", || {
        leaving.iter().all(|place| fleet.dialogs(*place, "") == 0)
    });
    for place in leaving {
        fleet.remove(place);
    }
    fleet.wait_until_these(&staying);
    let tally = calls.into_iter().map(Calls::finish);
    let tally = tally.fold(Tally::default(), Tally::and);
    println!("{tally:?}");
    assert_eq!(tally.failed, 0);
    Records::of(&fleet, tally.attempted).are_of_exactly(tally.attempted);
    wait_until("no dialog is left", || {
        staying.iter().all(|place| fleet.dialogs(*place, "") == 0)
    });
}

#[test]
fn an_edge_that_starts_while_the_controller_is_away_follows_it_later() {
    let mut fleet = Fleet::start(2);
    fleet.kill(Member::Controller);
    fleet.kill(Member::Edge(0));
    fleet.restart(Member::Edge(0));
    fleet.wait_until_whole();
    let tally = Calls::start(&fleet, 0, "udp", 10, Duration::from_secs(1)).finish();
    assert_eq!((tally.attempted, tally.failed), (10, 0));
    fleet.restart(Member::Controller);
    fleet.drain(&[1]);
}
