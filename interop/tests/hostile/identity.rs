//! An attacker without an account pretends to be a subscriber, acts on phones, searches for names, and tries passwords.

use interop::{PATIENCE, Server, ServerOptions, wait_until};
use sip_message::digest::{DigestInput, ha1_md5, response_md5};
use sip_message::{Challenge, HeaderName, Message};
use std::net::{SocketAddr, UdpSocket};

/// A socket of an attacker or a phone.
struct Peer {
    socket: UdpSocket,
    server: SocketAddr,
}

impl Peer {
    fn new(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self {
            socket,
            server: server.address(),
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    fn send(&self, message: &str) {
        let message = message.replace('\n', "\r\n");
        let sent = self.socket.send_to(message.as_bytes(), self.server);
        assert_eq!(sent.expect("is sent"), message.len());
    }

    fn receive(&self) -> String {
        let mut buffer = vec![0; 65_536];
        let length = self.socket.recv(&mut buffer).expect("something arrives");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Sends a message. Returns the status and the text of the final response.
    fn ask(&self, message: &str) -> (u16, String) {
        self.send(message);
        loop {
            let answer = self.receive();
            let status = Message::parse(answer.as_bytes()).map_or(0, |parsed| parsed.status());
            if status >= 200 {
                return (status, answer);
            }
        }
    }
}

/// A request to a subscriber. `id` determines its branch and Call-ID, which always have the same length.
fn request(peer: &Peer, method: &str, uri: &str, from: &str, id: u32, extra: &str) -> String {
    let at = peer.address();
    format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{id:08};rport\nMax-Forwards: 70\n\
         From: <{from}>;tag=f{id:08}\nTo: <{uri}>\nCall-ID: {id:08}@attacker\nCSeq: 1 {method}\n\
         Contact: <sip:x@{at}>\n{extra}Content-Length: 0\n\n"
    )
}

fn register(peer: &Peer, user: &str, id: u32, extra: &str) -> String {
    let address = format!("sip:{user}@example.org");
    request(peer, "REGISTER", "sip:example.org", &address, id, extra)
        .replace("To: <sip:example.org>", &format!("To: <{address}>"))
}

/// Credentials that answer the 401 of a REGISTER.
fn credentials(challenge: &str, user: &str, password: &str) -> String {
    let message = Message::parse(challenge.as_bytes()).expect("a response");
    let value = message.header(HeaderName::WwwAuthenticate);
    let challenge = value.and_then(Challenge::parse).expect("a challenge");
    let nonce = String::from_utf8_lossy(challenge.nonce);
    let input = DigestInput {
        method: b"REGISTER",
        uri: b"sip:example.org",
        nonce: challenge.nonce,
        qop_auth: Some((b"00000001", b"abc")),
    };
    let ha1 = ha1_md5(user.as_bytes(), b"example.org", password.as_bytes());
    let response = response_md5(&ha1, &input);
    format!(
        "Authorization: Digest username=\"{user}\", realm=\"example.org\", nonce=\"{nonce}\", uri=\"sip:example.org\", \
         algorithm=MD5, qop=auth, nc=00000001, cnonce=\"abc\", response=\"{}\"\n",
        String::from_utf8_lossy(&response)
    )
}

fn log_in(phone: &Peer, user: &str, password: &str, id: u32) -> u16 {
    let (status, challenge) = phone.ask(&register(phone, user, id, ""));
    assert_eq!(status, 401, "{challenge}");
    let credentials = credentials(&challenge, user, password);
    let message = register(phone, user, id + 1, &credentials);
    phone.ask(&message.replace("CSeq: 1", "CSeq: 2")).0
}

#[test]
fn nothing_that_acts_on_a_phone_gets_past_the_server_unproven() {
    let server = Server::start(&ServerOptions::default());
    let (phone, attacker) = (Peer::new(&server), Peer::new(&server));
    assert_eq!(log_in(&phone, "bob", &Server::password("bob"), 1), 200);
    let bob = "sip:bob@example.org";
    let own = format!("sip:alice@{}", server.address());
    let other_port = "sip:alice@127.0.0.1:9";
    let mapped = "sip:alice@[::ffff:127.0.0.1]:9";
    let mut id = 100;
    for method in [
        "NOTIFY",
        "REFER",
        "MESSAGE",
        "SUBSCRIBE",
        "PUBLISH",
        "OPTIONS",
        "INFO",
        "REBOOT",
    ] {
        for (from, expected) in [
            ("sip:alice@example.org", 407),
            (&*own, 407),
            (other_port, 407),
            (mapped, 407),
            ("sip:alice@localhost", 407),
            ("sip:example.org", 403),
            ("sip:x@evil.example", 403),
        ] {
            if (method, from) == ("MESSAGE", "sip:x@evil.example") {
                continue; // Other domains may send messages.
            }
            id += 1;
            let extra = "Event: check-sync;reboot=true\n";
            let (status, answer) = attacker.ask(&request(&attacker, method, bob, from, id, extra));
            assert_eq!(status, expected, "{method} from {from}: {answer}");
        }
    }
    // The first message that the phone gets is one that a stranger may send. The identity it asserts is removed.
    let asserted = "P-Asserted-Identity: <sip:chief@example.org>\n";
    attacker.send(&request(
        &attacker,
        "MESSAGE",
        bob,
        "sip:x@evil.example",
        999,
        asserted,
    ));
    let first = phone.receive();
    assert!(
        first.starts_with("MESSAGE ") && first.contains("00000999@"),
        "{first}"
    );
    assert!(!first.contains("chief"), "{first}");
}

#[test]
fn names_of_subscribers_cannot_be_found_out() {
    let server = Server::start(&ServerOptions::default());
    let attacker = Peer::new(&server);
    let mut seen = Vec::new();
    for (user, id) in [("alice", 100), ("zelda", 200)] {
        let questions = || server.count("tandem_questions_total", "");
        let asked_before = questions();
        let mut answers = Vec::new();
        let mut note = |(status, answer): (u16, String)| {
            answers.push((status, answer.len()));
            answer
        };
        let challenge = note(attacker.ask(&register(&attacker, user, id, "")));
        assert_eq!(
            questions(),
            asked_before,
            "{user}: a challenge costs no question"
        );
        for guess in 1..4 {
            let password = format!("guess{guess}");
            let credentials = credentials(&challenge, user, &password);
            note(attacker.ask(&register(&attacker, user, id + guess, &credentials)));
        }
        let asked = questions() - asked_before;
        let uri = format!("sip:{user}@example.org");
        for (place, method) in ["INVITE", "MESSAGE", "OPTIONS"].into_iter().enumerate() {
            let id = id + 10 + u32::try_from(place).expect("a small number");
            note(attacker.ask(&request(
                &attacker,
                method,
                &uri,
                "sip:x@evil.example",
                id,
                "",
            )));
        }
        seen.push((answers, asked));
    }
    assert_eq!(seen[0], seen[1], "status, bytes, questions to the store");
    let statuses: Vec<u16> = seen[0].0.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 480, 480, 403]);
}

