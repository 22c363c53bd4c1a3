//! Runs sipsak against the server: it pings, registers, and sends damaged messages.

use interop::{Server, ServerOptions, run, wait_until};
use serde_json::{Value, json};
use std::process::Command;

/// A flood is answered statelessly, so only buffers of the admin interface grow.
const MAX_GROWTH: u64 = 8 << 20;

/// A domain that sipsak can resolve, which it requires. It supports only MD5 and reads only the first challenge.
fn server() -> Server {
    Server::start(&ServerOptions {
        domain: "localhost".to_owned(),
        ..ServerOptions::default()
    })
}

/// Runs sipsak. Returns exit code and output. The port is a separate argument, because sipsak cuts off the fifth digit of
/// a port in the URI.
fn sipsak(server: &Server, uri: &str, arguments: &[&str]) -> (i32, String) {
    let port = server.address().port().to_string();
    let to = ["-s", uri, "-r", &port, "--timer-t1=20"];
    run(Command::new("sipsak").args(to).args(arguments))
}

fn register(server: &Server, password: &str, contact: &str, expires: &str) -> (i32, String) {
    let who = ["-U", "-i", "-u", "alice", "-a", password];
    let what = ["-C", contact, "-x", expires];
    let arguments: Vec<&str> = who.into_iter().chain(what).collect();
    sipsak(server, "sip:alice@localhost", &arguments)
}

#[test]
fn options_are_answered() {
    let server = server();
    let (code, output) = sipsak(&server, "sip:localhost", &["-vv"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("SIP/2.0 200 OK"), "{output}");
}

#[test]
fn a_user_location_is_registered_and_removed_with_the_right_password_only() {
    let server = server();
    let contact = "sip:alice@127.0.0.1:5999";
    let (code, output) = register(&server, "guess", contact, "600");
    assert_ne!(code, 0, "{output}");
    assert!(output.contains("SIP/2.0 401"), "{output}");
    assert_eq!(server.bindings("alice"), Vec::<Value>::new());

    let (code, output) = register(&server, &Server::password("alice"), contact, "600");
    assert_eq!(code, 0, "{output}");
    let bindings = server.bindings("alice");
    assert_eq!(bindings.len(), 1, "{bindings:?}");
    assert_eq!(bindings[0]["contact"], contact);

    let (code, output) = register(&server, &Server::password("alice"), "*", "0");
    assert_eq!(code, 0, "{output}");
    assert_eq!(server.bindings("alice"), Vec::<Value>::new());
}

#[test]
fn a_flood_and_messages_with_trashed_characters_leave_the_server_as_it_was() {
    let server = server();
    let memory = || {
        let summary = server.rpc("stats.summary", &json!({}));
        let bytes = summary["resident_memory_bytes"].as_u64();
        bytes.expect("a number of bytes")
    };
    let before = memory();
    for _ in 0..4 {
        let (code, output) = sipsak(&server, "sip:localhost", &["-F", "-e", "20000", "-i"]);
        assert_eq!(code, 0, "{output}");
    }
    // Damages one character, then two, and so on, until the server can no longer answer. Exit code 3 reports this.
    for _ in 0..10 {
        let (code, output) = sipsak(&server, "sip:localhost", &["-R", "-i"]);
        assert_eq!(code, 3, "{output}");
    }
    let (code, output) = sipsak(&server, "sip:localhost", &["-vv"]);
    assert_eq!(code, 0, "{output}");
    assert!(server.is_ready());
    assert!(server.metric("tandem_responses_sent_total", "400") > 0.0);
    assert!(server.metric("tandem_dropped_total", "not_sip") > 0.0);
    // Messages that a worker could not serve at once waited in its backlog. That memory is released a moment later.
    wait_until("the memory of the flood is given back", || {
        memory().saturating_sub(before) <= MAX_GROWTH
    });
}
