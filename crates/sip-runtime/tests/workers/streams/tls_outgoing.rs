//! Connections that switches open over TLS: the callee must prove the name that was dialed.

use super::authority::Authority;
use super::peer::{Peer, accepted};
use super::secure_peer::{Client, NAME, client_of, server_over, trusting, with_tls};
use super::switch::{Switches, framed, impatient};
use crate::workers::script::ANYWHERE;
use sip_runtime::CloseReason;
use sip_transport::Protocol;
use std::net::{SocketAddr, TcpListener};

/// Switches, a peer that makes them dial, and the callee's listener.
struct Scene {
    switches: Switches,
    caller: Peer<Client>,
    callee: TcpListener,
    authority: Authority,
}

impl Scene {
    fn new() -> Self {
        let authority = Authority::new();
        let options = with_tls(authority.context(&[&[NAME]]), impatient());
        let switches = Switches::speaking(Protocol::Tls, options);
        Self {
            caller: client_of(&switches, &trusting(authority.roots(), None)),
            switches,
            callee: TcpListener::bind(ANYWHERE[0]).expect("bind"),
            authority,
        }
    }

    fn address(&self) -> SocketAddr {
        self.callee.local_addr().expect("an address")
    }

    fn dial(&mut self, name: &str, text: &str) {
        let to = self.address();
        self.caller
            .send(&framed(&format!("dial {to}/{name} {text}")));
    }

    /// Accepts the next connection, as the callee.
    fn accept(&self, names: &[&str]) -> Peer<super::secure_peer::Server> {
        server_over(accepted(&self.callee), &self.authority, names)
    }
}

#[test]
fn messages_wait_for_the_handshake_and_arrive_in_order() {
    let mut scene = Scene::new();
    for text in ["one", "two", "three"] {
        scene.dial("bob.example", text);
    }
    let mut callee = scene.accept(&["bob.example"]);
    for text in ["one", "two", "three"] {
        assert_eq!(callee.receive(), text);
    }
    scene.dial("bob.example", "four");
    assert_eq!(callee.receive(), "four");
    assert_eq!(callee.asks("back"), "back");
    let stats = scene.switches.running.stats();
    assert_eq!(stats[0].connections_opened.value(), 1);
}

#[test]
fn a_certificate_for_another_name_makes_all_that_waits_undeliverable_at_once() {
    let mut scene = Scene::new();
    let begun = std::time::Instant::now();
    for text in ["one", "two", "three"] {
        scene.dial("bob.example", text);
    }
    let mut callee = scene.accept(&["mallory.example"]);
    assert!(callee.until_refused());
    for text in ["one", "two", "three"] {
        assert_eq!(scene.switches.question(), format!("undeliverable: {text}"));
    }
    assert!(begun.elapsed().as_secs() < 2);
    scene.switches.await_closed(CloseReason::TlsFailed, 1);
}

#[test]
fn a_certificate_of_another_authority_is_as_good_as_none() {
    let mut scene = Scene::new();
    scene.dial("bob.example", "hello");
    let stream = accepted(&scene.callee);
    let mut callee = server_over(stream, &Authority::new(), &["bob.example"]);
    assert!(callee.until_refused());
    assert_eq!(scene.switches.question(), "undeliverable: hello");
}

#[test]
fn a_server_that_does_not_shake_hands_makes_messages_undeliverable_in_time() {
    let mut scene = Scene::new();
    scene.dial("bob.example", "hello");
    let _silent = accepted(&scene.callee);
    assert_eq!(scene.switches.question(), "undeliverable: hello");
    scene.switches.await_closed(CloseReason::OpenTimeout, 1);
}

#[test]
fn a_connection_to_one_name_is_not_used_for_another() {
    let mut scene = Scene::new();
    scene.dial("bob.example", "for bob");
    let mut bob = scene.accept(&["bob.example"]);
    assert_eq!(bob.receive(), "for bob");
    scene.dial("carol.example", "for carol");
    let mut carol = scene.accept(&["carol.example"]);
    assert_eq!(carol.receive(), "for carol");
    for round in ["again", "and again"] {
        scene.dial("BOB.example", round);
        scene.dial("carol.example", round);
        assert_eq!([bob.receive(), carol.receive()], [round, round]);
    }
    let stats = scene.switches.running.stats();
    assert_eq!(stats[0].connections_opened.value(), 2);
    drop(bob);
    scene.switches.await_closed(CloseReason::ByPeer, 1);
    scene.dial("bob.example", "once more");
    assert_eq!(scene.accept(&["bob.example"]).receive(), "once more");
}

#[test]
fn who_connected_by_himself_is_not_taken_for_a_name() {
    let mut scene = Scene::new();
    let mut stranger = client_of(&scene.switches, &trusting(scene.authority.roots(), None));
    assert_eq!(stranger.asks("hello"), "hello");
    let to = stranger.local();
    scene
        .caller
        .send(&framed(&format!("dial {to} to whoever is there")));
    assert_eq!(stranger.receive(), "to whoever is there");
    scene
        .caller
        .send(&framed(&format!("dial {to}/bob.example for bob only")));
    assert_eq!(scene.switches.question(), "undeliverable: for bob only");
}

impl Peer<super::secure_peer::Server> {
    /// Whether the handshake ends with an alert.
    fn until_refused(&mut self) -> bool {
        let mut octets = Vec::new();
        let error = std::io::Read::read_to_end(&mut self.stream, &mut octets);
        error.is_err_and(|error| error.to_string().contains("alert"))
    }
}
