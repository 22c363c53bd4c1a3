//! Limits on amplification. An address that an attacker writes on a request gets at most three times the bytes of the
//! request. The exceptions are single responses of the kinds that RFC 3261 makes long (challenges, and 200).

use crate::bench::{BOB, Bench, accept, only, recorded, settings};
use sip_message::{Message, ResponseWriter};
use sip_transport::{Flow, ListenerId, Node};
use std::net::SocketAddr;
use std::time::Duration;

/// The address that did not send the request.
const VICTIM: &str = "198.51.100.9:5060";
const FACTOR: usize = 3;

/// What the phone does that a request reaches.
#[derive(Clone, Copy)]
enum Phone {
    Silent,
    /// Rings repeatedly, then is busy.
    Busy,
    /// Rings, answers, and retransmits its answer like a phone that gets no ACK.
    Answers,
}

/// A request that is as short as possible.
fn short(method: &str, uri: &str, from: &str, extra: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\nv:SIP/2.0/UDP h;branch=z9hG4bK1\nf:<{from}>;tag=1\nt:<{uri}>\ni:1\nCSeq:1 {method}\n\
         Max-Forwards:70\n{extra}\n"
    )
}

/// What the victim gets within 32 seconds of a request in its name: the bytes, the number of messages, and whether it
/// was a single response of a kind that may be long.
struct Reflected {
    bytes: usize,
    messages: usize,
    is_single_exception: bool,
}

struct Reflection {
    bench: Bench,
    phone: Phone,
    reached: Vec<String>,
    reflected: Vec<String>,
}

impl Reflection {
    fn new(phone: Phone) -> Self {
        let mut bench = Bench::new(settings()).with_subscribers();
        bench.register("bob", BOB);
        Self {
            bench,
            phone,
            reached: Vec::new(),
            reflected: Vec::new(),
        }
    }

    fn of(mut self, request: &[u8]) -> Reflected {
        let victim: SocketAddr = VICTIM.parse().expect("an address");
        let flow = Flow::to(ListenerId(0), victim);
        let now = self.bench.now;
        self.bench
            .exchange
            .receive(now, flow, request, &mut self.bench.output);
        self.collect();
        while let Some(question) = self.bench.question() {
            let sent = self.bench.answer(question);
            self.sort(sent);
        }
        for half_second in 0..64 {
            self.act(half_second);
            let sent = self.bench.wait(Duration::from_millis(500));
            self.sort(sent);
        }
        let lengths = self.reflected.iter().map(String::len);
        let exception = ["SIP/2.0 401 ", "SIP/2.0 407 ", "SIP/2.0 200 "];
        Reflected {
            bytes: lengths.sum(),
            messages: self.reflected.len(),
            is_single_exception: self.reflected.len() == 1
                && exception
                    .iter()
                    .any(|line| self.reflected[0].starts_with(line)),
        }
    }

    fn collect(&mut self) {
        let sent = self.bench.sent();
        self.sort(sent);
    }

    fn sort(&mut self, sent: Vec<(SocketAddr, String)>) {
        for (to, text) in sent {
            if to.to_string() == BOB {
                self.reached.push(text);
            } else {
                // The port does not matter: the address is the victim's.
                assert_eq!(to.ip().to_string(), "198.51.100.9");
                self.reflected.push(text);
            }
        }
    }

    /// Acts for the phone in this half second.
    fn act(&mut self, half_second: usize) {
        let status = match (self.phone, half_second) {
            (Phone::Silent, _) => return,
            (_, 0..4) => 180,
            (Phone::Busy, 4) => 486,
            (Phone::Busy, _) => return,
            (Phone::Answers, _) => 200,
        };
        let invite = self.reached.iter().find(|text| text.starts_with("INVITE "));
        let Some(invite) = invite else { return };
        let request = Message::parse(invite.as_bytes()).expect("a request");
        let mut response = Vec::new();
        let us = "192.0.2.1:5060".parse().expect("an address");
        let body = "v=0\r\n".repeat(60);
        ResponseWriter::begin(&mut response, &request, us, status, "", Some(b"bob"))
            .finish_with_body(b"application/sdp", body.as_bytes());
        let flow = Flow::to(ListenerId(0), BOB.parse().expect("an address"));
        let now = self.bench.now;
        self.bench
            .exchange
            .receive(now, flow, &response, &mut self.bench.output);
        self.collect();
    }
}

