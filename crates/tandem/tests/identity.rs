//! Numbers and identities between phones and carriers, over sockets: what each side of a call gets.
mod common;

use common::{PATIENCE, Phone, Place, header, response, run};
use serde_json::json;
use std::net::{SocketAddr, UdpSocket};
use tandem::serve::Server;

/// What only trusted parties may say.
const ASSERTED: &str = "P-Asserted-Identity: <sip:+4940111222@carrier.example>\r\n\
                        Remote-Party-ID: <sip:+4940111222@carrier.example>\r\n\
                        Diversion: <sip:+4940111222@carrier.example>;reason=no-answer\r\n\
                        History-Info: <sip:+4940111222@carrier.example>;index=1\r\n";
const CARRIED: [&str; 4] = [
    "Reason: Q.850;cause=16",
    "Refer-To: <sip:carol@tandem.localhost>",
    "X-Carrier: 7",
    "Subscription-State: active;expires=60",
];

/// A carrier: a socket with an address of its own.
struct Carrier {
    socket: UdpSocket,
}

impl Carrier {
    fn at(address: &str) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { socket }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    fn send(&self, server: &Server, message: &str) {
        let to = server.running().listeners[0].address;
        self.socket.send_to(message.as_bytes(), to).expect("sent");
    }

    /// The next message that begins with this. Retransmissions and ACKs to refusals are skipped.
    fn receive(&self, beginning: &str) -> String {
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, _) = self.socket.recv_from(&mut buffer).expect("a message comes");
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.starts_with(beginning) {
                return message;
            }
        }
    }

    /// Answers a request, with further header lines.
    fn answer(&self, server: &Server, request: &str, status: &str, more: &str) {
        let at = format!("Contact: <sip:gw@{}>", self.address());
        let answer = response(request, status);
        let contact = header(&answer, "Contact").expect("Contact");
        let answer = answer.replace(&format!("Contact: {contact}"), &at);
        self.send(server, &with(&answer, more));
    }
}

/// The message with further header lines.
fn with(message: &str, more: &str) -> String {
    message.replace("Content-Length:", &format!("{more}Content-Length:"))
}

fn lines(names: &[&str]) -> String {
    names.iter().flat_map(|line| [*line, "\r\n"]).collect()
}

#[track_caller]
fn carries(message: &str, expected: &[&str]) {
    for line in expected {
        assert!(
            message.contains(&format!("{line}\r\n")),
            "no {line} in\n{message}"
        );
    }
}

/// The first letters of what only trusted parties may say.
fn named(message: &str) -> String {
    let names = [
        "P-Asserted-Identity",
        "Remote-Party-ID",
        "Diversion",
        "History-Info",
    ];
    let found = names
        .into_iter()
        .filter(|name| header(message, name).is_some());
    found.map(|name| &name[..1]).collect()
}

struct Carriers {
    _place: Place,
    server: Server,
    /// Trusted, wants national numbers and P-Asserted-Identity.
    berlin: Carrier,
    /// Not trusted, wants digits and Remote-Party-ID. It is tried second.
    world: Carrier,
}

/// A server with two carriers. A rule trusts what comes from 127.0.0.3.
async fn start() -> Carriers {
    let (berlin, world) = (Carrier::at("127.0.0.2"), Carrier::at("127.0.0.2"));
    let place = Place::new(&format!(
        r#"
[auth]
challenge = []
[numbering]
country_code = "49"
[[gateway]]
name = "berlin"
destination = "sip:{}"
probe = false
trusted = true
called_format = "national"
identity = "asserted"
caller_number = "+4930123400"
caller_format = "e164"
[[gateway]]
name = "world"
destination = "sip:{}"
probe = false
called_format = "digits"
prefix = "9911"
identity = "remote_party_id"
caller_format = "digits"
caller_domain = "trunk.example.net"
[[group]]
name = "out"
members = ["berlin", {{ gateway = "world", priority = 1 }}]
[[rule]]
name = "trunk"
source = ["127.0.0.3"]
authenticate = "trust"
[[rule]]
name = "numbers"
user = ["+*"]
action = "group"
group = "out"
"#,
        berlin.address(),
        world.address()
    ));
    let (place, server) = place.start_alone().await;
    Carriers {
        _place: place,
        server,
        berlin,
        world,
    }
}

