//! A STUN client that we did not write asks the SIP port for its address, as phones do to keep a path open.

use interop::{Server, ServerOptions, run};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// coturn's client, which says where its request came from.
fn ask(server: &Server, own: IpAddr) -> (i32, String) {
    let address = server.address();
    run(Command::new("turnutils_stunclient")
        .args(["-p", &address.port().to_string()])
        .args(["-L", &own.to_string()])
        .arg(address.ip().to_string()))
}

#[test]
fn a_stun_client_is_told_its_address() {
    for address in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let server = Server::start(&ServerOptions {
            address,
            ..ServerOptions::default()
        });
        let (code, output) = ask(&server, address);
        assert_eq!(code, 0, "{output}");
        let told = format!("UDP reflexive addr: {address}:");
        assert!(output.contains(&told), "{output}");
        assert!(server.metric("tandem_dropped_total", "keep_alive") > 0.0);
    }
}