#[expect(clippy::too_many_lines, reason = "one row for each kind of request")]
#[test]
fn no_request_of_a_stranger_is_multiplied() {
    let (bob, nobody, us) = (
        "sip:bob@example.org",
        "sip:x@example.org",
        "sip:example.org",
    );
    let (stranger, alice) = ("sip:a@b.c", "sip:alice@example.org");
    let sdp = format!("c:application/sdp\nl:300\n\n{}", "v=0\n".repeat(75));
    let rows: Vec<(&str, String, Phone)> = vec![
        (
            "INVITE to nobody",
            short("INVITE", nobody, stranger, ""),
            Phone::Silent,
        ),
        (
            "INVITE to another domain",
            short("INVITE", "sip:x@d.e", stranger, ""),
            Phone::Silent,
        ),
        (
            "INVITE to the server",
            short("INVITE", us, stranger, ""),
            Phone::Silent,
        ),
        (
            "INVITE, silent phone",
            short("INVITE", bob, stranger, ""),
            Phone::Silent,
        ),
        (
            "INVITE, busy phone",
            short("INVITE", bob, stranger, ""),
            Phone::Busy,
        ),
        (
            "INVITE with a body, silent phone",
            short("INVITE", bob, stranger, &sdp),
            Phone::Silent,
        ),
        (
            "INVITE with a body, busy phone",
            short("INVITE", bob, stranger, &sdp),
            Phone::Busy,
        ),
        (
            "INVITE in a subscriber's name",
            short("INVITE", bob, alice, ""),
            Phone::Silent,
        ),
        (
            "INVITE, hops used up",
            short("INVITE", bob, stranger, "").replace("Max-Forwards:70", "Max-Forwards:0"),
            Phone::Silent,
        ),
        (
            "INVITE, Proxy-Require",
            short("INVITE", bob, stranger, "Proxy-Require:x\n"),
            Phone::Silent,
        ),
        (
            "INVITE, no branching allowed",
            short("INVITE", bob, stranger, "Max-Breadth:0\n"),
            Phone::Silent,
        ),
        (
            "INVITE, interval too small",
            short("INVITE", bob, stranger, "k:timer\nx:1\n"),
            Phone::Silent,
        ),
        (
            "INVITE, malformed interval",
            short("INVITE", bob, stranger, "x:-1\n"),
            Phone::Silent,
        ),
        (
            "INVITE to a scheme of others",
            short("INVITE", "tel:1", stranger, ""),
            Phone::Silent,
        ),
        (
            "INVITE, malformed",
            short("INVITE", bob, stranger, "").replace("CSeq:1", "CSeq:x"),
            Phone::Silent,
        ),
        (
            "INVITE without Via host",
            short("INVITE", bob, stranger, "").replace("UDP h;", "UDP ;"),
            Phone::Silent,
        ),
        ("ACK", short("ACK", bob, stranger, ""), Phone::Silent),
        ("BYE", short("BYE", bob, stranger, ""), Phone::Silent),
        ("CANCEL", short("CANCEL", bob, stranger, ""), Phone::Silent),
        (
            "REGISTER",
            short("REGISTER", us, alice, "")
                .replace("t:<sip:example.org>", "t:<sip:alice@example.org>"),
            Phone::Silent,
        ),
        (
            "REGISTER for another domain",
            short("REGISTER", us, stranger, ""),
            Phone::Silent,
        ),
        (
            "OPTIONS to the server",
            short("OPTIONS", us, stranger, ""),
            Phone::Silent,
        ),
        (
            "OPTIONS to a phone",
            short("OPTIONS", bob, stranger, ""),
            Phone::Silent,
        ),
        (
            "OPTIONS to nobody",
            short("OPTIONS", nobody, stranger, ""),
            Phone::Silent,
        ),
        (
            "NOTIFY keep-alive",
            short("NOTIFY", us, stranger, "o:keep-alive\n"),
            Phone::Silent,
        ),
        ("NOTIFY", short("NOTIFY", bob, stranger, ""), Phone::Silent),
        (
            "MESSAGE",
            short("MESSAGE", bob, stranger, ""),
            Phone::Silent,
        ),
        (
            "MESSAGE to nobody",
            short("MESSAGE", nobody, stranger, ""),
            Phone::Silent,
        ),
        (
            "SUBSCRIBE to the server",
            short("SUBSCRIBE", us, stranger, ""),
            Phone::Silent,
        ),
        (
            "an unknown method",
            short("X", us, stranger, ""),
            Phone::Silent,
        ),
        ("a keep-alive", "\n\n".into(), Phone::Silent),
        ("noise", "x".repeat(30), Phone::Silent),
    ];
    let mut worst = Vec::new();
    for (name, request, phone) in rows {
        let request = request.replace('\n', "\r\n");
        let reflected = Reflection::new(phone).of(request.as_bytes());
        let tenths = reflected.bytes * 10 / request.len();
        println!(
            "{name}: {} bytes in, {} bytes in {} messages out, x{}.{}",
            request.len(),
            reflected.bytes,
            reflected.messages,
            tenths / 10,
            tenths % 10
        );
        if reflected.bytes > FACTOR * request.len() && !reflected.is_single_exception {
            worst.push((name, tenths));
        }
    }
    assert_eq!(worst, [], "more than {FACTOR} times");
}

