//! Calls between sipps through the server, one behavior each. Every scenario is a file in `interop/sipp`.

use interop::{Host, Messages, Scenario, Server, ServerOptions, Sipp, header};
use serde_json::Value;
use std::collections::HashSet;
use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

fn server() -> Server {
    Server::start(&ServerOptions::default())
}

/// A phone that runs a scenario, registered for a user.
fn phone(server: &Server, user: &str, scenario: &Scenario, params: &str) -> Sipp {
    let phone = scenario.start(server);
    server.register(user, phone.address, params);
    phone
}

/// The final response of a rejected call.
fn refusal(caller: &Messages) -> &str {
    let mut finals = caller.received("SIP/2.0 ").into_iter().rev();
    let last = finals.find_map(|response| response.lines().next());
    last.unwrap_or_default()
}

/// Panics unless each of these requests passed exactly one proxy.
fn assert_came_through_the_server(phone: &Messages, requests: &[&str]) {
    for request in requests {
        let received = phone.received(request);
        assert!(!received.is_empty(), "no {request}");
        for message in received {
            assert_eq!(header(message, "Via").len(), 2, "{message}");
        }
    }
}

/// The beginning of the first datagram that a socket received.
fn first_bytes(socket: &UdpSocket) -> Option<[u8; 6]> {
    socket.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 6];
    socket.recv(&mut bytes).ok().map(|_| bytes)
}

#[test]
fn a_phone_registers_with_digest_and_unregisters() {
    let server = server();
    let register = |expires: u32| {
        let contact = format!("<sip:alice@127.0.0.1:5999>;expires={expires}");
        let scenario = Scenario::new("register").key("contact", &contact);
        scenario.run(&server)
    };
    register(600);
    let bindings = server.bindings("alice");
    assert_eq!(bindings.len(), 1, "{bindings:?}");
    assert_eq!(bindings[0]["contact"], "sip:alice@127.0.0.1:5999");
    register(0);
    assert_eq!(server.bindings("alice"), Vec::<Value>::new());
}

#[test]
fn a_wrong_password_is_challenged_again_and_registers_nothing() {
    let server = server();
    let refused = Scenario::new("register_refused")
        .password("guess")
        .key("contact", "<sip:alice@127.0.0.1:5999>")
        .run(&server);
    assert_eq!(refused.messages.received("SIP/2.0 401").len(), 2);
    assert_eq!(refused.messages.received("SIP/2.0 2").len(), 0);
    assert_eq!(server.bindings("alice"), Vec::<Value>::new());
}

#[test]
fn a_call_is_challenged_with_407_and_stays_on_the_record_route() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("answer"), "");
    let alice = Scenario::new("call").run(&server);
    let bob = bob.finish();
    assert_eq!(alice.messages.received("SIP/2.0 407").len(), 1);
    assert_came_through_the_server(&bob.messages, &["INVITE", "ACK", "BYE"]);
}

#[test]
fn a_call_is_made_over_ipv6() {
    let options = ServerOptions {
        host: Host::here(Ipv6Addr::LOCALHOST),
        ..ServerOptions::default()
    };
    let server = Server::start(&options);
    let bob = phone(&server, "bob", &Scenario::new("answer"), "");
    Scenario::new("call").run(&server);
    let bob = bob.finish();
    assert_came_through_the_server(&bob.messages, &["INVITE", "ACK", "BYE"]);
    let via = header(bob.messages.received("INVITE")[0], "Via")[0].to_owned();
    assert!(
        via.starts_with(&format!("SIP/2.0/UDP {}", server.address())),
        "{via}"
    );
}

#[test]
fn a_call_is_cancelled_while_it_rings() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("ring"), "");
    let alice = Scenario::new("call_cancelled").start(&server);
    alice.wait_for("SIP/2.0 180");
    alice.cue();
    let alice = alice.finish();
    let bob = bob.finish();
    assert_eq!(alice.messages.received("SIP/2.0 487").len(), 1);
    let cancels = bob.messages.received("CANCEL");
    assert_eq!(cancels.len(), 1);
    assert_eq!(
        header(cancels[0], "Reason"),
        ["Q.850;cause=16;text=\"Terminated\""]
    );
    assert_eq!(bob.messages.received("ACK").len(), 1);
}

#[test]
fn a_busy_phone_makes_the_call_end_with_486() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("busy"), "");
    let alice = Scenario::new("call_refused").run(&server);
    bob.finish();
    assert_eq!(refusal(&alice.messages), "SIP/2.0 486 Busy Here");
}

#[test]
fn a_503_of_the_only_phone_reaches_the_caller_as_500() {
    // RFC 3261 section 16.7 step 6: the caller must not take it for a 503 of the server itself.
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("unavailable"), "");
    let alice = Scenario::new("call_refused").run(&server);
    bob.finish();
    assert!(refusal(&alice.messages).starts_with("SIP/2.0 500 "));
}

#[test]
fn unknown_unregistered_and_foreign_callees_are_not_reached() {
    let server = server();
    for (callee, status) in [
        ("nobody", "SIP/2.0 404"),
        ("carol", "SIP/2.0 480"),
        ("sip:dave@elsewhere.example", "SIP/2.0 403"),
    ] {
        let call = Scenario::new("call_refused").to(callee).run(&server);
        let refusal = refusal(&call.messages);
        assert!(refusal.starts_with(status), "{callee}: {refusal}");
    }
}

