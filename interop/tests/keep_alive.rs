//! The keep-alives of telephones, and a STUN client that asks the SIP port for its address.

use interop::{Account, Library, Linphone, Server, ServerOptions, WebPhone, run, wait_until};
use sip_transport::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// Runs coturn's client, which prints the source address of its request.
fn ask(server: &Server, own: IpAddr) -> (i32, String) {
    let address = server.address();
    run(Command::new("turnutils_stunclient")
        .args(["-p", &address.port().to_string()])
        .args(["-L", &own.to_string()])
        .arg(address.ip().to_string()))
}

#[test]
fn a_stun_client_gets_its_address() {
    for address in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let server = Server::start(&ServerOptions {
            host: interop::Host::here(address),
            ..ServerOptions::default()
        });
        let (code, output) = ask(&server, address);
        assert_eq!(code, 0, "{output}");
        let told = format!("UDP reflexive addr: {address}:");
        assert!(output.contains(&told), "{output}");
        assert!(server.metric("tandem_dropped_total", "keep_alive") > 0.0);
    }
}

/// The number of double CRLFs that were answered.
fn pings(server: &Server) -> u64 {
    server.count("tandem_stream_pings_total", "")
}

#[test]
fn the_double_crlf_of_linphone_is_answered_over_tcp_and_tls() {
    for protocol in [Protocol::Tcp, Protocol::Tls] {
        let server = Server::start(&ServerOptions::default());
        let bob = Account::new("bob").over(protocol);
        let bob = Linphone::with_account(&server, &bob);
        wait_until("three were answered", || pings(&server) > 2);
        assert_eq!(server.count("tandem_connections", ""), 1);
        assert_eq!(server.count("tandem_connections_begun_total", ""), 1);
        drop(bob);
    }
}

#[test]
fn the_double_crlf_of_a_browser_is_answered() {
    let server = Server::start(&ServerOptions::default());
    let bob = Account::new("bob").over(Protocol::Wss);
    let bob = WebPhone::with_account(Library::SipJs, &server, &bob);
    wait_until("three were answered", || pings(&server) > 2);
    assert_eq!(server.count("tandem_connections_begun_total", ""), 1);
    bob.quit();
}
