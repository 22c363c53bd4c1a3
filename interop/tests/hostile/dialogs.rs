//! A caller tries to misuse a dialog after its first call: for a call through a trunk that trusts the server's address,
//! for a message to a third party, and for a message in another user's name.

use interop::{Kamailio, Server, ServerOptions, header};
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Longer than a message takes on this host, even if the host is busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long no message may arrive.
const SILENCE: Duration = Duration::from_millis(700);

/// A phone that ignores the rules.
struct Phone {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Phone {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("bound");
        Self { socket, address }
    }

    fn send(&self, to: SocketAddr, message: &str) {
        let sent = self.socket.send_to(message.as_bytes(), to);
        assert_eq!(sent.expect("sent"), message.len());
    }

    /// The next message whose first line begins with this text. Other messages are skipped.
    fn receive(&self, beginning: &str) -> String {
        self.receive_within(beginning, PATIENCE)
            .unwrap_or_else(|| panic!("{beginning} did not come"))
    }

    fn receive_within(&self, beginning: &str, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time)).expect("a timeout");
        let mut bytes = vec![0; 65_536];
        loop {
            let (length, _) = self.socket.recv_from(&mut bytes).ok()?;
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.starts_with(beginning) {
                return Some(text);
            }
        }
    }

    /// The final response to the last request.
    fn receive_final(&self) -> String {
        loop {
            let response = self.receive("SIP/2.0 ");
            if !response.starts_with("SIP/2.0 1") {
                return response;
            }
        }
    }
}

/// A request with the parts that vary.
struct Request<'r> {
    line: &'r str,
    from: &'r str,
    to: &'r str,
    call_id: &'r str,
    routes: &'r [String],
    body: usize,
}

impl Request<'_> {
    fn text(&self, phone: &Phone, branch: &str) -> String {
        let method = self.line.split(' ').next().unwrap_or_default();
        let mut text = format!(
            "{} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{branch};rport\r\nMax-Forwards: 70\r\n\
             From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 5 {method}\r\nContact: <sip:x@{}>\r\n",
            self.line, phone.address, self.from, self.to, self.call_id, phone.address,
        );
        for route in self.routes {
            let _ = write!(text, "Route: {route}\r\n");
        }
        let body = "x".repeat(self.body);
        let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", self.body);
        text
    }
}

/// What a stranger knows after Bob has answered its call.
struct Known {
    server: Server,
    mallory: Phone,
    bob: Phone,
    to: String,
    routes: Vec<String>,
    bob_uri: String,
}

const MALLORY: &str = "<sip:mallory@elsewhere.example>;tag=m";

/// The INVITE that begins all these calls.
const INVITE: Request<'_> = Request {
    line: "INVITE sip:bob@example.org",
    from: MALLORY,
    to: "<sip:bob@example.org>",
    call_id: "the-call",
    routes: &[],
    body: 0,
};

fn call(sections: &str) -> Known {
    let server = Server::start(&ServerOptions::with(sections));
    let (mallory, bob) = (Phone::new(), Phone::new());
    server.register("bob", bob.address, "");
    mallory.send(server.address(), &INVITE.text(&mallory, "first"));
    let received = bob.receive("INVITE");
    let mut answer = "SIP/2.0 200 OK\r\n".to_owned();
    for line in received.lines().take_while(|line| !line.is_empty()) {
        if ["Via", "Record-Route", "From", "Call-ID", "CSeq"]
            .iter()
            .any(|name| line.starts_with(&format!("{name}:")))
        {
            let _ = write!(answer, "{line}\r\n");
        }
    }
    let bob_uri = format!("sip:bob@{}", bob.address);
    let to = "<sip:bob@example.org>;tag=b".to_owned();
    let _ = write!(
        answer,
        "To: {to}\r\nContact: <{bob_uri}>\r\nContent-Length: 0\r\n\r\n"
    );
    bob.send(server.address(), &answer);
    let answered = mallory.receive("SIP/2.0 200");
    let mut routes: Vec<String> = header(&answered, "Record-Route")
        .into_iter()
        .map(str::to_owned)
        .collect();
    routes.reverse();
    assert!(!routes.is_empty(), "{answered}");
    let known = Known {
        server,
        mallory,
        bob,
        to,
        routes,
        bob_uri,
    };
    // The proof is valid for this call.
    let line = format!("ACK {}", known.bob_uri);
    known.try_it(&line, MALLORY, &known.to.clone(), 0);
    known.bob.receive("ACK");
    known
}

