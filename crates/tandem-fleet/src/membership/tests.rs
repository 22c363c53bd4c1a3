//! Membership under virtual time.
use super::*;

const GRACE: Duration = Duration::from_secs(30);

fn node(instance: &str, port: u16) -> Member {
    Member::new(
        instance,
        format!("name-{instance}"),
        ([10, 0, 0, 1], port).into(),
    )
}

fn listed(origin: &'static str, instances: &[(&str, u16)], now: Instant) -> Membership {
    let mut membership = Membership::new(Some(origin), GRACE, "e".to_owned(), Saved::default());
    let nodes = instances
        .iter()
        .map(|(instance, port)| node(instance, *port));
    membership.update(nodes.collect(), now).expect("valid");
    membership
}

/// The set as `instance state` words, with its generation.
fn seen(membership: &Membership) -> (u64, String) {
    let set = membership.published().expect("a set");
    let words = set
        .nodes()
        .iter()
        .map(|node| format!("{}={}", node.instance, node.state.word()));
    (set.generation(), words.collect::<Vec<_>>().join(" "))
}

fn text(generation: u64, words: &str) -> (u64, String) {
    (generation, words.to_owned())
}

#[test]
fn a_node_that_disappears_drains_for_the_grace_period() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
    assert_eq!(seen(&fleet), text(1, "a=active b=active"));
    fleet.update(vec![node("a", 1)], now).expect("valid");
    assert_eq!(seen(&fleet), text(2, "a=active b=draining"));
    assert_eq!(fleet.next_tick(), Some(now + GRACE));
    fleet.tick(now + GRACE.mul_f32(0.99));
    // A second list without the node does not begin the period again.
    fleet
        .update(vec![node("a", 1)], now + GRACE / 2)
        .expect("valid");
    assert_eq!(seen(&fleet), text(2, "a=active b=draining"));
    fleet.tick(now + GRACE);
    assert_eq!(seen(&fleet), text(3, "a=active"));
    assert_eq!(fleet.next_tick(), None);
}

#[test]
fn a_node_that_returns_within_the_grace_period_is_as_before() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
    fleet.drain("b", false).expect("drained");
    fleet.update(vec![node("a", 1)], now).expect("valid");
    fleet
        .update(vec![node("a", 1), node("b", 2)], now + GRACE / 2)
        .expect("valid");
    fleet.tick(now + GRACE * 2);
    assert_eq!(seen(&fleet).1, "a=active b=draining", "still as ordered");
    fleet.lift("b").expect("known");
    assert_eq!(seen(&fleet).1, "a=active b=active");
}

#[test]
fn an_order_ends_with_the_instance() {
    let now = Instant::now();
    for order in [Membership::drain, Membership::remove] {
        let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
        order(&mut fleet, "b", false).expect("another is active");
        fleet.update(vec![node("a", 1)], now).expect("valid");
        fleet.tick(now + GRACE);
        fleet
            .update(vec![node("a", 1), node("b", 2)], now + GRACE)
            .expect("valid");
        assert_eq!(seen(&fleet).1, "a=active b=active");
        assert!(fleet.saved().overrides.is_empty());
    }
}

#[test]
fn an_empty_or_invalid_list_changes_nothing() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
    assert_eq!(fleet.update(vec![], now), Err(InvalidMembers::Empty));
    assert!(fleet.update(vec![node("a", 1), node("a", 2)], now).is_err());
    fleet.tick(now + GRACE * 2);
    assert_eq!(seen(&fleet), text(1, "a=active b=active"));
}

#[test]
fn an_address_that_is_used_again_belongs_to_its_new_node_only() {
    let now = Instant::now();
    let mut fleet = listed("Kubernetes", &[("a", 1), ("b", 2)], now);
    fleet
        .update(vec![node("a", 1), node("c", 2)], now)
        .expect("valid");
    assert_eq!(seen(&fleet), text(2, "a=active c=active"));
    let renamed = Member {
        name: "name-c".to_owned(),
        ..node("d", 3)
    };
    fleet
        .update(vec![node("a", 1), renamed], now)
        .expect("valid");
    assert_eq!(seen(&fleet), text(3, "a=active d=active"));
}

#[test]
fn the_last_active_node_is_drained_only_by_force_and_the_last_node_never_removed() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
    fleet.drain("a", false).expect("b is active");
    assert_eq!(
        fleet.drain("b", false),
        Err(Refusal::LastActive("b".to_owned()))
    );
    assert_eq!(
        fleet.remove("b", false),
        Err(Refusal::LastActive("b".to_owned()))
    );
    fleet.drain("a", false).expect("it drains already");
    fleet.drain("b", true).expect("forced");
    assert_eq!(seen(&fleet).1, "a=draining b=draining");
    fleet.remove("a", false).expect("not active");
    assert_eq!(
        fleet.remove("b", true),
        Err(Refusal::LastNode("b".to_owned()))
    );
    assert_eq!(seen(&fleet).1, "b=draining");
    assert_eq!(
        fleet.drain("x", true),
        Err(Refusal::Unknown("x".to_owned()))
    );
    assert_eq!(
        fleet.remove("x", true),
        Err(Refusal::Unknown("x".to_owned()))
    );
    assert_eq!(fleet.lift("x"), Err(Refusal::Unknown("x".to_owned())));
}

