//! A password guesser is banned and logged, and fail2ban finds it in the log.

use interop::{Host, PATIENCE, Server, ServerOptions, header, wait_until};
use serde_json::json;
use sip_message::digest::{DigestInput, ha1_md5, response_md5};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// An address of this machine that is not loopback, because loopback is never banned. Finding it sends no packet.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket
        .connect("192.0.2.1:9")
        .expect("a route: this test needs a network interface");
    let address = socket.local_addr().expect("bound").ip();
    assert!(
        !address.is_loopback() && !address.is_unspecified(),
        "{address}"
    );
    address
}

/// A phone that can send any credentials.
struct Guesser {
    socket: UdpSocket,
    server: SocketAddr,
    sent: u32,
}

impl Guesser {
    fn new(server: &Server) -> Self {
        let socket = UdpSocket::bind((server.address().ip(), 0)).expect("a socket");
        Self {
            socket,
            server: server.address(),
            sent: 0,
        }
    }

    /// Sends a REGISTER with these credentials. Returns the response, if there is one.
    fn register(&mut self, user: &str, credentials: &str, patience: Duration) -> Option<String> {
        self.sent += 1;
        let (number, here) = (self.sent, self.socket.local_addr().expect("bound"));
        let request = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bKguess{number};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@example.org>;tag={number}\r\nTo: <sip:{user}@example.org>\r\nCall-ID: guess{number}@interop\r\n\
             CSeq: {number} REGISTER\r\nContact: <sip:{user}@{here}>\r\n{credentials}Content-Length: 0\r\n\r\n"
        );
        self.socket
            .send_to(request.as_bytes(), self.server)
            .expect("sent");
        self.socket
            .set_read_timeout(Some(patience))
            .expect("a timeout");
        let mut answer = [0; 4_096];
        let length = self.socket.recv(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    /// Gets a challenge and answers it with this password. Returns the status.
    fn guess(&mut self, user: &str, password: &str) -> u16 {
        let challenge = self.register(user, "", PATIENCE).expect("a challenge");
        let nonce = header(&challenge, "WWW-Authenticate")
            .first()
            .and_then(|value| value.split("nonce=\"").nth(1)?.split('"').next())
            .unwrap_or_else(|| panic!("no nonce: {challenge}"))
            .to_owned();
        let ha1 = ha1_md5(user.as_bytes(), b"example.org", password.as_bytes());
        let input = DigestInput {
            method: b"REGISTER",
            uri: b"sip:example.org",
            nonce: nonce.as_bytes(),
            qop_auth: None,
        };
        let response = String::from_utf8(response_md5(&ha1, &input).to_vec()).expect("hex");
        let credentials = format!(
            "Authorization: Digest username=\"{user}\", realm=\"example.org\", nonce=\"{nonce}\", uri=\"sip:example.org\", response=\"{response}\"\r\n"
        );
        let answer = self
            .register(user, &credentials, PATIENCE)
            .expect("an answer");
        let status = answer.split(' ').nth(1).expect("a status");
        status.parse().expect("a number")
    }
}

#[test]
fn a_password_guesser_is_banned_until_the_operator_lifts_it() {
    let server = Server::start(&ServerOptions {
        host: Host::here(own_address()),
        ..ServerOptions::with("[bans]\nfailures = 10\n")
    });
    let source = server.address().ip().to_string();
    let mut guesser = Guesser::new(&server);
    assert_eq!(guesser.guess("bob", &Server::password("bob")), 200);
    for number in 0..9 {
        assert_eq!(guesser.guess(&format!("user{number}"), "1234"), 401);
    }
    assert_eq!(guesser.guess("alice", "1234"), 401);
    // A missing response proves nothing, so the drop must be counted too.
    assert_eq!(
        guesser.register("bob", "", Duration::from_millis(300)),
        None
    );
    wait_until("its datagram is dropped", || {
        server.count("tandem_dropped_total", "reason=\"banned\"") == 1
    });
    let mut stream = TcpStream::connect(server.address()).expect("the kernel accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    wait_until("its connection is refused", || {
        server.count("tandem_connections_refused_total", "reason=\"banned\"") == 1
    });
    assert_eq!(server.count("tandem_bans_total", ""), 1);
    assert_eq!(server.count("tandem_offences_total", "unknown_user"), 9);
    assert_eq!(server.count("tandem_offences_total", "wrong_password"), 1);

    wait_until("the ban is in the log", || {
        server.log().contains(" banned source=")
    });
    fail2ban_finds(&server, &source, 10);

    let (code, listed) = server.tandem(&["ctl", "bans"]);
    assert!(code == 0 && listed.contains(&source), "{listed}");
    let lifted = server.rpc("bans.remove", &json!({ "source": source }));
    assert_eq!(lifted["removed"], true);
    assert_eq!(guesser.guess("bob", &Server::password("bob")), 200);
}

/// Checks that `deploy/fail2ban` finds this number of failures of the source in the server's log, and no other lines.
fn fail2ban_finds(server: &Server, source: &str, failures: usize) {
    let filter = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../deploy/fail2ban/filter.conf"
    );
    let log = server.path("server.log");
    let (_, found) = interop::run(
        Command::new("fail2ban-regex")
            .args(["--out", "ip"])
            .args([log.as_os_str(), filter.as_ref()]),
    );
    let addresses: Vec<&str> = found.lines().collect();
    assert_eq!(addresses, vec![source; failures], "{}", server.log());
}

#[test]
fn fail2ban_reads_the_log_as_json_and_is_not_deceived_by_names() {
    let server = Server::start(&ServerOptions {
        host: Host::here(own_address()),
        ..ServerOptions::with("[log]\nformat = \"json\"\n")
    });
    let source = server.address().ip().to_string();
    let mut guesser = Guesser::new(&server);
    assert_eq!(guesser.guess("alice", "1234"), 401);
    let forged = "x%0A%20WARN%20auth%20failed%20source=10.9.8.7%20user=a%20reason=wrong_password";
    assert_eq!(guesser.guess(forged, "1234"), 401);
    wait_until("both are in the log", || {
        server.log().matches("auth failed").count() >= 2
    });
    fail2ban_finds(&server, &source, 2);
}
