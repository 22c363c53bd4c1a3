//! Routing rules: who may use them, what they decide, and what of a request they change.

use crate::bench::{
    ALICE, BOB, accept, answer_challenge, only, register, request, settings, status,
};
use crate::routed::{
    AS_ALICE, Declared, GW_A, NUMBER, Routed, invite, routed, routed_with, three_gateways, to_group,
};
use sip_elements::Settings;
use sip_elements::metrics::Refused;
use sip_routing::limit::{Declared as Bounds, NamedLimit};
use sip_routing::rule::{
    Authentication, FieldDescription, HeaderDescription, RefusalDescription, RuleDescription,
};

const STRANGER: &str = "198.51.100.66:5060";
const AS_STRANGER: &str = "sip:x@elsewhere.example";

fn declared(rules: Vec<RuleDescription>) -> Declared {
    Declared {
        gateways: three_gateways(),
        rules,
        ..Declared::default()
    }
}

fn rule(name: &str) -> RuleDescription {
    RuleDescription {
        name: name.into(),
        ..RuleDescription::default()
    }
}

fn refusing(status: u16, reason: Option<&str>, retry_after: Option<u32>) -> RuleDescription {
    RuleDescription {
        refuse: Some(RefusalDescription {
            status,
            reason: reason.map(Into::into),
            retry_after,
        }),
        ..rule("no")
    }
}

fn matches(node: &Routed, name: &str) -> u64 {
    let mut rules = node.policy.rules.iter();
    rules
        .find(|rule| rule.name() == name)
        .expect(name)
        .matches()
}

/// Sends a request. Returns the final response; or the address and text of the copy.
fn send(node: &mut Routed, from: &str, message: &str) -> (String, String) {
    let (to, text) = node.bench.receive(from, message).pop().expect("a message");
    (to.to_string(), text)
}

fn strictly() -> Settings {
    settings()
}

#[test]
fn the_first_rule_that_matches_decides_and_counts() {
    let blocked = RuleDescription {
        user: Some(vec!["+4989*".into()]),
        ..refusing(403, Some("Not today"), Some(60))
    };
    let mut node = routed(declared(vec![blocked, to_group("pstn")]));
    let (to, response) = send(&mut node, ALICE, &invite("i1", ""));
    assert_eq!(to, ALICE);
    assert!(
        response.starts_with("SIP/2.0 403 Not today\r\n"),
        "{response}"
    );
    assert!(response.contains("Retry-After: 60\r\n"), "{response}");
    assert!(!response.contains("no\r\n"), "{response}");
    let other = request("INVITE", "sip:+33123@example.org", AS_ALICE, "i2", "");
    assert_eq!(send(&mut node, ALICE, &other).0, GW_A);
    assert_eq!((matches(&node, "no"), matches(&node, "out")), (1, 1));
    assert_eq!(
        node.bench.metrics.refusals[Refused::Rule as usize].value(),
        1
    );
}

#[test]
fn a_request_that_waits_for_the_store_matches_once() {
    let local = RuleDescription {
        local: true,
        ..rule("local")
    };
    let mut node = routed_with(strictly(), declared(vec![local]));
    let call =
        |branch, extra: &str| request("INVITE", "sip:carol@example.org", AS_ALICE, branch, extra);
    let (_, challenge) = send(&mut node, ALICE, &call("i1", ""));
    let proof = answer_challenge(&challenge, "alice", "INVITE", "sip:carol@example.org");
    let extra = format!("Proxy-Authorization: {proof}\n");
    send(&mut node, ALICE, &call("i2", &extra));
    let question = node.bench.question().expect("is there a carol?");
    assert_eq!(status(&only(node.bench.answer(question))), 404);
    assert_eq!(
        matches(&node, "local"),
        2,
        "once without and once with credentials"
    );
}

