//! What a new configuration takes over.

use crate::setup::{
    START, all, build, choose, chosen, descriptions, destination, gateway, make_inactive, weighted,
};
use sip_routing::gateway::{Algorithm, Descriptions, Gateways, Outcome, State};

fn reload(descriptions: Descriptions, previous: &Gateways) -> Gateways {
    Gateways::new(descriptions, Some(previous)).expect("good descriptions")
}

#[test]
fn state_and_statistics_stay_with_the_name() {
    let before = build(descriptions(&["a", "b", "c"]));
    let choice = choose(all(&before), 1).expect("one");
    let name = choice.gateway.name();
    choice.gateway.call_ended(Outcome::status(200), START);
    for other in ["a", "b", "c"].into_iter().filter(|it| *it != name) {
        make_inactive(gateway(&before, other), START);
    }
    // Another order, another maximum, other rules.
    let mut changed = descriptions(&["c", "new", "b", "a"]);
    for gateway in &mut changed.gateways {
        gateway.max_calls = Some(1);
        gateway.health.misses = 9;
    }
    let after = reload(changed, &before);
    for gateway in after.gateways() {
        let state = match gateway.name() {
            "new" => State::Unprobed,
            it if it == name => State::Active,
            _ => State::Inactive,
        };
        assert_eq!(gateway.state(START), state, "{}", gateway.name());
    }
    let view = gateway(&after, name).view(START);
    assert_eq!((view.live_calls, view.statistics.answered), (1, 1));
    // The call holds a place of the new maximum, and gives it back.
    drop(choice);
    assert_eq!(gateway(&after, name).live_calls(), 0);
    // The old configuration sees the same, as long as workers use it.
    gateway(&after, name).disable(START);
    assert_eq!(gateway(&before, name).state(START), State::Disabled);
    let indices = after.gateways().iter().map(|it| it.index());
    assert!(indices.eq(0..4));
}

#[test]
fn another_destination_is_another_health_but_the_same_statistics() {
    let before = build(descriptions(&["gw"]));
    make_inactive(gateway(&before, "gw"), START);
    let place = gateway(&before, "gw").occupy();
    let mut moved = descriptions(&["gw"]);
    moved.gateways[0].destination = destination("192.0.2.9");
    let after = reload(moved.clone(), &before);
    assert_eq!(gateway(&after, "gw").state(START), State::Unprobed);
    assert_eq!(gateway(&before, "gw").state(START), State::Inactive);
    let view = gateway(&after, "gw").view(START);
    assert_eq!((view.live_calls, view.statistics.state_changes), (1, 1));
    drop(place);
    // What the operator said stays, whatever the destination.
    gateway(&after, "gw").disable(START);
    let back = reload(descriptions(&["gw"]), &after);
    assert_eq!(gateway(&back, "gw").state(START), State::Disabled);
}

#[test]
fn a_name_that_was_gone_begins_anew() {
    let first = build(descriptions(&["a", "b"]));
    let place = gateway(&first, "b").occupy();
    let without = reload(descriptions(&["a"]), &first);
    assert!(without.gateway("b").is_none());
    drop(first);
    let again = reload(descriptions(&["a", "b"]), &without);
    assert_eq!(gateway(&again, "b").live_calls(), 0);
    drop(place);
    assert_eq!(gateway(&again, "b").live_calls(), 0);
}

#[test]
fn round_robin_goes_on_where_it_was() {
    let members = [("a", 1), ("b", 1), ("c", 1)];
    let before = build(weighted(Algorithm::RoundRobin, &members));
    assert_eq!(chosen(all(&before), 1), "a");
    let after = reload(weighted(Algorithm::RoundRobin, &members), &before);
    assert_eq!(chosen(all(&after), 2), "b");
}

#[test]
fn a_rejected_configuration_changes_nothing() {
    let before = build(descriptions(&["a", "b"]));
    make_inactive(gateway(&before, "a"), START);
    let mut bad = descriptions(&["a", "b"]);
    bad.gateways[0].destination = destination("192.0.2.9");
    bad.groups[0].members.clear();
    assert!(Gateways::new(bad, Some(&before)).is_err());
    assert_eq!(gateway(&before, "a").state(START), State::Inactive);
    assert_eq!(chosen(all(&before), 1), "b");
}
