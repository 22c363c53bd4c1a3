//! REGISTER: challenged, refreshed, removed.

use crate::peer::{Peer, Received, alice};
use sip_stack::{Agent, CallError, Registration};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An agent whose registrar is the peer, and its first REGISTER.
fn register(peer: &mut Peer) -> (JoinHandle<Result<Registration, CallError>>, Received) {
    let proxy = format!("sip:{}", peer.address);
    let alice = alice().credentials("alice", "secret").proxy(&proxy);
    let agent: Agent = alice.start().expect("an agent");
    let registered = std::thread::spawn(move || agent.register());
    let request = peer.expect("REGISTER sip:example.org ");
    (registered, request)
}

/// Accepts a REGISTER for some seconds.
fn grant(peer: &Peer, request: &Received, seconds: u32) {
    let other = "Contact: <sip:alice@192.0.2.7>;expires=9\r\n";
    let own = format!("Contact: <{}>;expires={seconds}\r\n", request.contact());
    peer.respond(request, "200 OK", "r", &format!("{other}{own}"), "");
}

#[test]
fn a_registration_is_challenged_refreshed_and_removed() {
    let mut peer = Peer::new();
    let (registered, request) = register(&mut peer);
    assert_eq!(request.value("Expires"), "3600");
    assert_eq!(request.value("Route"), format!("<sip:{};lr>", peer.address));
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n";
    peer.respond(&request, "401 Unauthorized", "r", challenge, "");
    let request = peer.expect("REGISTER ");
    assert!(request.value("Authorization").contains("nc=00000001"));
    grant(&peer, &request, 2);
    let granted = Instant::now();
    let registration = registered.join().expect("no panic").expect("registered");
    assert_eq!(registration.lifetime(), Some(Duration::from_secs(2)));
    let refresh = peer.expect("REGISTER ");
    assert!(
        granted.elapsed() > Duration::from_millis(900),
        "not at once"
    );
    assert!(refresh.value("Authorization").contains("nc=00000002"));
    assert_eq!(refresh.value("Call-ID"), request.value("Call-ID"));
    assert_eq!(refresh.value("CSeq"), "3 REGISTER");
    grant(&peer, &refresh, 3_600);
    let ended = std::thread::spawn(move || registration.end());
    let removal = peer.expect("REGISTER ");
    assert_eq!(removal.value("Expires"), "0");
    peer.respond(&removal, "200 OK", "r", "", "");
    ended.join().expect("no panic").expect("running");
}

#[test]
fn a_registration_that_is_dropped_is_removed() {
    let mut peer = Peer::new();
    let (registered, request) = register(&mut peer);
    grant(&peer, &request, 3_600);
    // The last value of the agent waits for the response.
    let dropped = std::thread::spawn(move || drop(registered.join()));
    let removal = peer.expect("REGISTER ");
    assert_eq!(removal.value("Expires"), "0");
    peer.respond(&removal, "200 OK", "r", "", "");
    dropped.join().expect("no panic");
}

#[test]
fn a_lifetime_that_is_too_brief_is_asked_for_again() {
    let mut peer = Peer::new();
    let (registered, request) = register(&mut peer);
    peer.respond(
        &request,
        "423 Interval Too Brief",
        "r",
        "Min-Expires: 7200\r\n",
        "",
    );
    let request = peer.expect("REGISTER ");
    assert_eq!(request.value("Expires"), "7200");
    // A registrar that always wants more is not asked for ever.
    peer.respond(
        &request,
        "423 Interval Too Brief",
        "r",
        "Min-Expires: 7200\r\n",
        "",
    );
    let error = registered.join().expect("no panic").expect_err("refused");
    assert_eq!(
        error.to_string(),
        "registration refused: 423 Interval Too Brief"
    );
    assert!(peer.is_left_alone());
}

#[test]
fn a_refused_registration_is_not_retried() {
    let mut peer = Peer::new();
    let (registered, request) = register(&mut peer);
    peer.respond(&request, "403 Forbidden", "r", "", "");
    let error = registered.join().expect("no panic").expect_err("refused");
    assert!(
        matches!(error, CallError::NotRegistered(Some(_))),
        "{error:?}"
    );
    assert!(peer.is_left_alone());
}