#[test]
fn a_removed_node_is_hidden_until_it_is_enabled() {
    let now = Instant::now();
    let mut fleet = listed("static", &[("a", 1), ("b", 2)], now);
    fleet.remove("b", false).expect("a is active");
    fleet
        .update(vec![node("a", 1), node("b", 2)], now)
        .expect("valid");
    assert_eq!(seen(&fleet).1, "a=active");
    assert_eq!(fleet.nodes().len(), 2, "operators see it");
    fleet
        .enable(node("b", 2), false)
        .expect("the record of the source");
    assert_eq!(seen(&fleet).1, "a=active b=active");
    // If the source lists only removed nodes, edges keep what they have.
    fleet.remove("b", false).expect("a is active");
    fleet.update(vec![node("b", 2)], now).expect("valid");
    fleet.tick(now + GRACE);
    assert_eq!(seen(&fleet).1, "a=draining");
}

#[test]
fn a_node_in_its_grace_period_can_be_removed_at_once() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2)], now);
    fleet.update(vec![node("a", 1)], now).expect("valid");
    fleet.remove("b", false).expect("a is active");
    assert_eq!(seen(&fleet).1, "a=active");
    assert_eq!(fleet.nodes().len(), 1);
}

#[test]
fn the_api_adds_only_nodes_that_are_unlike_all_others() {
    let mut fleet = Membership::new(None, GRACE, "e".to_owned(), Saved::default());
    assert!(fleet.published().is_none());
    fleet.enable(node("a", 1), false).expect("the first");
    fleet.enable(node("a", 1), false).expect("the same again");
    assert_eq!(seen(&fleet), text(1, "a=active"));
    let taken = |result| matches!(result, Err(Refusal::Taken(InvalidMembers::Twice { .. })));
    assert!(
        taken(fleet.enable(node("a", 2), false)),
        "one instance, another address"
    );
    assert!(taken(fleet.enable(node("b", 1), true)), "one address");
    let namesake = Member {
        name: "name-a".to_owned(),
        ..node("b", 2)
    };
    assert!(taken(fleet.enable(namesake, true)), "one name");
    fleet.enable(node("a", 2), true).expect("replaced");
    assert_eq!(
        fleet.published().expect("a set").nodes()[0].address.port(),
        2
    );
    let wrong = fleet.enable(node("", 3), true);
    assert!(matches!(wrong, Err(Refusal::Invalid(_))), "{wrong:?}");
    fleet.enable(node("b", 1), false).expect("a free address");
    fleet.remove("a", false).expect("b is active");
    assert_eq!(fleet.nodes().len(), 1, "the API has no other list of it");
}

#[test]
fn only_the_api_adds_nodes_if_it_is_the_source() {
    let mut fleet = listed("DNS", &[("a", 1)], Instant::now());
    let refused = fleet.enable(node("b", 2), true).expect_err("not listed");
    assert!(
        refused
            .to_string()
            .contains("(DNS) does not list the instance b"),
        "{refused}"
    );
    assert!(matches!(
        fleet.enable(node("a", 2), true),
        Err(Refusal::Taken(_))
    ));
}

#[test]
fn a_controller_that_starts_again_knows_the_orders_of_the_former_one() {
    let now = Instant::now();
    let mut fleet = listed("DNS", &[("a", 1), ("b", 2), ("c", 3)], now);
    fleet.drain("b", false).expect("drained");
    fleet.remove("c", false).expect("removed");
    let saved = fleet.saved();
    let mut next = Membership::new(Some("DNS"), GRACE, "f".to_owned(), saved.clone());
    assert!(next.published().is_none());
    assert_eq!(next.saved(), saved, "saved again before the source answers");
    next.update(vec![node("a", 1), node("b", 2)], now)
        .expect("valid");
    assert_eq!(seen(&next), text(1, "a=active b=draining"));
    assert_eq!(
        next.saved().overrides.len(),
        1,
        "the order for c ended with it"
    );
    let (old, new) = (
        fleet.published().expect("a set"),
        next.published().expect("a set"),
    );
    assert!(new.supersedes(old), "another epoch");
}

#[test]
fn nodes_of_the_api_outlive_a_restart() {
    let mut fleet = Membership::new(None, GRACE, "e".to_owned(), Saved::default());
    fleet.enable(node("a", 1), false).expect("added");
    fleet.enable(node("b", 2), false).expect("added");
    fleet.drain("b", false).expect("drained");
    let next = Membership::new(None, GRACE, "f".to_owned(), fleet.saved());
    assert_eq!(seen(&next), text(1, "a=active b=draining"));
}
