//! What a program that takes no events costs, and what bad peers can cause.

use crate::peer::{Peer, alice};
use sip_stack::{Agent, Bounds};
use std::net::SocketAddr;
use std::time::Duration;

fn invite(peer: &Peer, to: SocketAddr, name: &str, from_tag: &str) {
    let head = format!(
        "From: <sip:bob@example.org>;tag={from_tag}\r\nTo: <sip:alice@example.org>\r\nCall-ID: {name}\r\nCSeq: 1 INVITE\r\n"
    );
    let branch = format!("{name}{from_tag}");
    let request = peer.request(&format!("INVITE sip:alice@{to}"), &branch, &head, "");
    peer.send(to, &request);
}

fn start(bounds: Bounds) -> (Agent, SocketAddr) {
    let agent = alice().bounds(bounds).start().expect("an agent");
    let own = agent.listeners()[0].address;
    (agent, own)
}

/// The status of the response to an INVITE after 100.
fn status(peer: &mut Peer) -> String {
    loop {
        let response = peer.expect("SIP/2.0 ");
        if !response.start().starts_with("SIP/2.0 100") {
            return response.start().to_owned();
        }
    }
}

#[test]
fn calls_that_nobody_takes_are_rejected_once_64_wait() {
    let mut peer = Peer::new();
    let (agent, own) = start(Bounds::default());
    for number in 0..64 {
        invite(&peer, own, &number.to_string(), "1");
        peer.expect("SIP/2.0 100 ");
    }
    invite(&peer, own, "64", "1");
    assert_eq!(status(&mut peer), "SIP/2.0 486 Busy Here");
    assert!(agent.incoming(Duration::ZERO).is_some());
}

#[test]
fn calls_beyond_the_bound_get_503() {
    let mut peer = Peer::new();
    let (_agent, own) = start(Bounds {
        calls: 2,
        ..Bounds::default()
    });
    for name in ["a", "b"] {
        invite(&peer, own, name, "1");
        peer.expect("SIP/2.0 100 ");
    }
    invite(&peer, own, "c", "1");
    assert_eq!(status(&mut peer), "SIP/2.0 503 Service Unavailable");
}

#[test]
fn calls_of_one_call_id_are_few() {
    let mut peer = Peer::new();
    let (_agent, own) = start(Bounds::default());
    for tag in ["1", "2", "3", "4"] {
        invite(&peer, own, "same", tag);
        peer.expect("SIP/2.0 100 ");
    }
    invite(&peer, own, "same", "5");
    assert_eq!(status(&mut peer), "SIP/2.0 503 Service Unavailable");
}

#[test]
fn a_call_that_is_neither_taken_nor_cancelled_ends() {
    let mut peer = Peer::new();
    let (_agent, own) = start(Bounds {
        ringing: Duration::from_millis(300),
        ..Bounds::default()
    });
    invite(&peer, own, "a", "1");
    assert_eq!(status(&mut peer), "SIP/2.0 480 Temporarily Unavailable");
}

#[test]
fn a_peer_that_rings_for_ever_is_cancelled() {
    let mut peer = Peer::new();
    let (agent, _) = start(Bounds {
        ringing: Duration::from_millis(300),
        ..Bounds::default()
    });
    let call = agent.invite(&peer.uri()).send().expect("sent");
    let invite = peer.expect("INVITE ");
    peer.respond(&invite, "180 Ringing", "b", "", "");
    let cancel = peer.expect("CANCEL ");
    peer.ok(&cancel);
    peer.respond(&invite, "487 Request Terminated", "b", "", "");
    assert!(call.answered().is_err());
}
