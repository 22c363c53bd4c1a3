//! Explanations: what would happen to a request, without any effect.

use crate::bench::{ALICE, BOB, register, request};
use crate::routed::{AS_ALICE, Declared, NUMBER, Routed, invite, routed, three_gateways, to_group};
use sip_elements::View;
use sip_elements::explain::{ExplainedCallee, Explanation, NotExplained, Way, explain};
use sip_elements::services::CallForwarding;
use sip_routing::gateway::{State, Verdict};
use sip_routing::limit::{Declared as Bounds, NamedLimit};
use sip_routing::rule::{RefusalDescription, RuleDescription};
use sip_transport::{Flow, ListenerId};
use std::sync::Arc;

pub(crate) fn explained(node: &Routed, request: &str) -> Result<Explanation, NotExplained> {
    let mut settings = crate::bench::settings();
    settings.policy = Arc::clone(&node.policy);
    let view = View {
        now: node.bench.now,
        settings: &settings,
        shared: &node.bench.shared,
    };
    let source = Flow::to(ListenerId(0), ALICE.parse().expect("an address"));
    explain(view, source, request.replace('\n', "\r\n").as_bytes())
}

fn node() -> Routed {
    let blocked = RuleDescription {
        name: "blocked".into(),
        user: Some(vec!["+900*".into()]),
        refuse: Some(RefusalDescription {
            status: 403,
            ..RefusalDescription::default()
        }),
        ..RuleDescription::default()
    };
    let out = RuleDescription {
        group: None,
        prefixes: Some("default".into()),
        limit: Some("line".into()),
        strip: 1,
        ..to_group("")
    };
    let mut declared = Declared {
        gateways: three_gateways(),
        prefixes: vec![("", "49", "pstn"), ("", "4989", "c-first;only-a")],
        rules: vec![blocked, out],
        ..Declared::default()
    };
    declared.limits.named = vec![NamedLimit {
        name: "line".into(),
        bounds: Bounds {
            max_calls: Some(1),
            ..Bounds::default()
        },
    }];
    routed(declared)
}

#[test]
fn a_call_to_gateways_is_explained_from_rule_to_member() {
    let node = node();
    node.gateway("c").disable(node.bench.now);
    let explanation = explained(&node, &invite("i1", "")).expect("an explanation");
    let steps: Vec<String> = explanation.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["blocked: user is \"+4989123\"", "out: matches"]);
    assert_eq!(explanation.rule.as_deref(), Some("out"));
    assert_eq!(&*explanation.request_uri, b"sip:4989123@example.org");
    assert_eq!(explanation.limits, ["line".into()]);
    let Way::Gateways {
        prefixes: Some(prefixes),
        groups,
    } = explanation.way
    else {
        panic!("{explanation:?}")
    };
    assert_eq!(prefixes.table.as_deref(), Some("default"));
    assert_eq!(prefixes.digits, "4989123");
    let found: Vec<&str> = prefixes
        .candidates
        .iter()
        .map(|(prefix, _)| &**prefix)
        .collect();
    assert_eq!(found, ["4989", "49"]);
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["c-first", "only-a"]);
    let members = groups[0].members.iter();
    let members: Vec<_> = members
        .map(|it| (&*it.gateway, it.state, it.verdict))
        .collect();
    assert_eq!(members[0], ("a", State::Unprobed, Verdict::Try));
    assert_eq!((members[1].0, members[1].1), ("c", State::Disabled));
    // Nothing happened.
    assert_eq!(node.live(), [0; 3]);
    assert_eq!(
        node.policy
            .rules
            .iter()
            .map(sip_routing::rule::Rule::matches)
            .sum::<u64>(),
        0
    );
}

#[test]
fn what_is_explained_is_what_happens() {
    let mut node = node();
    let explanation = explained(&node, &invite("i1", "")).expect("an explanation");
    let Way::Gateways { groups, .. } = explanation.way else {
        panic!("{explanation:?}")
    };
    let first = &groups[0].members[0].gateway;
    let (to, _) = node.call();
    assert_eq!(node.gateway(first).live_calls(), 1);
    assert_eq!(to, crate::routed::GW_C);
}

#[test]
fn a_number_that_is_none_is_refused() {
    let node = routed(Declared::to_group("pstn"));
    let malformed = invite("i1", "").replace("+4989123", "++4989123");
    let explanation = explained(&node, &malformed).expect("an explanation");
    let steps: Vec<String> = explanation.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["out: matches"]);
    let refused = Way::Refused {
        status: 404,
        reason: None,
    };
    assert_eq!(explanation.way, refused);
}

#[test]
fn refusals_ordinary_requests_and_what_is_no_request() {
    let node = node();
    let blocked = invite("i1", "").replace("+4989123", "+900123");
    let explanation = explained(&node, &blocked).expect("an explanation");
    assert_eq!(
        explanation.way,
        Way::Refused {
            status: 403,
            reason: None
        }
    );
    let hidden = request(
        "INVITE",
        "sip:192.0.2.1;lr",
        AS_ALICE,
        "i2",
        "Route: <sip:+900123@example.org>\n",
    );
    let explanation = explained(&node, &hidden).expect("an explanation");
    assert_eq!(explanation.rule.as_deref(), Some("blocked"));
    let local = request("INVITE", "sip:bob@example.org", AS_ALICE, "i3", "");
    let explanation = explained(&node, &local).expect("an explanation");
    assert_eq!((explanation.rule, explanation.way), (None, Way::Ordinary));
    let unknown = invite("i4", "").replace("+4989123", "+33123");
    let Way::Gateways { groups, .. } = explained(&node, &unknown).expect("one").way else {
        panic!("another way")
    };
    assert!(groups.is_empty());
    assert_eq!(explained(&node, "hello"), Err(NotExplained::NotSip));
    let ack = request("ACK", NUMBER, AS_ALICE, "i5", "");
    assert_eq!(explained(&node, &ack), Err(NotExplained::NoRequest));
    let ok = crate::bench::accept_at(&local.replace('\n', "\r\n"), &format!("sip:bob@{BOB}"));
    assert_eq!(explained(&node, &ok), Err(NotExplained::NoRequest));
}

#[test]
fn a_call_to_a_subscriber_is_explained_with_its_alias_contacts_and_call_forwarding() {
    let mut node = node();
    let ordinary = |node: &Routed, uri: &str| {
        let call = request("INVITE", uri, AS_ALICE, "i1", "");
        let explanation = explained(node, &call).expect("an explanation");
        assert_eq!(explanation.way, Way::Ordinary);
        explanation.callee
    };
    let mut bob = ExplainedCallee {
        address: b"bob@example.org"[..].into(),
        is_by_alias: false,
        contacts: 0,
        forwarding: None,
    };
    assert_eq!(ordinary(&node, "sip:bob@example.org"), Some(bob.clone()));
    assert_eq!(ordinary(&node, "sip:bob@elsewhere.example"), None);

    node.bench.receive(BOB, &register("bob", BOB, 1, ""));
    let forwarding = CallForwarding {
        busy: Some(b"sip:carol@example.org"[..].into()),
        ..CallForwarding::default()
    };
    let services = &node.bench.shared.services;
    assert!(
        services
            .forwardings
            .set(b"bob", b"example.org", Some(forwarding.clone()))
    );
    assert!(services.aliases.set(b"info", b"", Some(b"bob@example.org")));
    bob.is_by_alias = true;
    bob.contacts = 1;
    bob.forwarding = Some(Arc::new(forwarding));
    assert_eq!(ordinary(&node, "sip:info@example.org"), Some(bob));
}
