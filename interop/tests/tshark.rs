//! The server's messages as tshark parses them, and their order on the wire.

use interop::{Capture, Packets, Scenario, Server, ServerOptions, Sipp, WireMessage};
use serde_json::json;
use std::collections::BTreeSet;

fn phone(server: &Server, user: &str, scenario: &str) -> Sipp {
    let phone = Scenario::new(scenario).start(server);
    server.register(user, phone.address, "");
    phone
}

fn assert_well_formed(packets: &Packets) {
    assert_eq!(packets.oddities(), Vec::<Vec<Vec<String>>>::new());
}

/// The messages that one phone sent (>) and received (<), in order.
fn ladder(messages: &[WireMessage], phone: u16) -> String {
    let steps = messages.iter().filter_map(|message| {
        let arrow = match phone {
            port if port == message.source => '>',
            port if port == message.destination => '<',
            _ => return None,
        };
        Some(format!("{arrow} {}", message.what))
    });
    steps.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_call_goes_over_the_wire_as_the_rfc_draws_it() {
    // A long T1, so that nothing is sent twice because the machine is busy.
    let patient = "[timers]\nt1 = \"4s\"\n";
    let server = Server::start(&ServerOptions::with(patient));
    let bob = phone(&server, "bob", "answer");
    let capture = Capture::start(&server);
    let alice = Scenario::new("call").start(&server);
    let (alice_port, bob_port) = (alice.address.port(), bob.address.port());
    alice.finish();
    bob.finish();
    let packets = capture.finish();
    assert_well_formed(&packets);
    let messages = packets.messages();
    assert_eq!(
        ladder(&messages, alice_port),
        "> INVITE, < 407, > ACK, > INVITE, < 100, < 180, < 200, > ACK, > BYE, < 200"
    );
    assert_eq!(
        ladder(&messages, bob_port),
        "< INVITE, > 180, > 200, < ACK, < BYE, > 200"
    );

    let address = server.address().to_string();
    let sent = messages.iter();
    for message in sent.filter(|message| message.source == server.address().port()) {
        assert_eq!(message.to.len(), 1, "{message:?}");
        let begins_the_dialog = message.what == "INVITE";
        let tags = usize::from(!begins_the_dialog && message.what != "100");
        assert_eq!(message.to_tags.len(), tags, "{message:?}");
        // The messages that establish the dialog name the server in Record-Route once, towards both sides.
        let makes_it = ["180", "200"].contains(&&*message.what) && message.method == "INVITE";
        let ours = usize::from(begins_the_dialog || makes_it);
        assert_eq!(message.record_routes.len(), ours, "{message:?}");
        let named = |route: &String| route.contains(&address);
        assert!(message.record_routes.iter().all(named), "{message:?}");
    }
}

#[test]
fn nothing_the_server_sends_is_malformed() {
    let server = Server::start(&ServerOptions::default());
    let capture = Capture::start(&server);
    for (callee, caller) in [
        ("answer_changed", "call_changed"),
        ("answer_transferred", "call_transferred"),
        ("busy", "call_refused"),
        ("unavailable", "call_refused"),
        ("message_received", "message"),
    ] {
        let bob = phone(&server, "bob", callee);
        Scenario::new(caller).run(&server);
        bob.finish();
        server.rpc("location.remove", &json!({ "address": "bob@example.org" }));
    }
    let bob = phone(&server, "bob", "ring");
    let alice = Scenario::new("call_cancelled").start(&server);
    alice.wait_for("SIP/2.0 180");
    alice.cue();
    alice.finish();
    bob.finish();
    for callee in ["nobody", "carol", "sip:dave@elsewhere.example"] {
        Scenario::new("call_refused").to(callee).run(&server);
    }
    let packets = capture.finish();
    assert_well_formed(&packets);
    // tshark has seen all messages and recognized them as SIP.
    let messages = packets.messages().into_iter();
    let sent = messages.filter(|message| message.source == server.address().port());
    let seen: BTreeSet<String> = sent.map(|message| message.what).collect();
    let expected = [
        "100", "180", "200", "202", "401", "403", "404", "407", "480", "486", "487", "500", "ACK",
        "BYE", "CANCEL", "INVITE", "MESSAGE", "NOTIFY", "REFER",
    ];
    assert_eq!(seen, expected.map(str::to_owned).into());
}
