//! Next hops by name: lookups that the program answers, and failover (RFC 3263 section 4.3).

use crate::peer::{Peer, alice};
use sip_stack::{Agent, CallEnd, CallError, Candidate, Lookup, Protocol, Resolve};
use std::net::SocketAddr;

/// Knows one name.
struct Names(Vec<SocketAddr>);

impl Resolve for Names {
    fn resolve(&mut self, lookup: Lookup) {
        if &*lookup.destination().host == "carrier.test" {
            let candidates = self.0.iter().map(|address| Candidate {
                protocol: Protocol::Udp,
                address: *address,
            });
            lookup.answer(candidates.collect());
        }
    }
}

fn agent(servers: &[&Peer]) -> Agent {
    let servers = servers.iter().map(|peer| peer.address).collect();
    alice().resolver(Names(servers)).start().expect("an agent")
}

#[test]
fn the_next_server_gets_the_call_if_the_first_refuses_with_503() {
    let (mut first, mut second) = (Peer::new(), Peer::new());
    let agent = agent(&[&first, &second]);
    let call = agent.invite("sip:bob@carrier.test").send().expect("sent");
    let invite = first.expect("INVITE sip:bob@carrier.test ");
    first.respond(&invite, "503 Service Unavailable", "p", "", "");
    first.expect("ACK ");
    let again = second.expect("INVITE sip:bob@carrier.test ");
    assert_eq!(again.value("Call-ID"), invite.value("Call-ID"));
    assert_ne!(again.value("Via"), invite.value("Via"));
    // The target is a name too: ACK and BYE go where the INVITE went.
    second.respond(
        &again,
        "200 OK",
        "b",
        "Contact: <sip:bob@carrier.test>\r\n",
        "",
    );
    call.answered().expect("answered");
    second.expect("ACK ");
    drop(call);
    let bye = second.expect("BYE ");
    second.ok(&bye);
    assert!(first.is_left_alone());
}

#[test]
fn the_next_server_gets_the_call_if_the_first_is_silent() {
    let (silent, mut second) = (Peer::new(), Peer::new());
    let agent = agent(&[&silent, &second]);
    let call = agent.invite("sip:bob@carrier.test").send().expect("sent");
    let invite = second.expect("INVITE ");
    second.accept(&invite, "b");
    call.answered().expect("answered");
}

#[test]
fn an_unknown_name_ends_the_call() {
    let agent = agent(&[]);
    let call = agent.invite("sip:bob@nowhere.test").send().expect("sent");
    let error = call.answered().expect_err("nowhere");
    assert!(
        matches!(error, CallError::Ended(CallEnd::Unreachable)),
        "{error:?}"
    );
}

#[test]
#[cfg(feature = "resolver")]
fn the_systems_names_are_known() {
    let mut peer = Peer::new();
    let agent = alice().start().expect("an agent");
    let uri = format!("sip:bob@localhost:{}", peer.address.port());
    let call = agent.invite(&uri).send().expect("sent");
    let invite = peer.expect("INVITE sip:bob@localhost:");
    peer.accept(&invite, "b");
    call.answered().expect("answered");
}
