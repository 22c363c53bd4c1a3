//! Member sets that are accepted, and those that are not.
use super::*;

fn node(instance: &str, name: &str, address: &str) -> Member {
    Member::new(instance, name, address.parse().expect("an address"))
}

#[test]
fn the_id_of_an_instance_never_changes() {
    // Computed with another implementation of SipHash 2-4, key 0.
    assert_eq!(instance_id(""), 0x7377_00d7);
    assert_eq!(
        instance_id("3f0c6b9e-5f1d-4a7e-9a3c-0d6f6f1f2f10"),
        0x01d4_e6c2
    );
}

#[test]
fn a_set_is_read_and_written_as_edges_expect_it() {
    let json = r#"{"epoch":"e1","generation":7,"nodes":[{"instance":"u-1","name":"a","address":"10.0.0.5:5060","state":"draining"}],"more":1}"#;
    let set = MemberSet::parse(json.as_bytes()).expect("a set");
    assert_eq!((set.epoch(), set.generation()), ("e1", 7));
    let node = set.node("u-1").expect("there");
    assert_eq!(node.state, MemberState::Draining);
    assert_eq!(node.transports, both());
    assert_eq!(MemberSet::parse(set.to_json().as_bytes()), Ok(set));
}

#[test]
fn sets_that_an_edge_must_not_accept_are_no_sets() {
    let a = node("1", "a", "10.0.0.1:5060");
    let long = "x".repeat(LONGEST_NAME + 1);
    for (nodes, problem) in [
        (vec![], "no nodes"),
        (
            vec![a.clone(), node("1", "b", "10.0.0.2:5060")],
            "the same instance 1",
        ),
        (
            vec![a.clone(), node("2", "a", "10.0.0.2:5060")],
            "the same name a",
        ),
        (
            vec![a.clone(), node("2", "b", "10.0.0.1:5060")],
            "the same address 10.0.0.1:5060",
        ),
        (vec![node("", "a", "10.0.0.1:5060")], "`instance`"),
        (vec![node("a b", "a", "10.0.0.1:5060")], "`instance`"),
        (vec![node("1", &long, "10.0.0.1:5060")], "`name`"),
        (vec![node("1", "a", "0.0.0.0:5060")], "cannot be reached"),
        (vec![node("1", "a", "10.0.0.1:0")], "cannot be reached"),
        (
            vec![Member {
                transports: vec![],
                ..a.clone()
            }],
            "no transport",
        ),
    ] {
        let error = MemberSet::new("", 1, nodes).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    let many: Vec<Member> = (0..=MOST_MEMBERS)
        .map(|it| {
            node(
                &format!("i{it}"),
                &format!("n{it}"),
                &format!("10.0.0.1:{}", it + 1),
            )
        })
        .collect();
    assert_eq!(check(&many), Err(InvalidMembers::TooMany(MOST_MEMBERS + 1)));
    for json in [
        "",
        "{}",
        "[]",
        r#"{"generation":1,"nodes":[]}"#,
        r#"{"generation":-1,"nodes":[]}"#,
    ] {
        assert!(MemberSet::parse(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn two_instances_with_one_id_are_refused() {
    // Found by search.
    let (one, other) = ("i1322", "i97715");
    assert_eq!(instance_id(one), instance_id(other));
    let nodes = vec![
        node(one, "a", "10.0.0.1:5060"),
        node(other, "b", "10.0.0.2:5060"),
    ];
    let error = MemberSet::new("", 1, nodes)
        .expect_err("one id")
        .to_string();
    assert!(error.contains("the same id"), "{error}");
}

#[test]
fn in_one_epoch_only_a_later_generation_replaces_a_set() {
    let set = |epoch: &str, generation| {
        MemberSet::new(epoch, generation, vec![node("1", "a", "10.0.0.1:5060")]).expect("a set")
    };
    let present = set("e1", 7);
    assert!(set("e1", 8).supersedes(&present));
    assert!(!set("e1", 7).supersedes(&present));
    assert!(!set("e1", 6).supersedes(&present));
    assert!(set("e2", 1).supersedes(&present));
}
