//! Route, Record-Route, Path, strict routers, loops (RFC 3261 sections 16.4 and 16.6, RFC 5658).

use crate::wire::{
    ALICE, BOB, CAROL, Sent, US, Wire, established, invite, request, request_in, settings, target,
    udp, with_next_hop, with_path,
};

/// A phone answers, which ends the transaction.
fn answer(wire: &mut Wire, phone: &str, sent: &Sent) {
    wire.receive(phone, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
}

/// Our Record-Route value as the caller gets it when Bob has answered.
fn recorded() -> String {
    recorded_below("")
}

/// Same as [`recorded`], with proxies downstream that have added their own Record-Route.
fn recorded_below(below: &str) -> String {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    let recorded = established(&mut wire, &format!("sip:bob@{BOB}"), below);
    assert_eq!(recorded.len(), 1);
    recorded[0].clone()
}

#[test]
fn our_route_is_popped_and_the_next_one_decides() {
    let mut wire = Wire::new(vec![target("192.0.2.99:5060", 1000)]);
    let routes = format!("Route: <sip:{US};lr>, <sip:{BOB};lr>\r\nRoute: <sip:{CAROL};lr>\r\n");
    wire.receive(
        ALICE,
        &request("MESSAGE", "sip:bob@192.0.2.99:5060", &routes),
    );
    let sent = wire.expect(BOB, "MESSAGE sip:bob@192.0.2.99:5060 SIP/2.0");
    assert_eq!(
        sent.header("Route"),
        [format!("<sip:{BOB};lr>"), format!("<sip:{CAROL};lr>")]
    );
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn a_request_that_a_strict_router_sent_is_repaired() {
    let mut wire = Wire::new(Vec::new());
    let ours = recorded_below(&format!("Record-Route: <sip:{CAROL};lr>\r\n"));
    let uri = ours.trim_matches(['<', '>']);
    let routes = format!("Route: <sip:{CAROL};lr>, <sip:bob@{BOB}>\r\n");
    wire.receive(ALICE, &request_in("BYE", uri, "b1", 2, &routes));
    let sent = wire.expect(CAROL, &format!("BYE sip:bob@{BOB} SIP/2.0"));
    assert_eq!(sent.header("Route"), [format!("<sip:{CAROL};lr>")]);
    answer(&mut wire, CAROL, &sent);
    // The same, if the real Request-URI is the only Route value left.
    let ours = recorded();
    let uri = ours.trim_matches(['<', '>']);
    wire.receive(
        ALICE,
        &request_in("INFO", uri, "b1", 3, &format!("Route: <sip:bob@{BOB}>\r\n")),
    );
    let sent = wire.expect(BOB, &format!("INFO sip:bob@{BOB} SIP/2.0"));
    assert!(sent.header("Route").is_empty());
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn a_strict_router_downstream_gets_the_request_as_it_expects_it() {
    let mut wire = Wire::new(vec![target("192.0.2.99:5060", 1000)]);
    let routes = format!("Route: <sip:{US};lr>\r\nRoute: <sip:{BOB}>, <sip:{CAROL};lr>\r\n");
    wire.receive(
        ALICE,
        &request("MESSAGE", "sip:bob@192.0.2.99:5060", &routes),
    );
    let sent = wire.expect(BOB, &format!("MESSAGE sip:{BOB} SIP/2.0"));
    assert_eq!(
        sent.header("Route"),
        [
            format!("<sip:{CAROL};lr>"),
            "<sip:bob@192.0.2.99:5060>".to_owned()
        ]
    );
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn a_path_is_put_in_front_of_the_route() {
    let path = format!("<sip:{CAROL};lr>,<sip:192.0.2.50;lr>");
    let mut wire = Wire::new(vec![with_path(target(BOB, 1000), &path)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(CAROL, &format!("MESSAGE sip:bob@{BOB} SIP/2.0"));
    assert_eq!(sent.header("Route"), [path]);
    answer(&mut wire, CAROL, &sent);
    wire.finish();
}

#[test]
fn a_path_that_begins_with_a_strict_router_is_turned_round() {
    let path = format!("<sip:{CAROL}>,<sip:192.0.2.50;lr>");
    let mut wire = Wire::new(vec![with_path(target(BOB, 1000), &path)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(CAROL, &format!("MESSAGE sip:{CAROL} SIP/2.0"));
    assert_eq!(
        sent.header("Route"),
        ["<sip:192.0.2.50;lr>".to_owned(), format!("<sip:bob@{BOB}>")]
    );
    answer(&mut wire, CAROL, &sent);
    wire.finish();
}

#[test]
fn a_target_behind_a_translator_is_reached_through_its_flow() {
    let mut wire = Wire::new(vec![with_next_hop(
        target("10.1.2.3:5060", 1000),
        "192.0.2.77:40123",
        0,
    )]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect("192.0.2.77:40123", "MESSAGE sip:bob@10.1.2.3:5060 SIP/2.0");
    answer(&mut wire, "192.0.2.77:40123", &sent);
    wire.finish();
}

#[test]
fn between_two_listeners_both_are_recorded_and_both_popped_on_the_way_back() {
    let inside = "198.51.100.1:5070";
    let bob = "198.51.100.20:5060";
    let mut wire = Wire::with(
        settings(vec![udp(US, 24), udp(inside, 24)]),
        vec![target(bob, 1000)],
    );
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(bob, "INVITE");
    assert_eq!(sent.listener, 1);
    assert!(sent.header("Via")[0].contains(inside));
    let recorded: Vec<String> = sent
        .header("Record-Route")
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(recorded.len(), 2);
    assert!(
        recorded[0].contains(inside) && recorded[1].contains(US),
        "{recorded:?}"
    );
    let answer = sent.reply_with("200 OK", "Contact: <sip:bob@203.0.113.5:5060>\r\n");
    wire.receive_at(1, bob, &answer);
    let answered = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(answered.listener, 0);
    let tag = "198-51-100-20-5060";

    // Alice's route set is in reverse order. The request to the far side leaves from the listener that was recorded for
    // it.
    let ours = answered.header("Record-Route");
    let routes = format!("Route: {}, {}\r\n", ours[1], ours[0]);
    wire.receive(
        ALICE,
        &request_in("BYE", "sip:bob@203.0.113.5:5060", tag, 2, &routes),
    );
    let bye = wire.expect("203.0.113.5:5060", "BYE");
    assert_eq!((bye.listener, bye.header("Route").len()), (1, 0));
    wire.receive_at(1, "203.0.113.5:5060", &bye.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    // Bob sends a request in the other direction.
    let routes = format!("Route: {}\r\nRoute: {}\r\n", recorded[0], recorded[1]);
    let from_bob = request_in("INFO", &format!("sip:alice@{ALICE}"), "a1", 7, &routes);
    let from_bob = from_bob
        .replace(&format!("UDP {ALICE}"), &format!("UDP {bob}"))
        .replace("tag=a1\r\nTo", &format!("tag={tag}\r\nTo"));
    wire.receive_at(1, bob, &from_bob);
    let info = wire.expect(ALICE, "INFO");
    assert_eq!((info.listener, info.header("Route").len()), (0, 0));
    wire.receive(ALICE, &info.reply("200 OK"));
    assert_eq!(wire.expect(bob, "SIP/2.0 200 OK").listener, 1);
    wire.finish();
}

#[test]
fn record_route_goes_into_what_can_make_a_dialog_and_nothing_else() {
    let rows = [
        ("SUBSCRIBE", 1),
        ("NOTIFY", 1),
        ("REFER", 1),
        ("FOO", 1),
        ("MESSAGE", 0),
        ("OPTIONS", 0),
        ("PUBLISH", 0),
        ("INFO", 0),
    ];
    for (method, expected) in rows {
        let mut wire = Wire::new(vec![target(BOB, 1000)]);
        wire.receive(ALICE, &request(method, "sip:bob@example.org", ""));
        let sent = wire.expect(BOB, method);
        assert_eq!(sent.header("Record-Route").len(), expected, "{method}");
        answer(&mut wire, BOB, &sent);
        wire.finish();
    }
}

#[test]
fn record_route_can_be_turned_off() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.record_route = false;
    let mut wire = Wire::with(settings, vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    assert!(sent.header("Record-Route").is_empty());
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn an_maddr_that_names_us_is_taken_out() {
    let uri = "sip:bob@192.0.2.20:5060;maddr=192.0.2.1;transport=udp;user=phone";
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    let ours = established(&mut wire, uri, "");
    let routes = format!("Route: {}\r\n", ours[0]);
    wire.receive(ALICE, &request_in("INFO", uri, "b1", 2, &routes));
    let sent = wire.expect(BOB, "INFO sip:bob@192.0.2.20:5060;user=phone SIP/2.0");
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn a_request_that_comes_round_again_is_a_loop_and_a_spiral_is_not() {
    // The contact of bob is bob at our own address. Only a sender on this host can reach it.
    const ALICE: &str = "127.0.0.1:5070";
    const US: &str = "127.0.0.1:5060";
    let mut wire = Wire::with(settings(vec![udp(US, 8)]), vec![target(US, 1000)]);
    let message = request("MESSAGE", "sip:bob@example.org", "");
    wire.receive(ALICE, &message.replace(crate::wire::ALICE, ALICE));
    let first = wire.expect(US, &format!("MESSAGE sip:bob@{US}"));
    wire.receive(US, &first.text);
    let second = wire.expect(US, &format!("MESSAGE sip:bob@{US}"));
    assert_eq!(
        second.header("Via").len(),
        3,
        "another Request-URI: a spiral"
    );
    wire.receive(US, &second.text);
    wire.expect(US, "SIP/2.0 482 Loop Detected");
    wire.receive(US, &second.reply("482 Loop Detected"));
    let passed = wire.expect(US, "SIP/2.0 482");
    wire.receive(US, &passed.text);
    wire.expect(ALICE, "SIP/2.0 482");
    wire.finish();
}

#[test]
fn the_same_request_by_another_way_is_no_loop() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(BOB, "MESSAGE");
    // Bob's proxy retargets the request to another of our users.
    let retargeted = sent.text.replace(
        "MESSAGE sip:bob@192.0.2.20:5060",
        "MESSAGE sip:carol@example.org",
    );
    let retargeted = retargeted.replacen(
        "Via:",
        "Via: SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bKbobs\r\nVia:",
        1,
    );
    wire.targets = vec![target(CAROL, 1000)];
    wire.receive(BOB, &retargeted);
    let again = wire.expect(CAROL, "MESSAGE");
    wire.receive(CAROL, &again.reply("200 OK"));
    let passed = wire.expect(BOB, "SIP/2.0 200");
    let without_bobs = passed.text.replacen(
        "Via: SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bKbobs\r\n",
        "",
        1,
    );
    wire.receive(BOB, &without_bobs);
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn a_call_over_ipv6_is_recorded_and_routed_in_brackets() {
    let (us, alice, bob) = (
        "[2001:db8::1]:5060",
        "[2001:db8::10]:5060",
        "[2001:db8::20]:5070",
    );
    let mut wire = Wire::with(settings(vec![udp(us, 64)]), vec![target(bob, 1000)]);
    wire.receive(alice, &invite().replace(ALICE, alice));
    wire.expect(alice, "SIP/2.0 100");
    let sent = wire.expect(bob, "INVITE sip:bob@[2001:db8::20]:5070 SIP/2.0");
    assert!(sent.header("Via")[0].starts_with("SIP/2.0/UDP [2001:db8::1]:5060;branch="));
    assert!(
        sent.header("Via")[1].contains(";received=2001:db8::10"),
        "{:?}",
        sent.header("Via")
    );
    let answer = sent.reply_with("200 OK", &format!("Contact: <sip:bob@{bob}>\r\n"));
    wire.receive(bob, &answer);
    let answered = wire.expect(alice, "SIP/2.0 200 OK");
    let route = format!("Route: {}\r\n", answered.header("Record-Route")[0]);
    assert!(route.contains("<sip:[2001:db8::1]:5060;lr;ck="), "{route}");
    for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
        let uri = format!("sip:bob@{bob}");
        wire.receive(
            alice,
            &request_in(method, &uri, "-2001-db8--20--5070", cseq, &route).replace(ALICE, alice),
        );
        let sent = wire.expect(bob, method);
        assert!(sent.header("Route").is_empty());
        if method == "BYE" {
            wire.receive(bob, &sent.reply("200 OK"));
            wire.expect(alice, "SIP/2.0 200 OK");
        }
    }
    // The callee retransmits the answer, first to this node, then to a restarted node that does not know the call.
    wire.receive(bob, &answer);
    wire.expect(alice, "SIP/2.0 200 OK");
    let mut restarted = wire.restarted();
    restarted.receive(bob, &answer);
    restarted.expect(alice, "SIP/2.0 200 OK");
    restarted.finish();
    wire.finish();
}
