//! Replaces the certificate of a server, during calls over TLS, and of an edge. No call is lost, and new connections get the new certificate.

use interop::{Child, Edge, Scenario, Server, ServerOptions, Tunnel, run, wait_until};
use sip_transport::Protocol;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const CALLS: u32 = 240;
/// How long a call keeps its connection. This is longer than it takes to replace two certificates.
const TALK: &str = "3000";

/// The serial number of the certificate that a new connection to an address gets for a server name.
fn presented(address: SocketAddr, name: &str) -> String {
    let (_, text) = run(Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &address.to_string(),
            "-servername",
            name,
        ])
        .arg("-showcerts"));
    let begin = text.find("-----BEGIN CERTIFICATE-----");
    let end = text.find("-----END CERTIFICATE-----");
    let (Some(begin), Some(end)) = (begin, end) else {
        panic!("no certificate:\n{text}")
    };
    let folder = TempDir::new().expect("temporary folder");
    let file = folder.path().join("presented.pem");
    std::fs::write(&file, &text[begin..end + 25]).expect("a file");
    serial(&file)
}

fn serial(file: &std::path::Path) -> String {
    let (code, text) = run(Command::new("openssl")
        .args(["x509", "-noout", "-serial", "-in"])
        .arg(file));
    assert_eq!(code, 0, "{text}");
    text
}

/// Reloads through the admin interface and by signal, in turn.
fn reload(server: &mut Server, turn: usize) {
    if turn.is_multiple_of(2) {
        let (code, output) = server.tandem(&["ctl", "reload"]);
        assert_eq!(code, 0, "{output}");
    } else {
        server.process().signal("HUP");
    }
}

#[test]
fn a_certificate_is_exchanged_while_calls_are_made_and_none_is_lost() {
    let mut server = Server::start(&ServerOptions::default());
    let tunnel = Tunnel::to(&server);
    let many = |name| Scenario::new(name).calls(CALLS).untraced();
    let bob = many("answer").start(&server);
    server.register("bob", bob.address, "");
    let alice = many("call").connecting_for_each_call(tunnel.address());
    let alice = alice.with(&["-r", "20", "-l", "1000", "-d", TALK]);
    let alice = alice.start(&server);
    let mut serials = BTreeSet::from([presented(server.address_of(Protocol::Tls), "example.org")]);
    for turn in 0..6 {
        server.renew_certificate();
        let renewed = serial(&server.certificate());
        reload(&mut server, turn);
        wait_until("the new one is presented", || {
            presented(server.address_of(Protocol::Tls), "example.org") == renewed
        });
        serials.insert(renewed);
        std::thread::sleep(Duration::from_secs(1));
    }
    let (alice, bob) = (alice.finish(), bob.finish());
    assert_eq!(serials.len(), 7);
    for outcome in [alice, bob] {
        assert_eq!(outcome.count("SuccessfulCall(C)"), u64::from(CALLS));
        assert_eq!(outcome.count("FailedCall(C)"), 0);
        assert_eq!(outcome.count("Retransmissions(C)"), 0);
    }
    let begun = server.count("tandem_connections_begun_total", "by=\"peer\"");
    assert!(begun >= u64::from(CALLS), "{begun} connections");
    assert_eq!(server.count("tandem_reloads_total", "applied"), 6);
}

#[test]
fn a_certificate_that_does_not_fit_its_key_changes_nothing_and_is_complained_of() {
    let mut server = Server::start(&ServerOptions::default());
    let before = presented(server.address_of(Protocol::Tls), "example.org");
    let key = std::fs::read(server.path("key.pem")).expect("a key");
    server.renew_certificate();
    std::fs::write(server.path("key.pem"), key).expect("a key");
    server.process().signal("HUP");
    // The lines of one message may be written to the log separately.
    wait_until("it names the key", || {
        let log = server.log();
        log.contains("reload: ") && log.contains("key.pem")
    });
    assert_eq!(
        presented(server.address_of(Protocol::Tls), "example.org"),
        before
    );
    assert!(server.is_ready());
}

#[test]
fn an_edge_exchanges_its_certificate_and_keeps_its_connections() {
    let server = Server::start(&ServerOptions::default());
    let edge = Edge::start(&[("n-1", server.address())]);
    let address = edge.address_of(Protocol::Tls);
    let before = presented(address, "example.org");
    let mut connect = Command::new("openssl");
    connect.args(["s_client", "-connect", &address.to_string()]);
    let folder = TempDir::new().expect("temporary folder");
    let mut phone = Child::start(&mut connect, &folder.path().join("phone.log"));
    wait_until("the phone is connected", || {
        edge.metric("tandem_connections", "") > 0.5
    });
    edge.renew_certificate();
    let renewed = serial(&edge.certificate());
    assert_ne!(renewed, before);
    edge.reload();
    wait_until("the new one is presented", || {
        presented(address, "example.org") == renewed
    });
    assert_eq!(phone.ended(), None, "{}", phone.output());
    // A key of another certificate changes nothing.
    let key = std::fs::read(edge.key()).expect("a key");
    edge.renew_certificate();
    std::fs::write(edge.key(), key).expect("a key");
    edge.reload();
    wait_until("it names the key", || {
        let log = edge.log();
        log.contains("the reload is refused: ") && log.contains("key.pem")
    });
    assert_eq!(presented(address, "example.org"), renewed);
}
