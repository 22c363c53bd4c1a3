//! Access control of the admin interface of a running server, and the limits of its connections.
mod common;

use common::{PATIENCE, Place, get, metric, none, run};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::str::FromStr as _;
use std::time::{Duration, Instant};
use tandem::config::{Environment, Loaded, Mistakes};
use tandem::control::Phase;
use tandem::ctl::{Access, Address, call};
use tandem::serve::Server;

const TOKEN: &str = "c2f1a07e65d94b8ea3f0";
const DRAIN: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "node.drain"}"#;

/// The server's response to these bytes, up to the end of the connection.
fn exchange(server: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream
        .set_read_timeout(Some(common::PATIENCE))
        .expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The status of a POST of [`DRAIN`] with these header fields.
fn drain(server: &Server, headers: &str) -> u16 {
    let length = DRAIN.len();
    let request = format!(
        "POST /rpc HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{DRAIN}"
    );
    status(&exchange(server.admin_address(), &request))
}

fn status(answer: &str) -> u16 {
    let word = answer.split(' ').nth(1);
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no status: {answer}"))
}

/// The same as `Place::new("")`, with additional lines in `[admin]`.
fn place(admin: &str) -> Place {
    let place = Place::new("");
    let database = place.database_url();
    place.configure_exactly(&format!(
        "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[workers]\ncount = 1\n\
         [database]\nurl = \"{database}\"\n[admin]\n{admin}"
    ));
    place
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

#[test]
fn a_page_whose_name_was_pointed_at_the_server_cannot_drain_it() {
    run(async {
        let place = place("listen = \"127.0.0.1:0\"\nhosts = [\"admin.example.org\"]\n");
        let server = place.start().await;
        let port = server.admin_address().port();
        // DNS rebinding: the browser sees the same origin, but connects to our address.
        let rebound =
            format!("Host: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n");
        assert_eq!(drain(&server, &rebound), 421);
        let foreign = format!("Host: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n");
        assert_eq!(drain(&server, &foreign), 403);
        assert_eq!(drain(&server, ""), 400);
        assert_eq!(server.control().phase(), Phase::Ready);
        assert_eq!(
            metric(
                &server,
                "tandem_admin_requests_refused_total{reason=\"foreign_host\"}"
            )
            .await,
            1
        );
        assert_eq!(
            metric(
                &server,
                "tandem_admin_requests_refused_total{reason=\"foreign_origin\"}"
            )
            .await,
            1
        );
        assert_eq!(drain(&server, "Host: admin.example.org\r\n"), 200);
        assert_eq!(server.control().phase(), Phase::Draining);
    });
}

#[test]
fn with_a_token_only_health_is_open() {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let file = files.path().join("token");
        std::fs::write(&file, format!("{TOKEN}\n")).expect("written");
        let shown = file.display();
        let place = place(&format!(
            "listen = \"127.0.0.1:0\"\ntoken_file = \"{shown}\"\n"
        ));
        let server = place.start().await;
        assert_eq!(get(&server, "/health/live").await.0, 200);
        assert_eq!(get(&server, "/health/ready").await.0, 200);
        for path in ["/", "/metrics", "/rpc", "/nothing", "/health"] {
            assert_eq!(get(&server, path).await.0, 401, "{path}");
        }
        let host = "Host: localhost\r\n";
        assert_eq!(drain(&server, host), 401);
        let wrong = format!("{host}Authorization: Bearer {}\r\n", TOKEN.to_uppercase());
        assert_eq!(drain(&server, &wrong), 401);
        assert_eq!(server.control().phase(), Phase::Ready);
        let address = Address::from_str(&server.admin_address().to_string()).expect("an address");
        let version = |token: Option<&str>| {
            let access = Access::to(address.clone(), token.map(str::to_owned));
            blocking(move || call(&access, "node.version", &none(), PATIENCE))
        };
        let refused = version(None).await.expect_err("without a token");
        assert!(refused.to_string().contains("--token-file"), "{refused}");
        let version = version(Some(TOKEN));
        assert!(version.await.expect("with it")["version"].is_string());
    });
}

#[test]
fn the_unix_socket_needs_no_token_and_goes_with_the_server() {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let (file, socket) = (files.path().join("token"), files.path().join("admin.sock"));
        std::fs::write(&file, TOKEN).expect("written");
        let place = place(&format!(
            "listen = \"127.0.0.1:0\"\ntoken_file = \"{}\"\nsocket = \"{}\"\n",
            file.display(),
            socket.display()
        ));
        let server = place.start().await;
        let access = Access::to(Address::Socket(socket.clone()), None);
        let params = json!({ "limit": 5 });
        let found = blocking(move || call(&access, "location.list", &params, PATIENCE));
        let found = found.await.expect("answered");
        assert_eq!(found, json!({ "addresses": [], "next": null }));
        assert!(UnixStream::connect(&socket).is_ok());
        server.stop(false).await;
        assert!(!socket.exists());
    });
}

#[test]
fn a_connection_that_sends_no_whole_header_is_closed_and_one_address_cannot_take_all() {
    run(async {
        let server = place("listen = \"127.0.0.1:0\"\n").start_alone().await;
        let address = server.1.admin_address();
        let began = Instant::now();
        let slow: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("connected");
                // Connections beyond the limit may already be closed.
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
                stream
            })
            .collect();
        // One peer has a share of the connections: 84 of the 100 were closed at once.
        let other = blocking(move || from("127.0.0.9", address)).await;
        assert_eq!(status(&other), 200, "{other}");
        assert!(
            other.contains("tandem_admin_connections_refused_total 84\n"),
            "{other}"
        );
        for mut stream in slow {
            stream
                .set_read_timeout(Some(Duration::from_secs(15)))
                .expect("a timeout");
            let mut rest = Vec::new();
            // The connection has ended either way: closed, or reset because its data was not read.
            let _ = stream.read_to_end(&mut rest);
        }
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(get(&server.1, "/health/live").await.0, 200);
    });
}

/// The metrics, requested from another address of this machine.
fn from(address: &str, server: SocketAddr) -> String {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let own = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let source: SocketAddr = format!("{address}:0").parse().expect("an address");
    bind(&own, &source).expect("bound");
    connect(&own, &server).expect("connected");
    let mut stream = TcpStream::from(own);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn parse(text: &str) -> Result<Loaded, Mistakes> {
    tandem::config::parse(text, "tandem.toml", &Environment::default())
}

#[test]
fn beyond_loopback_it_does_not_start_without_a_token() {
    for address in ["0.0.0.0:8060", "[::]:8060", "192.0.2.1:8060"] {
        let text = format!("[admin]\nlisten = \"{address}\"\n");
        let mistakes = parse(&text).expect_err(address);
        let said = mistakes.to_string();
        assert!(
            said.contains("2:10") && said.contains("admin.token_file"),
            "{said}"
        );
        let with = format!("{text}token_file = \"/etc/tandem/admin.token\"\n");
        parse(&with).expect("with a token");
    }
    for address in ["127.0.0.1:8060", "[::1]:8060", "[::ffff:127.0.0.1]:8060"] {
        let text = format!("[admin]\nlisten = \"{address}\"\n");
        parse(&text).expect(address);
    }
}