#[test]
fn a_new_password_ends_what_the_old_one_registered() {
    let server = Server::start(&ServerOptions::default());
    let (thief, phone) = (Peer::new(&server), Peer::new(&server));
    let old = Server::password("alice");
    assert_eq!(log_in(&thief, "alice", &old, 100), 200);
    assert_eq!(server.bindings("alice").len(), 1);
    let change = |password: &str, more: &[&str]| {
        let words = [
            &["user", "passwd", "alice", "--password", password][..],
            more,
        ]
        .concat();
        let (code, output) = server.tandem(&words);
        assert_eq!(code, 0, "{output}");
    };
    change("new-secret", &[]);
    // A phone that registers with the new password right after the change keeps its binding. The thief's binding ends.
    wait_until("the new password is accepted", || {
        log_in(&phone, "alice", "new-secret", 200) == 200
    });
    let contacts = || -> Vec<String> {
        let bindings = server.bindings("alice");
        let contact = |binding: &serde_json::Value| binding["contact"].to_string();
        bindings.iter().map(contact).collect()
    };
    let own = format!("\"sip:x@{}\"", phone.address());
    assert_eq!(contacts(), std::slice::from_ref(&own));
    assert_eq!(log_in(&thief, "alice", &old, 300), 401);
    change("newer-secret", &["--keep-registrations"]);
    wait_until("the newest password is accepted", || {
        log_in(&thief, "alice", "newer-secret", 400) == 200
    });
    assert!(contacts().contains(&own), "{:?}", contacts());
}
