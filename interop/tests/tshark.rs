//! The server's messages read by tshark: what it makes of them, and in which order they went over the wire.

use interop::{Capture, Packets, Scenario, Server, ServerOptions, Sipp};

fn phone(server: &Server, user: &str, scenario: &str) -> Sipp {
    let phone = Scenario::new(scenario).start(server);
    server.register(user, phone.address, "");
    phone
}

/// No packet that tshark cannot make sense of, or finds odd.
fn assert_well_formed(packets: &Packets) {
    let odd = "_ws.malformed || _ws.expert.severity >= \"Warning\"";
    let fields = ["frame.number", "_ws.col.Info", "_ws.expert.message"];
    assert_eq!(packets.fields(odd, &fields), Vec::<Vec<Vec<String>>>::new());
}

#[test]
fn a_call_goes_over_the_wire_as_the_rfc_draws_it() {
    // Nothing is sent twice because the machine is busy.
    let patient = "[timers]\nt1 = \"4s\"\n";
    let server = Server::start(&ServerOptions::with(patient));
    let bob = phone(&server, "bob", "answer");
    let capture = Capture::start(&server);
    let alice = Scenario::new("call").start(&server);
    let ports = [alice.address.port(), bob.address.port()];
    alice.finish();
    bob.finish();
    let packets = capture.finish();
    assert_well_formed(&packets);
    let ladder = |port: u16| {
        let filter = format!("sip && udp.port == {port}");
        let fields = ["udp.srcport", "sip.Method", "sip.Status-Code"];
        let packets = packets.fields(&filter, &fields).into_iter();
        let steps = packets.map(|fields| {
            let theirs = fields[0] == [port.to_string()];
            let what = [fields[1].clone(), fields[2].clone()].concat().concat();
            if theirs {
                format!("> {what}")
            } else {
                format!("< {what}")
            }
        });
        steps.collect::<Vec<_>>()
    };
    let alice = "> INVITE, < 407, > ACK, > INVITE, < 100, < 180, < 200, > ACK, > BYE, < 200";
    assert_eq!(ladder(ports[0]).join(", "), alice);
    let bob = "< INVITE, > 180, > 200, < ACK, < BYE, > 200";
    assert_eq!(ladder(ports[1]).join(", "), bob);

    // What begins the dialog names us once in Record-Route, towards both.
    let ours = format!("sip && udp.srcport == {}", server.address().port());
    let fields = ["sip.Record-Route", "sip.to.tag"];
    for begins in [
        "sip.Method == \"INVITE\"",
        "sip.Status-Code == 180",
        "sip.Status-Code == 200 && sip.CSeq.method == \"INVITE\"",
    ] {
        let found = packets.fields(&format!("{ours} && {begins}"), &fields);
        assert_eq!(found.len(), 1, "{begins}");
        assert_eq!(found[0][0].len(), 1, "{begins}: {found:?}");
        assert!(
            found[0][0][0].contains(&server.address().to_string()),
            "{found:?}"
        );
    }
    // Nothing has two tags in To, and nothing has two To.
    for message in packets.fields(&ours, &["sip.To", "sip.to.tag"]) {
        assert_eq!(message[0].len(), 1, "{message:?}");
        assert!(message[1].len() <= 1, "{message:?}");
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
        server.rpc(
            "location.remove",
            &serde_json::json!({ "address": "bob@example.org" }),
        );
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
    // It has seen them all, and knew them for SIP.
    let statuses = [
        "202", "401", "403", "404", "407", "480", "486", "487", "500",
    ];
    for status in statuses {
        let ours = format!(
            "udp.srcport == {} && sip.Status-Code == {status}",
            server.address().port()
        );
        let found = packets.fields(&ours, &["frame.number"]);
        assert!(!found.is_empty(), "no {status}");
    }
}