#[test]
fn stun_is_answered_once_and_shortly() {
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    let reflected = Reflection::new(Phone::Silent).of(&request);
    println!(
        "STUN: {} bytes in, {} bytes out",
        request.len(),
        reflected.bytes
    );
    assert!(reflected.messages == 1 && reflected.bytes <= FACTOR * request.len());
}

#[test]
fn an_answer_is_repeated_as_far_as_credit_goes() {
    // A caller of another domain, over UDP. An INVITE that is long enough for a call gets its 100, 180 and 200.
    let bob = "sip:bob@example.org";
    let extra = format!("c:application/sdp\nl:300\n\n{}", "v=0\n".repeat(75));
    let request = short("INVITE", bob, "sip:a@b.c", &extra).replace('\n', "\r\n");
    let mut reflection = Reflection::new(Phone::Answers);
    let victim = Flow::to(ListenerId(0), VICTIM.parse().expect("an address"));
    let now = reflection.bench.now;
    reflection.bench.exchange.receive(
        now,
        victim,
        request.as_bytes(),
        &mut reflection.bench.output,
    );
    reflection.collect();
    for half_second in 0..64 {
        reflection.act(half_second);
        let sent = reflection.bench.wait(Duration::from_millis(500));
        reflection.sort(sent);
    }
    let is_answer = |text: &&String| text.starts_with("SIP/2.0 200 ");
    let answers = reflection.reflected.iter().filter(is_answer).count();
    let bytes: usize = reflection.reflected.iter().map(String::len).sum();
    println!(
        "{} bytes in, {bytes} bytes out, {answers} answers",
        request.len()
    );
    assert!(answers >= 2, "the first may be lost");
    assert!(bytes <= FACTOR * request.len(), "{bytes}");
}

#[test]
fn the_answer_to_a_short_request_goes_out_once() {
    let request = short("INVITE", "sip:bob@example.org", "sip:a@b.c", "").replace('\n', "\r\n");
    let reflected = Reflection::new(Phone::Answers).of(request.as_bytes());
    assert!(
        reflected.is_single_exception,
        "{} messages",
        reflected.messages
    );
}

#[test]
fn a_long_refusal_of_a_request_in_a_dialog_is_not_multiplied() {
    const CALLER: &str = "192.0.2.66:5060";
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    let invite = |cseq: u32, at: &str, target: &str, to_tag: &str, routes: &str| {
        format!(
            "INVITE {target} SIP/2.0\nVia: SIP/2.0/UDP {at};branch=z9hG4bKd{cseq}\nMax-Forwards: 70\n\
             From: <sip:a@b.c>;tag=1\nTo: <sip:bob@example.org>{to_tag}\nCall-ID: 1\nCSeq: {cseq} INVITE\n\
             {routes}Contact: <sip:a@{CALLER}>\nContent-Length: 0\n\n"
        )
    };
    let forwarded = |sent: Vec<(SocketAddr, String)>| {
        let mut texts = sent.into_iter().map(|(_, text)| text);
        texts
            .find(|text| text.starts_with("INVITE "))
            .expect("it is forwarded")
    };
    let first = invite(1, CALLER, "sip:bob@example.org", "", "");
    let reached = forwarded(bench.receive(CALLER, &first));
    let answered = only(bench.receive(BOB, &accept(&reached)));
    let mut routes = String::new();
    for route in recorded(&answered).iter().rev() {
        routes.extend(["Route: ", route, "\n"]);
    }
    // The caller writes another address on a request inside the dialog, and the callee sends a long response.
    let again = invite(2, VICTIM, &format!("sip:bob@{BOB}"), ";tag=b1", &routes);
    let mut sent = bench.receive(VICTIM, &again);
    let reached = forwarded(sent.clone());
    let long = format!("Warning: 399 x \"{}\"\nContact:", "y".repeat(5_000));
    let refusal = accept(&reached)
        .replace("200 OK", "488 No")
        .replace("Contact:", &long);
    sent.extend(bench.receive(BOB, &refusal));
    for _ in 0..400 {
        sent.extend(bench.wait(Duration::from_millis(100)));
    }
    let is_reflected = |(to, _): &&(SocketAddr, String)| to.to_string() == VICTIM;
    let reflected = sent.iter().filter(is_reflected);
    let bytes: usize = reflected.map(|(_, text)| text.len()).sum();
    let most = FACTOR * again.replace('\n', "\r\n").len();
    assert!(bytes <= most, "{bytes} bytes of at most {most}");
    // The response waits until the request is retransmitted.
    let is_answer = |(_, text): &(SocketAddr, String)| text.starts_with("SIP/2.0 488 ");
    assert!(!sent.iter().any(is_answer));
}
