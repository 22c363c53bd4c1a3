//! Sends the torture messages of RFC 4475 and RFC 5118 to the running server, and checks what a peer sees of each.
//!
//! A REGISTER goes to a registrar for `example.com`. All other messages go to a proxy that is responsible for none of the
//! domains in them. Both servers do not authenticate. They relay messages for other domains to a next hop that the test
//! plays.
//!
//! The table of outcomes is ours: it decides what the RFCs leave open.

use interop::{Server, ServerOptions};
use sip_message::Message;
use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

/// What the sender or the next hop sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Answered with this status.
    Answered(u16),
    /// Forwarded to the next hop. The body and all header fields that a proxy must not touch are unchanged, byte for byte.
    Forwarded,
    /// Neither answered nor forwarded.
    Dropped,
}
use Outcome::{Answered, Dropped, Forwarded};

type Row = (&'static str, &'static [u8], Outcome, &'static str);

macro_rules! table {
    ($folder:literal: $($file:literal => $outcome:expr, $why:literal;)*) => {
        &[$(($file, include_bytes!(concat!("../../crates/sip-message/tests/torture/", $folder, "/", $file, ".dat")), $outcome, $why)),*]
    };
}

const RFC_4475: &[Row] = table! { "rfc4475":
    "wsinv" => Forwarded, "3.1.1.1 well-formed, however tortuous";
    "intmeth" => Forwarded, "3.1.1.2 an unknown method is proxied";
    "esc01" => Forwarded, "3.1.1.3 escapes are not undone";
    "escnull" => Answered(200), "3.1.1.4 two contacts that differ behind %00";
    "esc02" => Forwarded, "3.1.1.5 RE%47IST%45R is not REGISTER";
    "lwsdisp" => Forwarded, "3.1.1.6 no space between name and <";
    "longreq" => Forwarded, "3.1.1.7 long values are kept";
    "dblreq" => Answered(200), "3.1.1.8 octets behind the body are ignored";
    "semiuri" => Forwarded, "3.1.1.9 semicolons in the user part";
    "transports" => Forwarded, "3.1.1.10 unknown transports in Vias below";
    "mpart01" => Forwarded, "3.1.1.11 a binary body is kept";
    "unreason" => Dropped, "3.1.1.12 a response that is not ours";
    "noreason" => Dropped, "3.1.1.13 a response that is not ours";
    "badinv01" => Answered(400), "3.1.2.1 stray separators";
    "clerr" => Answered(400), "3.1.2.2 Content-Length beyond the datagram";
    "ncl" => Answered(400), "3.1.2.3 negative Content-Length";
    "scalar02" => Answered(400), "3.1.2.4 overlarge numbers";
    "scalarlg" => Dropped, "3.1.2.5 a response with overlarge numbers";
    "quotbal" => Answered(400), "3.1.2.6 unterminated quoted string";
    "ltgtruri" => Answered(400), "3.1.2.7 <> around the Request-URI";
    "lwsruri" => Answered(400), "3.1.2.8 white space in the Request-URI";
    "lwsstart" => Answered(400), "3.1.2.9 several spaces in the request line";
    "trws" => Answered(400), "3.1.2.10 spaces at the end of the request line";
    "escruri" => Answered(400), "3.1.2.11 header fields in the Request-URI";
    "baddate" => Forwarded, "3.1.2.12 the time zone of Date matters to nobody here";
    "regbadct" => Answered(400), "3.1.2.13 a URI with ? must stand in <>";
    "badaspec" => Answered(400), "3.1.2.14 spaces in an address";
    "baddn" => Answered(400), "3.1.2.15 display name that is no token";
    "badvers" => Answered(505), "3.1.2.16 SIP/7.0";
    "mismatch01" => Answered(400), "3.1.2.17 CSeq names another method";
    "mismatch02" => Answered(501), "3.1.2.18 the same with an unknown method";
    "bigcode" => Dropped, "3.1.2.19 status 4294967301";
    "badbranch" => Forwarded, "3.2.1 a branch without value is matched as by RFC 2543";
    "insuf" => Answered(400), "3.3.1 mandatory header fields are missing";
    "unkscm" => Answered(416), "3.3.2 unknown scheme";
    "novelsc" => Answered(416), "3.3.3 soap.beep is not supported";
    "unksm2" => Answered(400), "3.3.4 the address to register is no SIP address";
    "bext01" => Answered(420), "3.3.5 Proxy-Require names what we lack";
    "invut" => Forwarded, "3.3.6 bodies are the endpoints' business";
    "regaut01" => Answered(200), "3.3.7 credentials nobody asked for";
    "multi01" => Answered(400), "3.3.8 fields twice that may stand once";
    "mcl01" => Answered(400), "3.3.9 two Content-Lengths";
    "bcast" => Dropped, "3.3.10 a response towards 255.255.255.255";
    "zeromf" => Answered(483), "3.3.11 Max-Forwards 0";
    "cparam01" => Answered(200), "3.3.12 a parameter of Contact";
    "cparam02" => Answered(200), "3.3.13 a parameter of the URI";
    "regescrt" => Answered(200), "3.3.14 a Route inside the contact URI";
    "sdp01" => Forwarded, "3.3.15 Accept is the endpoints' business";
    "inv2543" => Forwarded, "3.4.1 RFC 2543: no branch, no tag, no Max-Forwards";
};

const RFC_5118: &[Row] = table! { "rfc5118":
    "ipv6-good" => Forwarded, "4.1 an IPv6 reference";
    "ipv6-bad" => Answered(400), "4.2 an IPv6 address without brackets";
    "port-ambiguous" => Forwarded, "4.3 the port belongs to the address";
    "port-unambiguous" => Forwarded, "4.4 a port behind the brackets";
    "via-received-param-with-delim" => Forwarded, "4.5 received in brackets";
    "via-received-param-no-delim" => Forwarded, "4.5 received without brackets";
    "ipv6-in-sdp" => Forwarded, "4.6 IPv6 in SDP";
    "mult-ip-in-header" => Forwarded, "4.7 both families in Vias";
    "mult-ip-in-sdp" => Forwarded, "4.8 both families in SDP";
    "ipv4-mapped-ipv6" => Forwarded, "4.9 IPv4-mapped addresses";
    "ipv6-bug-abnf-3-colons" => Answered(400), "4.10 three colons";
    "ipv6-correct-abnf-2-colons" => Forwarded, "4.10 two colons";
};

/// How long a response may take. A dropped message costs no waiting, because a later request is answered first.
const PATIENCE: Duration = Duration::from_secs(5);

struct Peers {
    sender: UdpSocket,
    next_hop: UdpSocket,
}

impl Peers {
    /// Sends a message and returns its outcome.
    fn outcome(&self, server: &Server, name: &str, message: &[u8]) -> (Outcome, Vec<u8>) {
        self.sender
            .send_to(message, server.address())
            .expect("sent");
        // Earlier messages may still cause retransmissions to a next hop that never answers. They do not belong to this
        // outcome.
        let call_id = Message::parse(message)
            .ok()
            .and_then(|parsed| parsed.call_id().map(<[u8]>::to_vec));
        let mut answered = None;
        // The first marker may be handled together with the message. Then the order of packets to different addresses is
        // undefined. The second one is read after the first is answered, when everything has been sent. There is only one
        // worker.
        for marker in [format!("behind-{name}"), format!("after-{name}")] {
            for answer in self.answers_until(server, &marker) {
                let parsed =
                    Message::parse(&answer).unwrap_or_else(|error| panic!("{name}: {error:?}"));
                if parsed.status() >= 200 && parsed.call_id() == call_id.as_deref() {
                    answered = Some((Answered(parsed.status()), answer.clone()));
                }
            }
        }
        let mut forwarded = None;
        while let Some(copy) = receive_now(&self.next_hop) {
            let parsed = Message::parse(&copy)
                .unwrap_or_else(|error| panic!("{name}: sent on unreadable: {error:?}"));
            if parsed.call_id() == call_id.as_deref() {
                assert!(forwarded.is_none(), "{name}: sent on twice");
                forwarded = Some((Forwarded, copy));
            }
        }
        assert!(
            !(forwarded.is_some() && answered.is_some()),
            "{name}: answered and sent on"
        );
        forwarded.or(answered).unwrap_or((Dropped, Vec::new()))
    }

    /// Sends an OPTIONS and returns the messages received before its response.
    fn answers_until(&self, server: &Server, marker: &str) -> Vec<Vec<u8>> {
        let port = self.sender.local_addr().expect("bound").port();
        let address = server.address();
        let options = format!(
            "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{marker}\r\nMax-Forwards: 70\r\n\
             From: <sip:test@example.net>;tag=1\r\nTo: <sip:{address}>\r\nCall-ID: {marker}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        self.sender
            .send_to(options.as_bytes(), address)
            .expect("sent");
        let mut answers = Vec::new();
        loop {
            let answer =
                receive(&self.sender).unwrap_or_else(|| panic!("{marker}: the server is silent"));
            let is_last = Message::parse(&answer)
                .is_ok_and(|parsed| parsed.call_id() == Some(marker.as_bytes()));
            if is_last {
                return answers;
            }
            answers.push(answer);
        }
    }
}

fn receive(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

fn receive_now(socket: &UdpSocket) -> Option<Vec<u8>> {
    socket.set_nonblocking(true).expect("non-blocking");
    let received = receive(socket);
    socket.set_nonblocking(false).expect("blocking");
    received
}

/// Panics unless the copy has the same body and, in order, every line of the original that a proxy must not touch.
fn assert_same(name: &str, original: &[u8], copy: &[u8]) {
    let (original_lines, original_body) = split(original);
    let (copied_lines, copied_body) = split(copy);
    assert_eq!(original_body, copied_body, "{name}: body");
    let mut copied = copied_lines.iter();
    let mut top_via = true;
    for line in original_lines.iter().skip(1) {
        let lower = String::from_utf8_lossy(line).to_lowercase();
        let field = lower.split(':').next().unwrap_or_default().trim();
        let is_via = field == "via" || field == "v";
        let ours =
            field == "max-forwards" || field == "route" || (is_via && std::mem::take(&mut top_via));
        assert!(
            ours || copied.any(|other| other == line),
            "{name}: {lower:?} is missing in\n{}",
            String::from_utf8_lossy(copy)
        );
    }
}

/// The header fields, with folded lines joined, and the body by Content-Length.
fn split(message: &[u8]) -> (Vec<Vec<u8>>, &[u8]) {
    let parsed = Message::parse(message).expect("parses");
    let end = message
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .expect("end of the header");
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in message
        .get(..end)
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
    {
        match lines.last_mut() {
            Some(last) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                last.push(b'\n');
                last.extend_from_slice(line);
            }
            _ => lines.push(line.to_vec()),
        }
    }
    for line in &mut lines {
        while line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    (lines, parsed.body())
}

#[test]
fn each_torture_message_meets_the_rfcs() {
    let next_hop = UdpSocket::bind("127.0.0.1:0").expect("socket");
    let outbound = next_hop.local_addr().expect("bound");
    // In datagrams of any length.
    let start = |domain: &str| {
        Server::start(&ServerOptions {
            sections: format!(
                "[auth]\nchallenge = []\n\n[proxy]\nforeign = \"relay\"\noutbound = \"sip:{outbound};transport=udp\"\n"
            ),
            workers: 1,
            domain: domain.into(),
            ..ServerOptions::default()
        })
    };
    let mut registrar = start("example.com");
    let mut proxy = start("tandem.example");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("socket");
    sender.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let peers = Peers { sender, next_hop };
    let mut seen = HashSet::new();
    let mut wrong = 0;
    println!(
        "{:<30} {:<15} {:<15} section and reason",
        "message", "expected", "got"
    );
    for (name, message, expected, why) in RFC_4475.iter().chain(RFC_5118) {
        let server = if message.starts_with(b"REGISTER") {
            &mut registrar
        } else {
            &mut proxy
        };
        let via = Message::parse(message)
            .ok()
            .and_then(|parsed| Some(parsed.top_via()?.bytes.to_vec()));
        if via.is_some() && !seen.insert(via) {
            // It has the same transaction as an earlier message, so it would count as a retransmission.
            server.restart();
        }
        let (got, bytes) = peers.outcome(server, name, message);
        println!(
            "{name:<30} {:<15} {:<15} {why}",
            format!("{expected:?}"),
            format!("{got:?}")
        );
        wrong += u32::from(got != *expected);
        if got == Forwarded {
            assert_same(name, message, &bytes);
        }
    }
    assert_eq!(wrong, 0, "messages whose outcome is not the expected one");
}
