//! The example user agent of `sip-stack` (`examples/call.rs`) makes and takes calls through the server, with itself, sipp and baresip.

use interop::{
    Baresip, Child, Moment, PATIENCE, Phone, Scenario, Server, ServerOptions, wait_until,
};
use std::process::Command;

/// Starts the user agent of a subscriber. Without a callee, it registers and waits for a call.
fn user_agent(server: &Server, user: &str, callee: Option<&str>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_user-agent"));
    let proxy = format!("sip:{}", server.address());
    command.args([user, &Server::password(user), server.domain(), &proxy]);
    command.args(callee.map(|callee| server.uri(callee)));
    Child::start(&mut command, &server.path(&format!("{user}.log")))
}

/// Starts a user agent that waits for a call.
fn waiting(server: &Server, user: &str) -> Child {
    let agent = user_agent(server, user, None);
    wait_until("registered", || agent.output().contains("registered"));
    assert_eq!(server.bindings(user).len(), 1);
    agent
}

/// Waits for the end of a user agent, which must have printed this last.
fn ended(mut agent: Child, last: &str) {
    let status = agent.wait_at_most(PATIENCE);
    let output = agent.output();
    assert!(status.is_some_and(|status| status.success()), "{output}");
    assert_eq!(output.lines().last(), Some(last), "{output}");
}

#[test]
fn two_user_agents_call_each_other_with_digest() {
    for algorithms in ["[\"MD5\"]", "[\"SHA-256\", \"MD5\"]"] {
        let auth = format!("[auth]\nalgorithms = {algorithms}\n");
        let server = Server::start(&ServerOptions::with(&auth));
        let bob = waiting(&server, "bob");
        let alice = user_agent(&server, "alice", Some("bob"));
        ended(alice, "ended: ByUs");
        ended(bob, "ended: ByPeer");
        assert!(server.bindings("bob").is_empty(), "it removes its binding");
    }
}

#[test]
fn a_wrong_password_and_an_absent_callee_are_reported() {
    let server = Server::start(&ServerOptions::default());
    let mut alice = user_agent(&server, "alice", Some("carol"));
    assert!(!alice.wait().success());
    assert!(alice.output().contains("480"), "{}", alice.output());
    let mut command = Command::new(env!("CARGO_BIN_EXE_user-agent"));
    let proxy = format!("sip:{}", server.address());
    command.args(["alice", "guess", server.domain(), &proxy]);
    let (code, output) = interop::run(&mut command);
    assert_ne!(code, 0);
    assert!(output.contains("401"), "{output}");
    assert!(server.bindings("alice").is_empty());
}

#[test]
fn it_calls_sipp_and_sipp_calls_it() {
    let server = Server::start(&ServerOptions::default());
    let sipp = Scenario::new("answer").start(&server);
    server.register("bob", sipp.address, "");
    let alice = user_agent(&server, "alice", Some("bob"));
    ended(alice, "ended: ByUs");
    let messages = sipp.finish().messages;
    for request in ["INVITE", "ACK", "BYE"] {
        assert_eq!(messages.received(request).len(), 1, "{request}");
    }
    let carol = waiting(&server, "carol");
    Scenario::new("call").to("carol").run(&server);
    ended(carol, "ended: ByPeer");
}

#[test]
fn baresip_calls_it_and_hangs_up() {
    let server = Server::start(&ServerOptions::default());
    let bob = waiting(&server, "bob");
    let mut alice = Baresip::start(&server, "alice");
    alice.dial("sip:bob@example.org");
    alice.wait_until(Moment::Established);
    alice.hang_up();
    alice.wait_until(Moment::Over);
    ended(bob, "ended: ByPeer");
}