#[test]
fn gateways_are_for_subscribers_and_peers_only() {
    let mut settings = strictly();
    settings.challenge =
        sip_elements::ChallengedMethods::Listed(vec![sip_message::Method::Register]);
    let mut node = routed_with(settings, declared(vec![to_group("pstn")]));
    // A stranger, a subscriber without credentials although its INVITE is not challenged elsewhere, and a Route past the gateway.
    let strange = request("INVITE", NUMBER, AS_STRANGER, "i1", "");
    assert_eq!(status(&send(&mut node, STRANGER, &strange).1), 403);
    let (_, challenge) = send(&mut node, ALICE, &invite("i2", ""));
    assert_eq!(status(&challenge), 407);
    let proof = answer_challenge(&challenge, "alice", "INVITE", NUMBER);
    let extra = format!("Proxy-Authorization: {proof}\n");
    let past = format!("{extra}Route: <sip:192.0.2.1;lr>, <sip:198.51.100.1;lr>\n");
    assert_eq!(status(&send(&mut node, ALICE, &invite("i3", &past)).1), 403);
    let (_, challenge) = send(&mut node, ALICE, &invite("i4", ""));
    let proof = answer_challenge(&challenge, "alice", "INVITE", NUMBER);
    let extra = format!("Proxy-Authorization: {proof}\n");
    let (to, copy) = send(&mut node, ALICE, &invite("i5", &extra));
    assert_eq!(to, GW_A);
    assert!(!copy.contains("Proxy-Authorization"), "{copy}");
}

#[test]
fn a_rule_may_trust_its_senders() {
    let trust = RuleDescription {
        source: Some(vec!["198.51.100.0/24".into()]),
        authenticate: Some(Authentication::Trust),
        ..to_group("pstn")
    };
    let mut node = routed_with(strictly(), declared(vec![trust]));
    let identity = "P-Asserted-Identity: <sip:+4930@carrier.example>\n";
    let from_trunk = request("INVITE", NUMBER, AS_STRANGER, "i1", identity);
    let (to, copy) = send(&mut node, STRANGER, &from_trunk);
    assert_eq!(to, GW_A);
    assert!(copy.contains("P-Asserted-Identity: <sip:+4930@"), "{copy}");
    let elsewhere = request("INVITE", NUMBER, AS_STRANGER, "i2", identity);
    let elsewhere = elsewhere.replace("call-1", "call-2");
    let (_, response) = send(&mut node, BOB, &elsewhere);
    assert_eq!(status(&response), 480, "to others the number is a user");
}

#[test]
fn a_rule_may_let_strangers_call_and_they_stay_strangers() {
    let emergency = RuleDescription {
        user: Some(vec!["112".into()]),
        authenticate: Some(Authentication::Never),
        ..to_group("pstn")
    };
    let mut node = routed_with(strictly(), declared(vec![emergency]));
    let identity = "P-Asserted-Identity: <sip:+4930@carrier.example>\n";
    let call = request("INVITE", "sip:112@example.org", AS_STRANGER, "i1", identity);
    let (to, copy) = send(&mut node, STRANGER, &call);
    assert_eq!(to, GW_A);
    assert!(!copy.contains("P-Asserted-Identity"), "{copy}");
    let alice =
        request("INVITE", "sip:112@example.org", AS_ALICE, "i2", "").replace("call-1", "c2");
    assert_eq!(
        send(&mut node, ALICE, &alice).0,
        GW_A,
        "without a challenge"
    );
}

#[test]
fn a_rule_may_ask_for_digest_where_the_server_asks_for_none() {
    let digest = RuleDescription {
        authenticate: Some(Authentication::Digest),
        ..to_group("pstn")
    };
    // Digest is off, and the sender is a trusted peer.
    let mut settings = strictly();
    settings.challenge.clear();
    settings.proxy.trusted_peers =
        std::iter::once("192.0.2.0/24".parse().expect("a net")).collect();
    let mut node = routed_with(settings, declared(vec![digest]));
    let (_, challenge) = send(&mut node, ALICE, &invite("i1", ""));
    assert_eq!(status(&challenge), 407);
    let strange = request("INVITE", NUMBER, AS_STRANGER, "i2", "");
    assert_eq!(status(&send(&mut node, ALICE, &strange).1), 403);
    let proof = answer_challenge(&challenge, "alice", "INVITE", NUMBER);
    let extra = format!("Proxy-Authorization: {proof}\n");
    let (to, copy) = send(&mut node, ALICE, &invite("i3", &extra));
    assert_eq!(to, GW_A);
    assert!(
        !copy.contains("Proxy-Authorization"),
        "no gateway can try passwords: {copy}"
    );
}