impl Known {
    fn try_it(&self, line: &str, from: &str, to: &str, body: usize) {
        let request = Request {
            line,
            from,
            to,
            call_id: "the-call",
            routes: &self.routes,
            body,
        };
        let branch = format!("{}{}", line.len(), to.len() + from.len() + body);
        let text = request.text(&self.mallory, &branch);
        self.mallory.send(self.server.address(), &text);
    }

    /// The server's final response to such a request.
    fn fate(&self, line: &str, from: &str, to: &str, body: usize) -> String {
        self.try_it(line, from, to, body);
        let response = self.mallory.receive_final();
        response.lines().next().unwrap_or_default().to_owned()
    }
}

#[test]
fn the_proof_of_an_earlier_call_does_not_reach_a_trunk() {
    let known = call("");
    let subscriber_of_trunk = Phone::new();
    let trunk = Kamailio::start("trunk.example", subscriber_of_trunk.address);
    let line = format!("INVITE sip:+1900@{}", trunk.address());
    let to = "<sip:+1900@trunk.example>";
    for (tag, refused) in [
        (";tag=\"\"", "SIP/2.0 400"),
        (";tag=", "SIP/2.0 400"),
        (";tag=\" \"", "SIP/2.0 400"),
        (";tag=b;tag=b", "SIP/2.0 400"),
        (";tag=b", "SIP/2.0 481"),
        ("", "SIP/2.0 403"),
    ] {
        let fate = known.fate(&line, MALLORY, &format!("{to}{tag}"), 0);
        assert!(fate.starts_with(refused), "{tag}: {fate}");
    }
    let silence = subscriber_of_trunk.receive_within("", SILENCE);
    assert_eq!(silence, None, "the trunk has had a call");
    // The trunk does accept calls from others that reach it.
    let invite = Request {
        line: &line,
        from: MALLORY,
        to,
        call_id: "direct",
        routes: &[],
        body: 0,
    };
    let text = invite.text(&known.mallory, "direct");
    known.mallory.send(trunk.address(), &text);
    subscriber_of_trunk.receive("INVITE");
}

#[test]
fn no_request_makes_the_server_send_to_a_third_party() {
    let known = call("");
    let victim = Phone::new();
    for protocol in ["", ";transport=tcp", ";transport=tls"] {
        let line = format!("INVITE sip:1@{}{protocol}", victim.address);
        let fate = known.fate(&line, MALLORY, &known.to.clone(), 20_000);
        // The response does not depend on whether something listens there.
        assert!(fate.starts_with("SIP/2.0 481"), "{fate}");
    }
    assert_eq!(victim.receive_within("", SILENCE), None);
    assert_eq!(known.server.count("tandem_dialogs_unproven_total", ""), 3);
}

#[test]
fn no_party_of_a_dialog_speaks_for_another_subscriber() {
    let known = call("");
    let line = format!("MESSAGE {}", known.bob_uri);
    let alice = "<sip:alice@example.org>;tag=m";
    let fate = known.fate(&line, alice, &known.to.clone(), 5);
    assert!(fate.starts_with("SIP/2.0 407"), "{fate}");
    assert_eq!(known.bob.receive_within("MESSAGE", SILENCE), None);
    // Under its own name it may send a message.
    known.try_it(&line, MALLORY, &known.to.clone(), 6);
    let message = known.bob.receive("MESSAGE");
    assert!(message.contains("mallory"), "{message}");
}

#[test]
fn networks_off_limits_are_never_reached() {
    // This is Bob's own address. He has registered from there, but still gets no call.
    let server = Server::start(&ServerOptions::with(
        "[proxy]\noff_limits = [\"127.0.0.0/8\"]\n",
    ));
    let (mallory, bob) = (Phone::new(), Phone::new());
    server.register("bob", bob.address, "");
    mallory.send(server.address(), &INVITE.text(&mallory, "first"));
    let fate = mallory.receive_final();
    assert!(fate.starts_with("SIP/2.0 403"), "{fate}");
    assert_eq!(bob.receive_within("INVITE", SILENCE), None);
    assert_eq!(server.count("tandem_off_limits_total", ""), 1);
}
