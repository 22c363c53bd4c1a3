//! Two independent telephones register with digest and call each other through the server.

use interop::{Baresip, Linphone, Moment, Phone, Server, ServerOptions, wait_until};

#[test]
fn baresip_calls_linphone_and_hangs_up() {
    let server = Server::start(&ServerOptions::default());
    let mut alice = Baresip::start(&server, "alice");
    let mut bob = Linphone::start(&server, "bob");
    alice.dial("sip:bob@example.org");
    bob.wait_until(Moment::Called);
    alice.wait_until(Moment::Rings);
    bob.accept();
    alice.wait_until(Moment::Established);
    bob.wait_until(Moment::Established);
    alice.hang_up();
    bob.wait_until(Moment::Over);
    alice.wait_until(Moment::Over);
    assert_each_unregisters_for_himself(&server, alice, bob);
}

#[test]
fn linphone_calls_baresip_and_hangs_up() {
    let server = Server::start(&ServerOptions::default());
    let mut alice = Baresip::start(&server, "alice");
    let mut bob = Linphone::start(&server, "bob");
    bob.dial("sip:alice@example.org");
    alice.wait_until(Moment::Called);
    bob.wait_until(Moment::Rings);
    alice.accept();
    bob.wait_until(Moment::Established);
    alice.wait_until(Moment::Established);
    bob.hang_up();
    alice.wait_until(Moment::Over);
    bob.wait_until(Moment::Over);
    assert_each_unregisters_for_himself(&server, alice, bob);
}

#[test]
fn linphone_takes_sha_256_where_it_is_offered_first() {
    let both = "[auth]\nalgorithms = [\"SHA-256\", \"MD5\"]\n";
    let server = Server::start(&ServerOptions::with(both));
    let bob = Linphone::start(&server, "bob");
    let log = bob.log();
    let mut credentials = log
        .lines()
        .filter(|line| line.starts_with("Authorization:"));
    assert!(
        credentials.any(|line| line.contains("algorithm=SHA-256")),
        "{log}"
    );
}

/// A phone that unregisters removes its own binding, and the other one's stays.
fn assert_each_unregisters_for_himself(server: &Server, alice: Baresip, mut bob: Linphone) {
    alice.quit();
    wait_until("alice is gone", || server.bindings("alice").is_empty());
    assert_eq!(server.bindings("bob").len(), 1);
    bob.unregister();
    wait_until("bob is gone", || server.bindings("bob").is_empty());
}