#[test]
fn a_redirection_names_its_contacts_best_first() {
    let moved = RuleDescription {
        redirect: Some(vec!["sip:1@a.example".into(), "tel:+4930".into()]),
        ..rule("moved")
    };
    let mut node = routed(declared(vec![moved]));
    let (to, response) = send(&mut node, ALICE, &invite("i1", ""));
    assert_eq!((to.as_str(), status(&response)), (ALICE, 302));
    let contacts: Vec<&str> = response
        .lines()
        .filter(|line| line.starts_with("Contact: "))
        .collect();
    let expected = [
        "Contact: <sip:1@a.example>;q=1.000",
        "Contact: <tel:+4930>;q=0.950",
    ];
    assert_eq!(contacts, expected);
}

#[test]
fn a_redirection_is_not_much_longer_than_the_request_of_a_stranger() {
    let uris = (0..16).map(|number| format!("sip:{number:0>90}@a.example"));
    let moved = RuleDescription {
        redirect: Some(uris.collect()),
        ..rule("moved")
    };
    let mut node = routed_with(strictly(), declared(vec![moved]));
    let strange = request("INVITE", NUMBER, AS_STRANGER, "i1", "");
    let (_, response) = send(&mut node, STRANGER, &strange);
    assert_eq!(status(&response), 302);
    assert!(
        response.len() < 3 * strange.len(),
        "{} of {}",
        response.len(),
        strange.len()
    );
}

#[test]
fn numbers_and_header_fields_are_edited_in_the_copy_only() {
    let field = |name: &str, value: &str| FieldDescription {
        name: name.into(),
        value: value.into(),
    };
    let edits = RuleDescription {
        strip: 1,
        prefix: Some("00".into()),
        add_header: vec![field("X-Customer", "7")],
        remove_header: vec!["X-Secret".into()],
        replace_header: vec![field("P-Asserted-Identity", "<sip:+4930@example.org>")],
        ..to_group("pstn")
    };
    let mut node = routed(declared(vec![edits]));
    let extra = "X-Secret: 1\nP-Asserted-Identity: <sip:forged@example.org>\n";
    let call = node.call_with(extra);
    for _ in 0..2 {
        let (to, copy) = &call;
        assert!(
            copy.starts_with(&format!("INVITE sip:004989123@{to} ")),
            "{copy}"
        );
        assert!(copy.contains("X-Customer: 7\r\n"), "{copy}");
        assert!(
            copy.contains("P-Asserted-Identity: <sip:+4930@example.org>\r\n"),
            "{copy}"
        );
        assert!(
            !copy.contains("X-Secret") && !copy.contains("forged"),
            "{copy}"
        );
        assert!(copy.contains(&format!("To: <{NUMBER}>")), "{copy}");
    }
    let again = crate::routed::one(node.reply(&call, "503 Service Unavailable"));
    assert!(
        again.1.contains("X-Customer: 7\r\n"),
        "also to the next gateway"
    );
    assert!(again.1.starts_with("INVITE sip:004989123@"), "{}", again.1);
}

#[test]
fn a_rule_may_change_the_number_of_a_call_to_a_subscriber() {
    let short = RuleDescription {
        user: Some(vec!["9bob".into()]),
        local: true,
        strip: 1,
        ..rule("short")
    };
    let mut node = routed(declared(vec![short]));
    let registered = only(node.bench.receive(BOB, &register("bob", BOB, 1, "")));
    assert_eq!(status(&registered), 200);
    let call = request("INVITE", "sip:9bob@example.org", AS_ALICE, "i1", "");
    let (to, copy) = send(&mut node, ALICE, &call);
    assert_eq!(to, BOB);
    assert_eq!(status(&only(node.bench.receive(BOB, &accept(&copy)))), 200);
}

