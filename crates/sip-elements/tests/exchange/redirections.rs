//! Redirections of phones (3xx): passed to the caller, or followed.

use crate::bench::{BOB, request, settings};
use crate::forwarding::{
    AS_BOB, CAROL, DAVE, Sent, call_bob, caller_got, diverted, forward, named, not_registered,
    refused, register_at, to, two_phones, values,
};
use crate::forwarding_rights::barred;
use crate::routed::{
    Declared, GW_A, NUMBER, Routed, response, routed_with, three_gateways, to_group,
};
use sip_elements::metrics::DiversionCause;
use sip_elements::{Foreign, Redirects};
use sip_message::digest::Credential;
use sip_routing::limit::{Declared as Bounds, DeclaredEach, Description};
use sip_routing::rule::RuleDescription;

/// Bob's phone redirects the call to these contacts. Returns what the node sends.
fn redirected(node: &mut Routed, contacts: &str) -> Sent {
    let first = call_bob(node);
    let moved = format!("302 Moved Temporarily\nContact: {contacts}");
    let response = response(&first[0].1, &moved).replace("Contact: <sip:gw@192.0.2.50:5060>\n", "");
    named(node.bench.receive(BOB, &response))
        .into_iter()
        .filter(|(_, text)| !text.starts_with("ACK "))
        .collect()
}

fn recursing(rules: Vec<RuleDescription>) -> Routed {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.diversions.redirects = Redirects::Recurse;
    let declared = Declared {
        gateways: three_gateways(),
        rules,
        ..Declared::default()
    };
    let mut node = routed_with(settings, declared);
    register_at(&mut node, "bob", BOB);
    register_at(&mut node, "carol", CAROL);
    node
}

#[test]
fn redirections_pass_unless_the_operator_wants_otherwise() {
    let mut node = two_phones(Declared::default());
    let sent = redirected(&mut node, "<sip:carol@example.org>");
    assert_eq!(caller_got(&sent), 302);
    assert_eq!(values(&sent[0].1, "Contact"), ["<sip:carol@example.org>"]);
}

#[test]
fn the_contacts_of_a_redirection_are_called_in_their_order() {
    let mut node = recursing(Vec::new());
    let contacts = "<sip:nobody@example.org>;q=0.1, <sip:carol@example.org?Subject=x>;q=0.9";
    let second = redirected(&mut node, contacts);
    assert_eq!(to(&second), [CAROL]);
    let diversion = "<sip:bob@example.org>;reason=deflection;counter=1";
    assert_eq!(values(&second[0].1, "Diversion"), [diversion]);
    assert_eq!(diverted(&node, DiversionCause::Redirected), 1);
    let sent = node.reply(&second[0], "404 Not Found");
    assert_eq!(caller_got(&sent), 404);
}

#[test]
fn what_a_phone_wants_comes_before_call_forwarding() {
    let mut node = recursing(Vec::new());
    register_at(&mut node, "dave", DAVE);
    forward(&node, "bob", not_registered("sip:dave@example.org"));
    let second = redirected(&mut node, "<sip:carol@example.org>");
    assert_eq!(to(&second), [CAROL]);
}

#[test]
fn the_next_contact_replaces_the_place_of_the_one_before() {
    let each_subscriber = Some(DeclaredEach {
        bounds: Bounds {
            max_calls: Some(1),
            ..Bounds::default()
        },
        max_keys: 100,
    });
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.diversions.redirects = Redirects::Recurse;
    let limits = Description {
        each_subscriber,
        ..Description::default()
    };
    let declared = Declared {
        limits,
        ..Declared::default()
    };
    let mut node = routed_with(settings, declared);
    for (user, at) in [("bob", BOB), ("carol", CAROL), ("dave", DAVE)] {
        register_at(&mut node, user, at);
    }
    let second = redirected(&mut node, "<sip:carol@example.org>, <sip:dave@example.org>");
    assert_eq!(to(&second), [CAROL]);
    let third = node.reply(&second[0], "486 Busy Here");
    assert_eq!(to(&third), [DAVE]);
    assert_eq!(node.policy.limits.subscriber_calls(b"bob@example.org"), 1);
}

