//! Agents that call each other.

use crate::peer::PATIENCE;
use sip_stack::{Agent, CallEnd};

#[test]
fn agents_call_each_other_over_streams_and_both_address_families() {
    for (listener, transport) in [
        ("udp:127.0.0.1:0", "udp"),
        ("udp:[::1]:0", "udp"),
        ("tcp:127.0.0.1:0", "tcp"),
        ("tcp:[::1]:0", "tcp"),
    ] {
        let start = |address: &str| Agent::builder(address).bind(listener).start();
        let alice = start("sip:alice@example.org").expect("an agent");
        let bob = start("sip:bob@example.org").expect("an agent");
        let uri = format!(
            "sip:bob@{};transport={transport}",
            bob.listeners()[0].address
        );
        let callee = std::thread::spawn(move || {
            let incoming = bob.incoming(PATIENCE).expect("a call");
            assert_eq!(incoming.invite().body(), b"offer");
            let call = incoming.accept("answer").expect("up");
            // The callee hangs up.
            call.hang_up().expect("running")
        });
        let call = alice.invite(&uri).session("offer").send().expect("sent");
        assert_eq!(call.answered().expect("answered").body(), b"answer");
        assert!(matches!(call.ended(), CallEnd::ByPeer), "{listener}");
        assert!(matches!(callee.join().expect("no panic"), CallEnd::ByUs));
    }
}

#[test]
fn an_agent_calls_itself() {
    let agent = Agent::builder("sip:alice@example.org").bind("udp:127.0.0.1:0");
    let agent = agent.start().expect("an agent");
    let uri = format!("sip:alice@{}", agent.listeners()[0].address);
    let call = agent.invite(&uri).send().expect("sent");
    let incoming = agent.incoming(PATIENCE).expect("a call");
    let other = incoming.accept("answer").expect("up");
    call.answered().expect("answered");
    drop(call);
    assert!(matches!(other.ended(), CallEnd::ByPeer));
}
