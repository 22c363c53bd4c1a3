//! A web page that the operator has open attacks the admin interface, through a name that points at the operator's machine.

use interop::{Server, ServerOptions};
use std::io::{Read, Write};
use std::net::TcpStream;

const DRAIN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"node.drain"}"#;

/// Sends a POST of [`DRAIN`] as a browser does for a page of this origin. Returns the status.
fn drain(server: &Server, host: &str, origin: &str) -> u16 {
    let mut stream = TcpStream::connect(server.admin_address()).expect("connected");
    write!(
        stream,
        "POST /rpc HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{DRAIN}",
        DRAIN.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).expect("a status line");
    status.parse().expect("a number")
}

#[test]
fn a_page_cannot_drain_the_server() {
    let server = Server::start(&ServerOptions::default());
    let own = server.admin_address();
    let rebound = format!("evil.example:{}", own.port());
    assert_eq!(drain(&server, &rebound, &format!("http://{rebound}")), 421);
    assert_eq!(drain(&server, &own.to_string(), "http://evil.example"), 403);
    assert!(server.is_ready());
    // The operator's own page can.
    let host = own.to_string();
    assert_eq!(drain(&server, &host, &format!("http://{host}")), 200);
    assert!(!server.is_ready());
}
