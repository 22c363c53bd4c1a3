//! A scripted peer over UDP, and agents with short timers.

use sip_stack::{Agent, Builder, TimerSettings};
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// How long a peer waits for a message.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// T1 of the agents. 64*T1 is two seconds.
pub const T1: Duration = Duration::from_millis(32);

/// An agent for alice, on loopback, with short timers.
pub fn alice() -> Builder {
    let timers = TimerSettings {
        t1: T1,
        t2: T1 * 8,
        t4: T1 * 10,
    };
    Agent::builder("sip:alice@example.org")
        .bind("udp:127.0.0.1:0")
        .timers(timers)
}

pub struct Peer {
    socket: UdpSocket,
    pub address: SocketAddr,
    seen: HashSet<String>,
}

/// A message, and where it came from.
#[derive(Clone, Debug)]
pub struct Received {
    pub text: String,
    from: SocketAddr,
}

impl Received {
    /// The values of a header field, one for each line.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| *found == name)
            .map(|(_, value)| value)
            .collect()
    }

    pub fn value(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name} in {}", self.text);
        values[0]
    }

    pub fn start(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    pub fn body(&self) -> &str {
        self.text
            .split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
    }

    /// The URI between angle brackets in Contact.
    pub fn contact(&self) -> &str {
        let contact = self.value("Contact");
        contact
            .trim_start_matches('<')
            .split('>')
            .next()
            .unwrap_or_default()
    }
}

impl Peer {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let address = socket.local_addr().expect("bound");
        Self {
            socket,
            address,
            seen: HashSet::new(),
        }
    }

    pub fn uri(&self) -> String {
        format!("sip:bob@{}", self.address)
    }

    /// The next message, retransmissions included.
    pub fn next(&mut self) -> Received {
        let mut bytes = [0; 8_192];
        let (length, from) = self.socket.recv_from(&mut bytes).expect("a message");
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        self.seen.insert(text.clone());
        Received { text, from }
    }

    /// The next message that is not a retransmission. Its first line begins with this text.
    pub fn expect(&mut self, start: &str) -> Received {
        loop {
            let known = self.seen.clone();
            let message = self.next();
            if !known.contains(&message.text) {
                assert!(
                    message.text.starts_with(start),
                    "expected {start}:\n{}",
                    message.text
                );
                return message;
            }
        }
    }

    /// Whether nothing but retransmissions arrives for a while.
    pub fn is_left_alone(&mut self) -> bool {
        self.socket
            .set_read_timeout(Some(T1 * 10))
            .expect("a timeout");
        let mut bytes = [0; 8_192];
        let mut alone = true;
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            alone &= self.seen.contains(&text);
        }
        self.socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        alone
    }

    pub fn send(&self, to: SocketAddr, message: &str) {
        self.socket.send_to(message.as_bytes(), to).expect("sent");
    }

    /// Answers a request: status line, To tag, more header lines, body.
    pub fn respond(&self, request: &Received, status: &str, tag: &str, more: &str, body: &str) {
        let mut head = format!("SIP/2.0 {status}\r\n");
        for name in ["Via", "From", "Call-ID", "CSeq"] {
            for value in request.values(name) {
                head.extend([name, ": ", value, "\r\n"]);
            }
        }
        let to = request.value("To");
        let tag = if tag.is_empty() {
            String::new()
        } else {
            format!(";tag={tag}")
        };
        let rest = format!(
            "To: {to}{tag}\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(request.from, &[&*head, &rest, body].concat());
    }

    /// Answers a request of a dialog without a body.
    pub fn ok(&self, request: &Received) {
        self.respond(request, "200 OK", "", "", "");
    }

    /// Answers an INVITE with 200 and a Contact.
    pub fn accept(&self, invite: &Received, tag: &str) {
        let contact = format!("Contact: <{}>\r\n", self.uri());
        self.respond(invite, "200 OK", tag, &contact, "");
    }

    /// Writes a request of this peer. `line` has method and Request-URI, `more` has further header lines.
    pub fn request(&self, line: &str, branch: &str, more: &str, body: &str) -> String {
        let from = if more.contains("From: ") {
            ""
        } else {
            "From: <sip:bob@example.org>;tag=peer\r\n"
        };
        format!(
            "{line} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{branch};rport\r\n{from}{more}Max-Forwards: 70\r\n\
             Contact: <{}>\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.uri(),
            body.len()
        )
    }
}
