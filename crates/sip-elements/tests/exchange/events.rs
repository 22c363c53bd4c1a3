//! Subscriptions to events that no phone reports: they get an answer instead of reaching the subscriber's own phone.

use crate::bench::{ALICE, BOB, Bench, only, register, request, settings, status};
use crate::routed::{AS_ALICE, Declared, GW_A, routed_with, three_gateways};
use sip_elements::Settings;
use sip_elements::metrics::Refused;
use sip_routing::rule::RuleDescription;

const AS_BOB: &str = "sip:bob@example.org";

fn believing() -> Settings {
    let mut settings = settings();
    settings.challenge.clear();
    settings
}

fn with_bob(settings: Settings) -> Bench {
    let mut node = Bench::new(settings).with_subscribers();
    let response = only(node.receive(BOB, &register("bob", BOB, 1, "")));
    assert_eq!(status(&response), 200);
    node
}

fn event(method: &str, value: &str, from: &str) -> String {
    let event = format!("Event: {value}\n");
    request(method, AS_BOB, from, value, &event)
}

#[test]
fn a_phone_gets_489_for_the_waiting_messages_of_its_own_address() {
    let mut node = with_bob(believing());
    let refused = [
        ("SUBSCRIBE", "message-summary"),
        ("SUBSCRIBE", "Presence;id=7"),
        ("SUBSCRIBE", "reg"),
        ("PUBLISH", "presence"),
    ];
    for (method, package) in refused {
        let response = only(node.receive(BOB, &event(method, package, AS_BOB)));
        assert_eq!(status(&response), 489, "{method} {package}");
        assert!(
            response.contains("\r\nAllow-Events: refer\r\n"),
            "{response}"
        );
    }
    let count = node.metrics.refusals[Refused::Event as usize].value();
    assert_eq!(count, refused.len() as u64);
}

#[test]
fn other_events_reach_the_phone() {
    let mut node = with_bob(believing());
    for package in ["dialog", "refer", "presence.winfo"] {
        let sent = node.receive(ALICE, &event("SUBSCRIBE", package, AS_ALICE));
        assert_eq!(sent[0].0.to_string(), BOB, "{package}");
    }
    let notify = event("NOTIFY", "message-summary", AS_ALICE);
    assert_eq!(node.receive(ALICE, &notify)[0].0.to_string(), BOB);
}

#[test]
fn an_operator_can_let_all_events_pass() {
    let mut settings = believing();
    settings.proxy.refused_events.clear();
    let mut node = with_bob(settings);
    for method in ["SUBSCRIBE", "PUBLISH"] {
        let sent = node.receive(ALICE, &event(method, "presence", AS_ALICE));
        assert_eq!(sent[0].0.to_string(), BOB, "{method}");
    }
}

#[test]
fn a_rule_sends_events_to_a_server_for_them() {
    let to_server = RuleDescription {
        name: "voicemail".into(),
        method: Some(vec!["SUBSCRIBE".into()]),
        group: Some("only-a".into()),
        ..RuleDescription::default()
    };
    let declared = Declared {
        gateways: three_gateways(),
        rules: vec![to_server],
        ..Declared::default()
    };
    let mut node = routed_with(believing(), declared).bench;
    let sent = node.receive(ALICE, &event("SUBSCRIBE", "message-summary", AS_ALICE));
    assert_eq!(sent[0].0.to_string(), GW_A);
}

#[test]
fn a_stranger_learns_nothing_from_a_subscription() {
    let mut node = with_bob(believing());
    let stranger = "sip:mallory@elsewhere.example";
    let response = only(node.receive(ALICE, &event("SUBSCRIBE", "presence", stranger)));
    assert_eq!(status(&response), 403);
}