#[test]
fn either_side_changes_the_call_by_reinvite() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("answer_changed"), "");
    let alice = Scenario::new("call_changed").run(&server);
    let bob = bob.finish();
    assert_eq!(bob.messages.received("INVITE").len(), 2);
    assert_came_through_the_server(&bob.messages, &["INVITE", "ACK", "BYE"]);
    assert_came_through_the_server(&alice.messages, &["INVITE", "ACK"]);
}

#[test]
fn a_refer_in_the_dialog_is_accepted_and_its_notify_comes_back() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("answer_transferred"), "");
    let alice = Scenario::new("call_transferred").run(&server);
    let bob = bob.finish();
    assert_eq!(alice.messages.received("SIP/2.0 202").len(), 1);
    assert_came_through_the_server(&bob.messages, &["REFER"]);
    assert_came_through_the_server(&alice.messages, &["NOTIFY"]);
}

#[test]
fn a_message_reaches_a_registered_user() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("message_received"), "");
    Scenario::new("message").run(&server);
    let bob = bob.finish();
    let message = bob.messages.received("MESSAGE")[0].to_owned();
    assert!(message.contains("Hello, are you there?"), "{message}");
}

#[test]
fn two_phones_of_one_user_ring_together_and_the_slower_is_cancelled() {
    let server = server();
    let quick = phone(&server, "bob", &Scenario::new("answer"), ";q=0.7");
    let slow = phone(&server, "bob", &Scenario::new("ring"), ";q=0.7");
    Scenario::new("call").run(&server);
    quick.finish();
    let slow = slow.finish();
    let cancels = slow.messages.received("CANCEL");
    assert_eq!(cancels.len(), 1);
    assert_eq!(
        header(cancels[0], "Reason"),
        ["SIP;cause=200;text=\"Call completed elsewhere\""]
    );
}

#[test]
fn phones_of_lower_q_are_tried_one_after_the_other() {
    let server = server();
    let busy = phone(&server, "bob", &Scenario::new("busy"), ";q=0.9");
    let broken = phone(&server, "bob", &Scenario::new("unavailable"), ";q=0.6");
    let last = phone(&server, "bob", &Scenario::new("answer"), ";q=0.3");
    let not_needed = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    server.register("bob", not_needed.local_addr().expect("bound"), ";q=0.1");
    let alice = Scenario::new("call").run(&server);
    busy.finish();
    broken.finish();
    last.finish();
    assert_eq!(alice.messages.received("SIP/2.0 486").len(), 0);
    assert_eq!(alice.messages.received("SIP/2.0 503").len(), 0);
    assert_eq!(first_bytes(&not_needed), None);
}

#[test]
fn a_phone_that_gives_no_sign_of_life_is_passed_over() {
    let impatient = "[proxy]\nno_answer = \"300ms\"\n";
    let server = Server::start(&ServerOptions::with(impatient));
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    server.register("bob", silent.local_addr().expect("bound"), ";q=0.9");
    let next = phone(&server, "bob", &Scenario::new("answer"), ";q=0.5");
    Scenario::new("call").run(&server);
    next.finish();
    assert_eq!(first_bytes(&silent), Some(*b"INVITE"), "tried first");
}

#[test]
fn a_200_is_sent_again_until_the_late_ack_comes() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("answer"), "");
    // sipp first retransmits a 200 after half a second.
    let alice = Scenario::new("call_late_ack")
        .with(&["-d", "1200"])
        .run(&server);
    let bob = bob.finish();
    assert!(bob.count("Retransmissions(C)") >= 1);
    let answers = alice.messages.received("SIP/2.0 200").into_iter();
    let to_invite = answers.filter(|answer| header(answer, "CSeq") == ["2 INVITE"]);
    assert!(to_invite.count() >= 2, "the repeated 200 came through");
}

#[test]
fn a_caller_who_repeats_everything_makes_one_call() {
    let server = server();
    // Longer than half a second, after which sipp and the server retransmit.
    let slowly = Scenario::new("answer_slowly").with(&["-d", "700"]);
    let bob = phone(&server, "bob", &slowly, "");
    let alice = Scenario::new("call_retransmitted").run(&server);
    let bob = bob.finish();
    let repeated = |method| alice.messages.sent(method).len();
    // One INVITE is challenged, the next one is retransmitted.
    assert!(repeated("INVITE") >= 3, "INVITE {}", repeated("INVITE"));
    assert!(repeated("BYE") >= 2, "BYE {}", repeated("BYE"));
    assert_eq!(bob.count("TotalCallCreated"), 1);
    let invites = bob.messages.received("INVITE").into_iter();
    let branches: HashSet<_> = invites.map(|invite| header(invite, "Via")[0]).collect();
    assert_eq!(branches.len(), 1, "one transaction: {branches:?}");
}

#[test]
fn calls_survive_a_line_that_loses_messages() {
    let server = server();
    let bob = phone(&server, "bob", &Scenario::new("answer").calls(40), "");
    // Long enough for three retransmissions of the 200 of a lost ACK.
    let lossy = ["-lost", "3", "-r", "40", "-d", "4000"];
    let lossy = Scenario::new("call").calls(40).with(&lossy);
    let alice = lossy.start(&server).finish_within(Duration::from_secs(60));
    let bob = bob.finish();
    assert!(alice.count("Retransmissions(C)") > 0, "nothing was lost");
    assert_eq!(alice.count("SuccessfulCall(C)"), 40);
    assert_eq!(bob.count("TotalCallCreated"), 40);
}