#[test]
fn a_redirection_leads_only_to_where_the_callee_may_call() {
    let mut node = recursing(vec![barred(), to_group("pstn")]);
    let contacts = format!("<{NUMBER}>, <sip:x@elsewhere.example>, <sip:bob@example.org>");
    let sent = redirected(&mut node, &contacts);
    assert_eq!((caller_got(&sent), node.live()), (480, [0; 3]));

    let mut node = recursing(vec![to_group("pstn")]);
    let sent = redirected(&mut node, &format!("<{NUMBER}>"));
    assert_eq!(to(&sent), [GW_A]);
    let moved = "302 Moved\nContact: <sip:carol@example.org>";
    let sent = node.reply(&sent[0], moved);
    assert_eq!(caller_got(&sent), 302, "a gateway is not believed");
}

#[test]
fn a_redirection_does_not_lead_to_where_only_the_caller_may_call() {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.diversions.redirects = Redirects::Recurse;
    settings.proxy.foreign = Foreign::Subscribers;
    settings.proxy.trusted_peers = ["127.0.0.0/8".parse().expect("a network")]
        .into_iter()
        .collect();
    let mut node = routed_with(settings, Declared::default());
    register_at(&mut node, "bob", BOB);
    let voicemail = "127.0.0.1:5090";
    let near = "sip:x@127.0.0.1:2525";
    for (to, expected) in [(near, near), (AS_BOB, BOB)] {
        let id = format!("i-{expected}");
        let call = request("INVITE", to, "sip:vm@example.org", &id, "");
        let sent = named(node.bench.receive(voicemail, &call.replace("call-1", &id)));
        let first = sent.iter().find(|(_, text)| text.starts_with("INVITE "));
        let (at, copy) = first.expect("a copy");
        assert!(expected.ends_with(at.as_str()), "{at}");
        if to == AS_BOB {
            let moved = format!("302 Moved Temporarily\nContact: <{near}>");
            let response =
                response(copy, &moved).replace("Contact: <sip:gw@192.0.2.50:5060>\n", "");
            let sent = named(node.bench.receive(BOB, &response));
            assert!(
                sent.iter().all(|(_, text)| !text.starts_with("INVITE ")),
                "{sent:#?}"
            );
        }
    }
}

#[test]
fn a_redirection_of_many_contacts_is_bounded() {
    let mut node = recursing(Vec::new());
    let contacts: Vec<String> = (0..50).map(|n| format!("<sip:n{n}@example.org>")).collect();
    let sent = redirected(&mut node, &contacts.join(", "));
    assert_eq!(caller_got(&sent), 480);
    assert_eq!(refused(&node), 5);
}

#[test]
fn phones_that_redirect_to_each_other_make_no_loop() {
    let mut node = recursing(Vec::new());
    let second = redirected(&mut node, "<sip:carol@example.org>");
    let moved = "302 Moved\nContact: <sip:bob@example.org>";
    let back = response(&second[0].1, moved).replace("Contact: <sip:gw@192.0.2.50:5060>\n", "");
    let sent: Sent = named(node.bench.receive(CAROL, &back))
        .into_iter()
        .filter(|(_, text)| !text.starts_with("ACK "))
        .collect();
    assert_eq!(caller_got(&sent), 482);
}

#[test]
fn the_credentials_of_a_gateway_do_not_follow_a_redirection() {
    let mut gateways = three_gateways();
    gateways.gateways[0].credential = Some(Credential {
        realm: None,
        username: "trunk".into(),
        password: "secret".into(),
    });
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.diversions.redirects = Redirects::Recurse;
    let declared = Declared {
        gateways,
        rules: vec![to_group("only-a")],
        ..Declared::default()
    };
    let mut node = routed_with(settings, declared);
    register_at(&mut node, "bob", BOB);
    register_at(&mut node, "carol", CAROL);
    let contacts = format!("<{NUMBER}>;q=1, <sip:carol@example.org>;q=0.5");
    let first = redirected(&mut node, &contacts);
    assert_eq!(to(&first), [GW_A]);
    let challenge = "407 Proxy Authentication Required\n\
                     Proxy-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";
    let again = node.reply(&first[0], challenge);
    assert_eq!(to(&again), [GW_A]);
    assert!(again[0].1.contains("username=\"trunk\""), "{again:#?}");
    let next = node.reply(&again[0], "404 Not Found");
    assert_eq!(to(&next), [CAROL]);
    assert!(!next[0].1.contains("Authorization"), "{next:#?}");
}
