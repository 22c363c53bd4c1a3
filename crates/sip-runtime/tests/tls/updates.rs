//! Events in an established session: close, key updates and silence.

use super::authority::Authority;
use super::peer::{Pair, Setup, VERSIONS};
use sip_runtime::tls::{Received, TlsError};

#[test]
fn both_sides_may_say_goodbye_and_what_was_sent_before_arrives() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    for (_, versions) in &VERSIONS {
        let config = Setup::version(versions).config(authority.roots());
        let mut pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
        std::io::Write::write_all(&mut pair.client.writer(), b"last").expect("room");
        pair.client.send_close_notify();
        let (mut bytes, mut heard) = (pair.client_says(), Vec::new());
        let received = pair
            .session
            .receive(&mut bytes, &mut heard)
            .expect("received");
        let expected = Received {
            plaintext: 4,
            established: false,
            closed: true,
        };
        assert_eq!((received, heard.as_slice()), (expected, b"last".as_slice()));
        assert_eq!(pair.answer(b"answer"), b"answer", "one side may go on");
        let mut goodbye = Vec::new();
        pair.session.close(&mut goodbye);
        pair.give_client(&goodbye).expect("received");
        assert!(
            pair.client
                .process_new_packets()
                .expect("state")
                .peer_has_closed()
        );
        assert!(matches!(
            pair.session.send(b"more", &mut Vec::new()),
            Err(TlsError::Ours(_))
        ));
        let mut again = Vec::new();
        pair.session.close(&mut again);
        assert!(again.is_empty(), "once is enough");
    }
}

#[test]
fn nothing_can_be_sent_before_the_handshake_has_ended() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::new(&config, "example.org", context.acceptor().expect("one"));
    assert!(matches!(
        pair.session.send(b"x", &mut Vec::new()),
        Err(TlsError::Ours(_))
    ));
    pair.handshake().expect("it is no reason to fail");
    assert_eq!(pair.answer(b"x"), b"x");
}

#[test]
fn new_keys_may_be_asked_for_at_any_time() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
    for round in 0..5 {
        pair.client.refresh_traffic_keys().expect("TLS 1.3");
        assert_eq!(pair.say(b"under new keys"), b"under new keys", "{round}");
        assert_eq!(pair.answer(b"and back"), b"and back", "{round}");
    }
}

#[test]
fn a_peer_that_asks_for_new_keys_all_the_time_is_stopped() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
    let mut bytes = Vec::new();
    for _ in 0..100 {
        pair.client.refresh_traffic_keys().expect("TLS 1.3");
        bytes.append(&mut pair.client_says());
    }
    let refused = pair.session.receive(&mut bytes, &mut Vec::new());
    assert!(
        matches!(refused, Err(TlsError::PeerMisbehaved(_))),
        "{refused:?}"
    );
}

#[test]
fn what_the_protocol_has_to_say_leaves_before_what_is_sent() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::new(&config, "example.org", context.acceptor().expect("one"));
    while pair.session.is_handshaking() {
        pair.tell_client().expect("the client goes on");
        let mut bytes = pair.client_says();
        pair.session
            .receive(&mut bytes, &mut Vec::new())
            .expect("the session goes on");
    }
    assert!(pair.session.has_output(), "a ticket");
    assert_eq!(pair.answer(b"after the ticket"), b"after the ticket");
    assert!(!pair.session.has_output());
}
