//! Calls that the agent makes.

use crate::peer::{Peer, Received, alice};
use sip_message::Credentials;
use sip_message::digest::{DigestInput, ha1_sha256, response_sha256};
use sip_stack::{Agent, Call, CallEnd, CallError, NotSent};

fn start() -> Agent {
    let alice = alice().credentials("alice", "secret");
    alice.start().expect("an agent")
}

/// A call to the peer, and its INVITE.
fn call(agent: &Agent, peer: &mut Peer) -> (Call, Received) {
    let call = agent.invite(&peer.uri()).session("offer").send();
    let call = call.expect("sent");
    let invite = peer.expect("INVITE ");
    (call, invite)
}

/// A call that the peer has accepted.
fn established(agent: &Agent, peer: &mut Peer) -> (Call, Received) {
    let (call, invite) = call(agent, peer);
    peer.accept(&invite, "b");
    call.answered().expect("answered");
    let ack = peer.expect("ACK ");
    (call, ack)
}

fn hang_up(call: Call, peer: &mut Peer) -> CallEnd {
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let bye = peer.expect("BYE ");
    peer.ok(&bye);
    ended.join().expect("no panic")
}

#[test]
fn a_call_is_answered_acknowledged_and_hung_up_along_the_route_set() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    assert_eq!(invite.body(), "offer");
    assert_eq!(invite.value("Content-Type"), "application/sdp");
    assert_eq!(invite.value("CSeq"), "1 INVITE");
    peer.respond(&invite, "180 Ringing", "b", "", "");
    assert_eq!(call.ringing().expect("alive").expect("180").status(), 180);
    // The second route is nearer to the caller.
    let routes = format!(
        "Record-Route: <sip:192.0.2.9;lr>\r\nRecord-Route: <sip:{};lr>\r\nContact: <sip:b@192.0.2.7>\r\n",
        peer.address
    );
    peer.respond(&invite, "200 OK", "b", &routes, "answer");
    assert_eq!(call.answered().expect("answered").body(), b"answer");
    let ack = peer.expect("ACK sip:b@192.0.2.7 ");
    assert_eq!(ack.value("CSeq"), "1 ACK");
    let route = [
        format!("<sip:{};lr>", peer.address),
        "<sip:192.0.2.9;lr>".to_owned(),
    ];
    assert_eq!(ack.values("Route"), route);
    assert_ne!(ack.value("Via"), invite.value("Via"), "a branch of its own");
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let bye = peer.expect("BYE sip:b@192.0.2.7 ");
    assert_eq!(bye.value("CSeq"), "2 BYE");
    assert_eq!(bye.values("Route"), route);
    for name in ["From", "To", "Call-ID"] {
        assert_eq!(bye.value(name), ack.value(name));
    }
    assert!(bye.value("To").ends_with(";tag=b"));
    peer.ok(&bye);
    assert!(matches!(ended.join().expect("no panic"), CallEnd::ByUs));
}

#[test]
fn a_retransmitted_2xx_gets_the_same_ack_again() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.accept(&invite, "b");
    let ack = peer.expect("ACK ");
    for _ in 0..2 {
        peer.accept(&invite, "b");
        assert_eq!(peer.next().text, ack.text);
    }
    assert!(matches!(hang_up(call, &mut peer), CallEnd::ByUs));
    // The call is over, but its 2xx may still arrive.
    peer.accept(&invite, "b");
    assert_eq!(peer.next().text, ack.text);
}

#[test]
fn the_2xx_of_another_branch_is_acknowledged_and_hung_up() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.respond(&invite, "180 Ringing", "b", "", "");
    peer.respond(&invite, "180 Ringing", "c", "", "");
    peer.accept(&invite, "b");
    assert!(peer.expect("ACK ").value("To").ends_with(";tag=b"));
    peer.accept(&invite, "c");
    assert!(peer.expect("ACK ").value("To").ends_with(";tag=c"));
    let bye = peer.expect("BYE ");
    assert!(bye.value("To").ends_with(";tag=c"));
    peer.ok(&bye);
    assert!(peer.is_left_alone());
    assert!(call.end().is_none(), "the first branch goes on");
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let bye = peer.expect("BYE ");
    assert!(bye.value("To").ends_with(";tag=b"));
    peer.ok(&bye);
    ended.join().expect("no panic");
}

