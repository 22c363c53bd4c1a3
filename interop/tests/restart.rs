//! Tests what survives `kill -9`: registrations, nonces and dialogs.

use interop::{Scenario, Server, ServerOptions, wait_until};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;

fn server() -> Server {
    Server::start(&ServerOptions::default())
}

fn wait_until_saved(server: &Server) {
    wait_until("registrations are saved", || {
        server.metric("tandem_location_unsaved", "") == 0.0
    });
}

/// Sends OPTIONS repeatedly until one is answered.
fn wait_for_the_first_answer(server: &Server) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let short = Some(Duration::from_millis(5));
    socket.set_read_timeout(short).expect("a timeout");
    let port = socket.local_addr().expect("bound").port();
    let options = format!(
        "OPTIONS sip:{} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bKfirst\r\nMax-Forwards: 70\r\n\
         From: <sip:test@example.net>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: first@interop\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n",
        server.address()
    );
    let mut answer = [0; 2000];
    wait_until("OPTIONS is answered", || {
        // Before the socket is bound, the kernel reports that nothing listens.
        let _ = socket.send_to(options.as_bytes(), server.address());
        socket.recv(&mut answer).is_ok()
    });
    assert!(answer.starts_with(b"SIP/2.0 200"));
}

/// Removes from bindings what changes with time.
fn lasting(bindings: Vec<Value>) -> Vec<Value> {
    let mut bindings = bindings;
    for binding in &mut bindings {
        binding["expires_in"].take();
    }
    bindings
}

#[test]
fn registrations_are_back_before_the_first_answer_and_a_call_goes_through_at_once() {
    let mut server = server();
    let bob = Scenario::new("answer").start(&server);
    server.register("bob", bob.address, ";q=0.5");
    let contacts =
        (1..=10).map(|phone| format!("<sip:carol@127.0.0.1:{}>;q=0.{phone}", 6000 + phone));
    let contacts = contacts.collect::<Vec<_>>().join(", ");
    Scenario::new("register")
        .from("carol")
        .key("contact", &contacts)
        .run(&server);
    let bindings = |server: &Server| {
        let of = |user| lasting(server.bindings(user));
        (of("bob"), of("carol"))
    };
    let before = bindings(&server);
    assert_eq!((before.0.len(), before.1.len()), (1, 10));
    wait_until_saved(&server);

    server.kill();
    server.launch();
    wait_for_the_first_answer(&server);
    assert_eq!(bindings(&server), before);
    Scenario::new("call").run(&server);
    bob.finish();
}

#[test]
fn a_call_begun_before_the_crash_is_hung_up_after_it() {
    let mut server = server();
    let bob = Scenario::new("answer").start(&server);
    server.register("bob", bob.address, "");
    let alice = Scenario::new("call_held").start(&server);
    bob.wait_for("ACK");
    let calls = |server: &Server| server.count("tandem_dialogs", "state=\"confirmed\"");
    wait_until("the call is saved", || {
        calls(&server) == 1 && server.count("tandem_dialogs_saves_total", "") > 0
    });

    server.kill();
    server.restart();
    assert_eq!(calls(&server), 1, "it is known again");
    alice.cue();
    alice.finish();
    bob.finish();
    wait_until("the call is over", || calls(&server) == 0);
    assert_eq!(
        server.count("tandem_dialogs_ended_total", "cause=\"caller\""),
        1
    );

    wait_until("its row is removed", || {
        server.count("tandem_dialogs_saves_total", "") > 0
            && server.count("tandem_dialogs_unsaved", "") == 0
    });
    server.kill();
    server.restart();
    assert_eq!(calls(&server), 0);
}

#[test]
fn a_phone_that_rang_before_the_crash_is_answered_after_it() {
    let mut server = server();
    let bob = Scenario::new("answer_held").start(&server);
    server.register("bob", bob.address, "");
    let alice = Scenario::new("call").start(&server);
    alice.wait_for("SIP/2.0 180");

    server.kill();
    server.restart();
    bob.wait_for("INVITE");
    bob.cue();
    alice.finish();
    bob.finish();
}

#[test]
fn a_nonce_given_before_the_crash_is_renewed_without_asking_the_user() {
    let mut server = server();
    let alice = Scenario::new("register_held");
    let alice = alice
        .key("contact", "<sip:alice@127.0.0.1:5999>")
        .start(&server);
    alice.wait_for("SIP/2.0 401");

    server.kill();
    server.restart();
    alice.cue();
    let alice = alice.finish();
    let challenges = alice.messages.received("SIP/2.0 401");
    // The count of its uses is lost, so the nonce is no longer valid. But the server still recognizes it as its own.
    assert!(challenges[1].contains("stale=true"), "{}", challenges[1]);
    assert_eq!(server.bindings("alice").len(), 1);
}