const NUMBER: &str = "sip:+4989123456@tandem.localhost";

/// A request of the phone in the dialog of this answer.
fn from_phone(phone: &Phone, answer: &str, (cseq, method): (u32, &str), more: &str) -> String {
    let of = |name| header(answer, name).unwrap_or_else(|| panic!("no {name} in {answer}"));
    let (here, target) = (phone.address(), of("Contact").trim_matches(['<', '>']));
    let (route, from, to, call_id) = (of("Record-Route"), of("From"), of("To"), of("Call-ID"));
    format!(
        "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK-{call_id}-{cseq};rport\r\nMax-Forwards: 70\r\n\
         Route: {route}\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:{}@{here}>\r\n{more}Content-Length: 0\r\n\r\n",
        phone.name
    )
}

/// A request of the carrier in the dialog of this INVITE, which it has answered with the tag `bob`.
fn from_carrier(
    carrier: &Carrier,
    invite: &str,
    (cseq, method): (u32, &str),
    more: &str,
) -> String {
    let of = |name| header(invite, name).unwrap_or_else(|| panic!("no {name} in {invite}"));
    let (here, target) = (carrier.address(), of("Contact").trim_matches(['<', '>']));
    let (route, from, to, call_id) = (of("Record-Route"), of("From"), of("To"), of("Call-ID"));
    format!(
        "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK-c-{call_id}-{cseq};rport\r\nMax-Forwards: 70\r\n\
         Route: {route}\r\nFrom: {to};tag=bob\r\nTo: {from}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:gw@{here}>\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

/// The next message for the phone that begins with this.
fn to_phone(phone: &Phone, beginning: &str) -> String {
    loop {
        let message = phone.receive();
        if message.starts_with(beginning) {
            return message;
        }
    }
}

#[test]
fn a_call_reaches_each_carrier_with_its_numbers_and_its_identity() {
    run(async {
        let carriers = start().await;
        let Carriers {
            server,
            berlin,
            world,
            ..
        } = &carriers;
        let phone = Phone::new(server, "030123456");
        phone.send((1, "INVITE"), NUMBER, NUMBER, "failover", ASSERTED);
        let first = berlin.receive("INVITE ");
        let line = format!("INVITE sip:089123456@{} SIP/2.0\r\n", berlin.address());
        assert!(first.starts_with(&line), "{first}");
        let identity = "<sip:+4930123456@tandem.localhost;user=phone>";
        assert_eq!(header(&first, "P-Asserted-Identity"), Some(identity));
        assert_eq!(named(&first), "P", "{first}");
        assert_eq!(header(&first, "To"), Some(&*format!("<{NUMBER}>")));
        berlin.answer(server, &first, "503 Service Unavailable", "");
        let second = world.receive("INVITE ");
        let line = format!("INVITE sip:99114989123456@{} SIP/2.0\r\n", world.address());
        assert!(second.starts_with(&line), "{second}");
        let identity =
            "<sip:4930123456@trunk.example.net;user=phone>;party=calling;screen=yes;privacy=off";
        assert_eq!(header(&second, "Remote-Party-ID"), Some(identity));
        assert_eq!(named(&second), "R", "{second}");
        world.answer(server, &second, "486 Busy Here", ASSERTED);
        let (status, refused) = phone.final_response("INVITE");
        assert_eq!(
            (status, &*named(&refused)),
            (486, ""),
            "not from an untrusted carrier"
        );
    });
}

#[test]
fn a_carrier_does_not_learn_a_withheld_number_unless_it_is_trusted() {
    run(async {
        let carriers = start().await;
        let Carriers {
            server,
            berlin,
            world,
            ..
        } = &carriers;
        let alice = Phone::new(server, "alice");
        alice.send((1, "INVITE"), NUMBER, NUMBER, "private", "Privacy: id\r\n");
        let first = berlin.receive("INVITE ");
        let trunk = "<sip:+4930123400@tandem.localhost;user=phone>";
        assert_eq!(header(&first, "P-Asserted-Identity"), Some(trunk));
        assert_eq!(header(&first, "Privacy"), Some("id"));
        berlin.answer(server, &first, "503 Service Unavailable", "");
        let second = world.receive("INVITE ");
        assert_eq!(
            (header(&second, "Privacy"), &*named(&second)),
            (Some("id"), "")
        );
        world.answer(server, &second, "486 Busy Here", "");
        assert_eq!(alice.final_response("INVITE").0, 486);
    });
}

#[test]
fn prack_update_refer_notify_and_info_pass_in_a_call_to_a_carrier_and_back() {
    run(async {
        let carriers = start().await;
        let Carriers { server, berlin, .. } = &carriers;
        let phone = Phone::new(server, "030123456");
        phone.send(
            (1, "INVITE"),
            NUMBER,
            NUMBER,
            "methods",
            "Supported: 100rel\r\n",
        );
        let invite = berlin.receive("INVITE ");
        carries(&invite, &["Supported: 100rel"]);
        let reliable = format!("Require: 100rel\r\nRSeq: 1\r\n{ASSERTED}");
        berlin.answer(server, &invite, "183 Session Progress", &reliable);
        let progress = to_phone(&phone, "SIP/2.0 183 ");
        carries(&progress, &["Require: 100rel", "RSeq: 1"]);
        assert_eq!(named(&progress), "PRDH", "the carrier is trusted");
        let prack = from_phone(&phone, &progress, (2, "PRACK"), "RAck: 1 1 INVITE\r\n");
        phone.send_raw(&prack);
        let prack = berlin.receive("PRACK ");
        carries(&prack, &["RAck: 1 1 INVITE"]);
        berlin.answer(server, &prack, "200 OK", "");
        assert_eq!(phone.final_response("PRACK").0, 200);
        berlin.answer(server, &invite, "200 OK", ASSERTED);
        let (status, answered) = phone.final_response("INVITE");
        assert_eq!((status, &*named(&answered)), (200, "PRDH"));
        phone.send_raw(&from_phone(&phone, &answered, (1, "ACK"), ""));
        berlin.receive("ACK ");
        let carried = lines(&CARRIED);
        for (method, cseq) in ["UPDATE", "REFER", "NOTIFY", "INFO", "MESSAGE"]
            .into_iter()
            .zip(3..)
        {
            let more = format!("Event: refer\r\n{ASSERTED}{carried}");
            phone.send_raw(&from_phone(&phone, &answered, (cseq, method), &more));
            let there = berlin.receive(method);
            carries(&there, &CARRIED);
            assert_eq!(named(&there), "", "{method}: a phone may not assert");
            berlin.answer(
                server,
                &there,
                "202 Accepted",
                &format!("{ASSERTED}{carried}"),
            );
            let (status, back) = phone.final_response(method);
            assert_eq!((status, &*named(&back)), (202, "PRDH"), "{method}");
            berlin.send(
                server,
                &from_carrier(berlin, &invite, (cseq, method), &more),
            );
            let here = to_phone(&phone, method);
            carries(&here, &CARRIED);
            assert_eq!(
                named(&here),
                "PRDH",
                "{method}: a trusted carrier may assert"
            );
            phone.send_raw(&with(&response(&here, "200 OK"), ASSERTED));
            let back = berlin.receive("SIP/2.0 200");
            assert_eq!(named(&back), "", "{method}");
        }
        let bye = from_phone(&phone, &answered, (20, "BYE"), "Reason: Q.850;cause=16\r\n");
        phone.send_raw(&bye);
        let bye = berlin.receive("BYE ");
        carries(&bye, &["Reason: Q.850;cause=16"]);
        berlin.answer(server, &bye, "200 OK", "");
        assert_eq!(phone.final_response("BYE").0, 200);
    });
}

#[test]
fn messages_subscriptions_and_publications_reach_a_carrier_outside_calls() {
    run(async {
        let carriers = start().await;
        let Carriers { server, berlin, .. } = &carriers;
        let phone = Phone::new(server, "030123456");
        for method in [
            "MESSAGE",
            "SUBSCRIBE",
            "PUBLISH",
            "REFER",
            "INFO",
            "OPTIONS",
        ] {
            let more = format!("Event: presence\r\n{ASSERTED}{}", lines(&CARRIED));
            phone.send((1, method), NUMBER, NUMBER, method, &more);
            let there = berlin.receive(method);
            assert!(
                there.starts_with(&format!("{method} sip:089123456@")),
                "{there}"
            );
            carries(&there, &CARRIED);
            carries(&there, &["Event: presence"]);
            assert_eq!(named(&there), "P", "{method}");
            let identity = "<sip:+4930123456@tandem.localhost;user=phone>";
            assert_eq!(header(&there, "P-Asserted-Identity"), Some(identity));
            berlin.answer(server, &there, "200 OK", "");
            assert_eq!(phone.final_response(method).0, 200, "{method}");
        }
    });
}

#[test]
fn a_trusted_trunk_says_who_calls_and_where_the_call_has_been_and_a_stranger_does_not() {
    run(async {
        let carriers = start().await;
        let server = &carriers.server;
        let bob = Phone::new(server, "bob");
        assert_eq!(bob.register("bob", 1).0, 200);
        for (address, privacy, expected) in [
            ("127.0.0.3", "", "PRDH"),
            ("127.0.0.3", "Privacy: id;history\r\n", "D"),
            ("127.0.0.4", "", ""),
        ] {
            let trunk = Carrier::at(address);
            let here = trunk.address();
            let call_id = format!("trunk{}", here.port());
            let invite = format!(
                "INVITE sip:bob@tandem.localhost SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK-{call_id};rport\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:+4940111222@carrier.example>;tag=t\r\nTo: <sip:bob@tandem.localhost>\r\n\
                 Call-ID: {call_id}\r\nCSeq: 1 INVITE\r\nContact: <sip:gw@{here}>\r\nReason: SIP;cause=302\r\n\
                 {ASSERTED}{privacy}Content-Length: 0\r\n\r\n"
            );
            trunk.send(server, &invite);
            let there = to_phone(&bob, "INVITE ");
            assert_eq!(named(&there), expected, "{address} {privacy}");
            carries(&there, &["Reason: SIP;cause=302"]);
            bob.send_raw(&with(&response(&there, "486 Busy Here"), ASSERTED));
            assert_eq!(
                named(&trunk.receive("SIP/2.0 486")),
                "",
                "a phone may not assert"
            );
        }
    });
}

#[test]
fn operators_see_the_numbers_and_identities_of_a_gateway() {
    run(async {
        let carriers = start().await;
        let server = &carriers.server;
        let get = |name| common::call(server, "gateways.get", json!({ "name": name }));
        let berlin = get("berlin").await.expect("a gateway");
        assert_eq!(berlin["trusted"], true);
        let called = json!({ "format": "national", "strip": 0, "prefix": "" });
        assert_eq!(berlin["called"], called);
        let caller = json!({
            "identity": "asserted", "caller": "own", "number": "+4930123400", "format": "e164", "domain": null
        });
        assert_eq!(berlin["caller"], caller);
        let params = json!({ "uri": NUMBER });
        let explained = common::call(server, "routes.explain", params).await;
        let explained = explained.expect("an explanation");
        let members = explained["groups"][0]["members"]
            .as_array()
            .expect("members");
        let called: Vec<_> = members.iter().map(|member| &member["called"]).collect();
        assert_eq!(called, ["089123456", "99114989123456"]);
    });
}