/// The challenge of a proxy.
fn challenge(nonce: &str, more: &str) -> String {
    format!(
        "Proxy-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", qop=\"auth\", algorithm=SHA-256{more}\r\n"
    )
}

/// Panics unless the request has the right credentials for this nonce and count.
fn check(request: &Received, nonce: &str, count: u32) {
    let value = request.value("Proxy-Authorization").as_bytes();
    let given = Credentials::parse(value).expect("credentials");
    assert_eq!((given.nonce, given.nc), (nonce.as_bytes(), Some(count)));
    let (method, rest) = request.text.split_once(' ').expect("a request line");
    let uri = rest.split(' ').next().expect("a request line");
    assert_eq!(given.uri, uri.as_bytes());
    let input = DigestInput {
        method: method.as_bytes(),
        uri: given.uri,
        nonce: given.nonce,
        qop_auth: given.nc_bytes.zip(given.cnonce),
    };
    let expected = response_sha256(&ha1_sha256(b"alice", b"r", b"secret"), &input);
    assert_eq!(given.response, expected);
}

#[test]
fn challenges_are_answered_in_the_same_call_also_if_the_nonce_is_stale() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, first) = call(&agent, &mut peer);
    peer.respond(
        &first,
        "407 Proxy Authentication Required",
        "p",
        &challenge("1", ""),
        "",
    );
    peer.expect("ACK ");
    let second = peer.expect("INVITE ");
    check(&second, "1", 1);
    assert_eq!(second.value("CSeq"), "2 INVITE");
    assert_eq!(second.value("Call-ID"), first.value("Call-ID"));
    assert_eq!(second.value("From"), first.value("From"));
    let stale = challenge("2", ", stale=true");
    peer.respond(
        &second,
        "407 Proxy Authentication Required",
        "p",
        &stale,
        "",
    );
    peer.expect("ACK ");
    let third = peer.expect("INVITE ");
    check(&third, "2", 1);
    assert_eq!(third.value("CSeq"), "3 INVITE");
    peer.accept(&third, "b");
    let ack = peer.expect("ACK ");
    assert_eq!(ack.value("CSeq"), "3 ACK");
    let credentials = "Proxy-Authorization";
    assert_eq!(ack.value(credentials), third.value(credentials));
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let bye = peer.expect("BYE ");
    check(&bye, "2", 2);
    // The nonce has expired in the meantime.
    peer.respond(
        &bye,
        "407 Proxy Authentication Required",
        "",
        &challenge("3", ""),
        "",
    );
    let bye = peer.expect("BYE ");
    check(&bye, "3", 1);
    assert_eq!(bye.value("CSeq"), "5 BYE");
    peer.ok(&bye);
    ended.join().expect("no panic");
}

#[test]
fn a_wrong_password_is_sent_once() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.respond(&invite, "407 No", "p", &challenge("1", ""), "");
    peer.expect("ACK ");
    let invite = peer.expect("INVITE ");
    peer.respond(&invite, "407 No", "p", &challenge("2", ""), "");
    peer.expect("ACK ");
    let Err(CallError::Ended(CallEnd::Rejected(response))) = call.answered() else {
        panic!("not rejected");
    };
    assert_eq!(response.status(), 407);
    assert!(peer.is_left_alone());
}

#[test]
fn a_server_that_finds_every_nonce_stale_is_not_asked_for_ever() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, mut invite) = call(&agent, &mut peer);
    for number in 0.. {
        let stale = challenge(&number.to_string(), ", stale=true");
        peer.respond(&invite, "407 No", "p", &stale, "");
        peer.expect("ACK ");
        if number == 5 {
            break;
        }
        invite = peer.expect("INVITE ");
    }
    assert!(call.answered().is_err());
    assert!(peer.is_left_alone());
}