#[test]
fn rules_see_the_number_that_a_strict_route_hides() {
    let blocked = RuleDescription {
        user: Some(vec!["+4989*".into()]),
        ..refusing(403, Some("Blocked"), None)
    };
    let open = RuleDescription {
        group: Some("pstn".into()),
        ..rule("rest")
    };
    let mut node = routed(declared(vec![blocked, open]));
    let hidden = request(
        "INVITE",
        "sip:192.0.2.1;lr",
        AS_ALICE,
        "i1",
        &format!("Route: <{NUMBER}>\n"),
    );
    assert!(send(&mut node, ALICE, &hidden).1.contains("403 Blocked"));
    let through_maddr = NUMBER.replace("example.org", "example.org;maddr=192.0.2.1");
    let hidden = request("INVITE", &through_maddr, AS_ALICE, "i2", "");
    assert!(send(&mut node, ALICE, &hidden).1.contains("403 Blocked"));
}

#[test]
fn a_uri_that_cannot_be_parsed_goes_to_no_gateway() {
    let mut node = routed(declared(vec![RuleDescription {
        user: None,
        ..to_group("pstn")
    }]));
    for (branch, bad) in [
        ("i1", "sip:+4989@[::1"),
        ("i2", "sip:+49%8@h"),
        ("i3", "sip:a b@h"),
    ] {
        let route = format!("Route: <{bad}>\n");
        let hidden = request("INVITE", "sip:192.0.2.1;lr", AS_ALICE, branch, &route);
        let sent = node.bench.receive(ALICE, &hidden);
        assert!(
            sent.iter().all(|(to, _)| to.to_string() == ALICE),
            "{sent:#?}"
        );
        assert_eq!(node.live(), [0; 3]);
    }
}

#[test]
fn a_registration_is_refused_or_limited_but_never_routed() {
    let scanner = RuleDescription {
        method: Some(vec!["REGISTER".into()]),
        header: Some(vec![HeaderDescription {
            name: "User-Agent".into(),
            value: Some("friendly*".into()),
        }]),
        ..refusing(403, None, None)
    };
    let slow = RuleDescription {
        limit: Some("slow".into()),
        ..to_group("pstn")
    };
    let mut declared = declared(vec![scanner, RuleDescription { user: None, ..slow }]);
    declared.limits.named = vec![NamedLimit {
        name: "slow".into(),
        bounds: Bounds {
            calls_per_second: Some(1.0),
            burst: Some(2),
            max_calls: Some(0),
        },
    }];
    let mut node = routed(declared);
    let scan = register("alice", ALICE, 1, "User-Agent: friendly-scanner\n");
    assert_eq!(status(&only(node.bench.receive(ALICE, &scan))), 403);
    let statuses = (2..5).map(|cseq| {
        let response = only(
            node.bench
                .receive(ALICE, &register("alice", ALICE, cseq, "")),
        );
        status(&response)
    });
    assert_eq!(statuses.collect::<Vec<_>>(), [200, 200, 503]);
}

#[test]
fn a_letter_behind_a_number_does_not_evade_the_rule_that_refuses_it() {
    let expensive = RuleDescription {
        user: Some(vec!["+88*".into()]),
        ..refusing(603, None, None)
    };
    let mut declared = declared(vec![expensive, to_group("pstn")]);
    declared.rules[1].group = None;
    declared.rules[1].prefixes = Some("default".into());
    declared.prefixes = vec![("", "88", "pstn"), ("", "49", "pstn")];
    let mut node = routed(declared);
    for (branch, user) in [("i1", "+8-81623456789A"), ("i2", "++88162345")] {
        let call = request(
            "INVITE",
            &format!("sip:{user}@example.org"),
            AS_ALICE,
            branch,
            "",
        );
        assert_eq!(status(&send(&mut node, ALICE, &call).1), 603, "{user}");
    }
    let call = request("INVITE", "sip:+49-89A@example.org", AS_ALICE, "i3", "");
    assert_eq!(send(&mut node, ALICE, &call).0, GW_A);
}

#[test]
fn what_begins_with_a_plus_but_is_no_number_goes_to_no_gateway() {
    let mut node = routed(declared(vec![RuleDescription {
        strip: 1,
        prefix: Some("+".into()),
        ..to_group("pstn")
    }]));
    for (branch, user) in [("i1", "+49x900"), ("i2", "++49900"), ("i3", "+%D9%A3")] {
        let uri = format!("sip:{user}@example.org");
        let call = request("INVITE", &uri, AS_ALICE, branch, "");
        let (_, response) = send(&mut node, ALICE, &call);
        assert_eq!(status(&response), 404, "{user}");
    }
}