#[test]
fn hanging_up_before_the_answer_cancels() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.respond(&invite, "180 Ringing", "b", "", "");
    call.ringing().expect("alive");
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let cancel = peer.expect("CANCEL ");
    assert_eq!(cancel.value("CSeq"), "1 CANCEL");
    assert_eq!(cancel.value("Via"), invite.value("Via"));
    peer.ok(&cancel);
    peer.respond(&invite, "487 Request Terminated", "b", "", "");
    peer.expect("ACK ");
    assert!(matches!(ended.join().expect("no panic"), CallEnd::ByUs));
}

#[test]
fn a_2xx_that_crosses_the_cancel_is_hung_up() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.respond(&invite, "180 Ringing", "b", "", "");
    call.ringing().expect("alive");
    let ended = std::thread::spawn(move || call.hang_up().expect("running"));
    let cancel = peer.expect("CANCEL ");
    peer.ok(&cancel);
    peer.accept(&invite, "b");
    peer.expect("ACK ");
    let bye = peer.expect("BYE ");
    peer.ok(&bye);
    assert!(matches!(ended.join().expect("no panic"), CallEnd::ByUs));
}

#[test]
fn a_call_that_is_dropped_hangs_up_and_one_that_the_peer_ends_does_not() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, _) = established(&agent, &mut peer);
    drop(call);
    let bye = peer.expect("BYE ");
    peer.ok(&bye);
    let (call, ack) = established(&agent, &mut peer);
    let (ours, theirs) = (ack.value("From"), ack.value("To"));
    let more = format!(
        "From: {theirs}\r\nTo: {ours}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\n",
        ack.value("Call-ID")
    );
    let own = agent.listeners()[0].address;
    peer.send(
        own,
        &peer.request(&format!("BYE sip:alice@{own}"), "bye", &more, ""),
    );
    peer.expect("SIP/2.0 200 ");
    assert!(matches!(call.ended(), CallEnd::ByPeer));
    drop(call);
    assert!(peer.is_left_alone());
}

#[test]
fn a_busy_callee_and_a_silent_one_end_the_call() {
    let (agent, mut peer) = (start(), Peer::new());
    let (call, invite) = call(&agent, &mut peer);
    peer.respond(&invite, "486 Busy Here", "b", "", "");
    let Err(error) = call.answered() else {
        panic!("busy");
    };
    assert_eq!(error.to_string(), "call rejected: 486 Busy Here");
    let silent = Peer::new();
    let call = agent.invite(&silent.uri()).send().expect("sent");
    assert!(matches!(call.ended(), CallEnd::NoAnswer));
}

#[test]
fn a_call_without_a_way_there_is_not_sent() {
    let agent = start();
    for uri in [
        "bob",
        "tel:123",
        "sip:b@192.0.2.1;transport=tls",
        "sip:b@224.0.0.1",
    ] {
        let call = agent.invite(uri).send();
        assert!(matches!(call, Err(CallError::NotSent(_))), "{uri}");
    }
}

#[test]
fn a_program_adds_header_fields_but_cannot_replace_or_inject_any() {
    let (agent, mut peer) = (start(), Peer::new());
    let dial = agent.invite(&peer.uri()).field("X-Account", "7\r\nVia: x");
    let _call = dial.send().expect("sent");
    let invite = peer.expect("INVITE ");
    assert_eq!(invite.value("X-Account"), "7 Via: x");
    for name in ["f", "content-length", "Route", "X:", "X\r\nVia", ""] {
        let call = agent.invite(&peer.uri()).field(name, "x").send();
        assert!(
            matches!(call, Err(CallError::NotSent(NotSent::BadField))),
            "{name}"
        );
    }
}
