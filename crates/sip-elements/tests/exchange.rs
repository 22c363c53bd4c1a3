//! The whole node, message by message: what a peer sees on the wire.

use sip_elements::auth::{CredentialCache, Nonces, StoredCredentials};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::{Drop, WorkerMetrics};
use sip_elements::{Answer, Exchange, ExchangeOptions, Question, Settings, Shared};
use sip_message::digest::{self, Algorithm, DigestInput};
use sip_message::{Challenge, HeaderName, KeyHasher, Message};
use sip_transport::{Flow, Listener, ListenerId, Node, Output, Protocol, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const ALICE: &str = "192.0.2.10:5060";
const BOB: &str = "192.0.2.20:5060";

fn settings() -> Settings {
    let listeners = vec![Listener {
        protocol: Protocol::Udp,
        address: "192.0.2.1:5060".parse().expect("address"),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
    }];
    let mut settings = Settings::new(&["example.org".into()], listeners);
    settings.algorithms = vec![Algorithm::Sha256, Algorithm::Md5];
    settings.limits.parked_requests = 10;
    settings.limits.retry_after = 7;
    settings
}

/// A node, its clock, and the subscribers that its control plane knows.
struct Bench {
    exchange: Exchange,
    shared: Arc<Shared>,
    metrics: Arc<WorkerMetrics>,
    now: Time,
    output: Output<Question>,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let shared = Arc::new(Shared {
            locations: Locations::new(LocationLimits {
                max_bindings: 1000,
                max_pending_changes: 1000,
            }),
            credentials: CredentialCache::new(1000, 3600, 60),
            nonces: Nonces::new((1, 2), 1024),
            hasher: KeyHasher::new((3, 4)),
        });
        let now = Time::from_unix_seconds(1_800_000_000);
        let metrics = Arc::new(WorkerMetrics::default());
        let exchange = Exchange::new(ExchangeOptions {
            worker: 0,
            workers: 1,
            shared: Arc::clone(&shared),
            settings: Arc::new(settings),
            metrics: Arc::clone(&metrics),
            seed: [7; 32],
            now,
        });
        Self {
            exchange,
            shared,
            metrics,
            now,
            output: Output::default(),
        }
    }

    /// Puts alice and bob into the credential cache.
    fn with_subscribers(self) -> Self {
        for user in ["alice", "bob"] {
            self.shared.credentials.insert(
                user.as_bytes(),
                b"example.org",
                Some(stored(user)),
                self.now,
            );
        }
        self
    }

    /// Sends a message in; what comes out, with where it goes.
    fn receive(&mut self, from: &str, message: &str) -> Vec<(SocketAddr, String)> {
        let flow = Flow::datagram(ListenerId(0), from.parse().expect("address"));
        let message = message.replace('\n', "\r\n");
        self.exchange
            .receive(self.now, flow, message.as_bytes(), &mut self.output);
        self.sent()
    }

    fn sent(&mut self) -> Vec<(SocketAddr, String)> {
        let sent = self.output.outgoing().iter().map(|outgoing| {
            let bytes = self.output.written(outgoing.range.clone());
            (
                outgoing.flow.remote,
                String::from_utf8_lossy(bytes).into_owned(),
            )
        });
        let sent = sent.collect();
        let questions: Vec<Question> = self.output.drain_questions().collect();
        self.output.clear();
        for question in questions {
            self.output.ask(question);
        }
        sent
    }

    fn question(&mut self) -> Option<Question> {
        self.output.drain_questions().next()
    }

    /// The control plane says what it knows.
    fn answer(&mut self, question: Question) -> Vec<(SocketAddr, String)> {
        let Question::Credentials {
            ticket,
            username,
            domain,
        } = question
        else {
            panic!("not about credentials")
        };
        let known = [&b"alice"[..], b"bob"].contains(&&*username);
        let credentials = known.then(|| stored(&String::from_utf8_lossy(&username)));
        self.shared
            .credentials
            .insert(&username, &domain, credentials, self.now);
        self.exchange.answer(
            self.now,
            Answer::Credentials {
                ticket,
                result: Ok(credentials),
            },
            &mut self.output,
        );
        self.sent()
    }

    fn wait(&mut self, duration: Duration) -> Vec<(SocketAddr, String)> {
        self.now = self.now + duration;
        self.exchange.expire(self.now, &mut self.output);
        self.sent()
    }

    /// Registers a phone, answering the challenge.
    fn register(&mut self, user: &str, at: &str) {
        let challenge = only(self.receive(at, &register(user, at, 1, "")));
        let credentials = answer_challenge(&challenge, user, "REGISTER", "sip:example.org");
        let response = only(self.receive(
            at,
            &register(user, at, 2, &format!("Authorization: {credentials}\n")),
        ));
        assert!(response.starts_with("SIP/2.0 200 "), "{response}");
    }
}

fn stored(user: &str) -> StoredCredentials {
    let password = format!("{user}-secret");
    StoredCredentials {
        ha1_md5: digest::ha1_md5(user.as_bytes(), b"example.org", password.as_bytes()),
        ha1_sha256: digest::ha1_sha256(user.as_bytes(), b"example.org", password.as_bytes()),
    }
}

fn only(sent: Vec<(SocketAddr, String)>) -> String {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.into_iter()
        .next()
        .map(|(_, message)| message)
        .unwrap_or_default()
}

fn status(message: &str) -> u16 {
    Message::parse(message.as_bytes()).map_or(0, |message| message.status())
}

fn answer_challenge(response: &str, user: &str, method: &str, uri: &str) -> String {
    let message = Message::parse(response.as_bytes()).expect("response");
    let name = if message.status() == 401 {
        HeaderName::WwwAuthenticate
    } else {
        HeaderName::ProxyAuthenticate
    };
    let challenge = Challenge::parse(message.header(name).expect("challenge")).expect("digest");
    let nonce = String::from_utf8_lossy(challenge.nonce);
    let input = DigestInput {
        method: method.as_bytes(),
        uri: uri.as_bytes(),
        nonce: challenge.nonce,
        qop_auth: Some((b"00000001", b"abc")),
    };
    let response = digest::response_sha256(&stored(user).ha1_sha256, &input);
    format!(
        "Digest username=\"{user}\", realm=\"example.org\", nonce=\"{nonce}\", uri=\"{uri}\", algorithm=SHA-256, qop=auth, \
         nc=00000001, cnonce=\"abc\", response=\"{}\"",
        String::from_utf8_lossy(&response)
    )
}

fn register(user: &str, at: &str, cseq: u32, extra: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\nVia: SIP/2.0/UDP {at};branch=z9hG4bKr{user}{cseq}\nMax-Forwards: 70\n\
         From: <sip:{user}@example.org>;tag=1\nTo: <sip:{user}@example.org>\nCall-ID: reg-{user}\nCSeq: {cseq} REGISTER\n\
         Contact: <sip:{user}@{at}>\n{extra}Content-Length: 0\n\n"
    )
}

fn request(method: &str, uri: &str, from: &str, branch: &str, extra: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK{branch}\nMax-Forwards: 70\n\
         From: <{from}>;tag=a1\nTo: <{uri}>\nCall-ID: call-1\nCSeq: 1 {method}\nContact: <sip:alice@{ALICE}>\n{extra}\
         Content-Length: 0\n\n"
    )
}

#[test]
fn a_registered_phone_is_called_after_the_caller_has_proven_himself() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("alice", ALICE);
    bench.register("bob", BOB);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    assert_eq!(status(&challenge), 407);
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {credentials}\n");
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i2",
        &extra,
    );
    let sent = bench.receive(ALICE, &invite);
    let [(to_alice, trying), (to_bob, forwarded)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert_eq!((to_alice.to_string(), status(trying)), (ALICE.into(), 100));
    assert_eq!(to_bob.to_string(), BOB);
    assert!(
        forwarded.starts_with(&format!("INVITE sip:bob@{BOB} SIP/2.0\r\n")),
        "{forwarded}"
    );
    assert!(
        forwarded.contains("Record-Route: <sip:192.0.2.1:5060;lr;"),
        "{forwarded}"
    );
    assert!(
        bench.receive(ALICE, &invite).len() == 1,
        "a retransmission gets the 100 again and is not forwarded"
    );
}

#[test]
fn credentials_for_us_go_no_further_and_those_for_others_do() {
    const FOREIGN: [&str; 2] = [
        "proxy-authorization: Digest username=\"alice\",realm=\"elsewhere\" , nonce=\"x\", uri=\"sip:y\", response=\"0\"",
        "Proxy-Authorization: Negotiate realm=\"example.org\"",
    ];
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    let send = |bench: &mut Bench, branch, extra: &str| {
        let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
        bench.receive(ALICE, &request("INVITE", callee, caller, branch, extra))
    };
    let challenge = only(send(&mut bench, "i1", ""));
    let ours = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let [first, last] = FOREIGN;
    let extra = format!("{first}\nProxy-Authorization: {ours}\n{last}\n");
    let forwarded = send(&mut bench, "i2", &extra).pop().expect("a copy").1;
    let passed: Vec<&str> = forwarded
        .split("\r\n")
        .filter(|line| line.to_ascii_lowercase().starts_with("proxy-auth"))
        .collect();
    assert_eq!(passed, FOREIGN, "{forwarded}");

    let challenge = only(send(&mut bench, "i3", ""));
    let ours = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {ours}\n");
    let forwarded = send(&mut bench, "i4", &extra).pop().expect("a copy").1;
    assert!(!forwarded.contains("Authorization"), "{forwarded}");

    let route = "Record-Route: ";
    let route = forwarded
        .split("\r\n")
        .find_map(|line| line.strip_prefix(route));
    let extra = format!("Route: {}\n{extra}", route.expect("recorded"));
    let in_dialog = |method| {
        request(
            method,
            "sip:bob@192.0.2.20",
            "sip:alice@example.org",
            method,
            &extra,
        )
        .replace(
            "To: <sip:bob@192.0.2.20>",
            "To: <sip:bob@example.org>;tag=b1",
        )
    };
    let ack = only(bench.receive(ALICE, &in_dialog("ACK")));
    assert!(!ack.contains("Authorization"), "{ack}");
    // Nobody but the next proxy asks for those of a BYE: it is not challenged here.
    let bye = only(bench.receive(ALICE, &in_dialog("BYE")));
    assert!(bye.contains(&ours), "{bye}");
}

#[test]
fn the_ack_of_a_stateless_challenge_is_swallowed() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    let parsed = Message::parse(challenge.as_bytes()).expect("response");
    let to = String::from_utf8_lossy(parsed.header(HeaderName::To).expect("To")).into_owned();
    let ack = request(
        "ACK",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    )
    .replace("To: <sip:bob@example.org>", &format!("To: {to}"));
    assert_eq!(bench.receive(ALICE, &ack), vec![]);
    assert_eq!(
        bench.exchange.transaction_stats().servers_created,
        0,
        "no state for a challenge"
    );
}

#[test]
fn nobody_speaks_for_another_subscriber() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:bob@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {credentials}\n");
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:bob@example.org",
        "i2",
        &extra,
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 403);
}

#[test]
fn a_third_party_cannot_register() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let message = register("alice", ALICE, 1, "").replace("From: <sip:alice@", "From: <sip:bob@");
    assert_eq!(status(&only(bench.receive(ALICE, &message))), 403);
}

#[test]
fn unknown_callee_is_404_and_known_but_absent_is_480() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let absent = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &absent))), 480);
    let unknown = request(
        "INVITE",
        "sip:nobody@example.org",
        "sip:alice@example.org",
        "i2",
        "",
    );
    let parked = only(bench.receive(ALICE, &unknown));
    assert_eq!(status(&parked), 100, "it waits for the store");
    let question = bench.question().expect("does he exist?");
    assert_eq!(status(&only(bench.answer(question))), 404);
}

#[test]
fn an_uncached_subscriber_is_asked_for_and_the_request_goes_on() {
    let mut bench = Bench::new(settings());
    let challenge = only(bench.receive(ALICE, &register("alice", ALICE, 1, "")));
    let credentials = answer_challenge(&challenge, "alice", "REGISTER", "sip:example.org");
    let message = register(
        "alice",
        ALICE,
        2,
        &format!("Authorization: {credentials}\n"),
    );
    assert_eq!(bench.receive(ALICE, &message), vec![], "parked");
    assert_eq!(bench.exchange.parked(), 1);
    assert_eq!(
        bench.receive(ALICE, &message),
        vec![],
        "its retransmission asks nothing again"
    );
    let question = bench.question().expect("whose credentials");
    assert!(bench.question().is_none());
    assert_eq!(status(&only(bench.answer(question))), 200);
    assert_eq!(bench.exchange.parked(), 0);
}

#[test]
fn a_shorter_deadline_holds_for_requests_that_come_after_it() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings.clone());
    let invite = |branch| {
        let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
        request("INVITE", callee, caller, branch, "")
    };
    assert_eq!(status(&only(bench.receive(ALICE, &invite("old")))), 100);
    settings.question_deadline = Duration::from_secs(1);
    let reload = Answer::Settings(Arc::new(settings));
    bench.exchange.answer(bench.now, reload, &mut bench.output);
    assert_eq!(status(&only(bench.receive(ALICE, &invite("new")))), 100);
    let refused = only(bench.wait(Duration::from_secs(1)));
    assert_eq!(status(&refused), 500);
    assert!(refused.contains("branch=z9hG4bKnew"), "{refused}");
    let later = bench.wait(Duration::from_secs(4));
    assert!(
        later
            .iter()
            .any(|(_, sent)| sent.contains("SIP/2.0 500") && sent.contains("branch=z9hG4bKold")),
        "{later:#?}"
    );
}

#[test]
fn an_invite_that_waited_gets_100_once() {
    let mut bench = Bench::new(settings());
    bench
        .shared
        .credentials
        .insert(b"bob", b"example.org", Some(stored("bob")), bench.now);
    bench.register("bob", BOB);
    let invite = |branch, extra: &str| {
        request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            branch,
            extra,
        )
    };
    let challenge = only(bench.receive(ALICE, &invite("i1", "")));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let proven = invite("i2", &format!("Proxy-Authorization: {credentials}\n"));
    assert_eq!(status(&only(bench.receive(ALICE, &proven))), 100);
    let question = bench.question().expect("whose credentials");
    let forwarded = only(bench.answer(question));
    assert!(forwarded.starts_with("INVITE "), "{forwarded}");
    let again = only(bench.receive(ALICE, &proven));
    assert_eq!(status(&again), 100, "its retransmission gets it again");
}

#[test]
fn a_question_without_answer_ends_in_500_and_its_late_answer_is_ignored() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 100);
    let question = bench.question().expect("question");
    assert_eq!(status(&only(bench.wait(Duration::from_secs(5)))), 500);
    assert_eq!(bench.answer(question), vec![]);
}

#[test]
fn a_parked_invite_can_be_cancelled() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    );
    let question = bench.question().expect("question");
    let cancel = request(
        "CANCEL",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(
        bench
            .receive("192.0.2.66:5060", &cancel)
            .iter()
            .map(|(_, sent)| status(sent))
            .collect::<Vec<_>>(),
        [481],
        "not from somebody else"
    );
    let statuses: Vec<u16> = bench
        .receive(ALICE, &cancel)
        .iter()
        .map(|(_, sent)| status(sent))
        .collect();
    assert_eq!(statuses, [487, 200]);
    assert_eq!(bench.answer(question), vec![]);
}

#[test]
fn parked_requests_are_bounded() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    for number in 0..10 {
        let invite = request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            &format!("i{number}"),
            "",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &invite))), 100);
    }
    let refused = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "last",
            "",
        ),
    ));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After: 7\r\n"), "{refused}");
}

#[test]
fn it_is_no_open_relay() {
    let mut bench = Bench::new(settings()).with_subscribers();
    for from in ["sip:stranger@elsewhere.example", "sip:alice@example.org"] {
        let message = request("MESSAGE", "sip:victim@elsewhere.example", from, "m1", "");
        assert_eq!(status(&only(bench.receive(ALICE, &message))), 403);
        let through = request(
            "MESSAGE",
            "sip:victim@elsewhere.example",
            from,
            "m2",
            "Route: <sip:192.0.2.1;lr>\n",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &through))), 403);
        let forged = request(
            "BYE",
            "sip:victim@elsewhere.example",
            from,
            "m3",
            "Route: <sip:192.0.2.1;lr;ck=0123456789abcdef>\n",
        )
        .replace(
            "To: <sip:victim@elsewhere.example>",
            "To: <sip:victim@elsewhere.example>;tag=x",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &forged))), 403);
    }
}

#[test]
fn subscribers_reach_other_domains_through_the_configured_next_hop_and_strangers_do_not() {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.outbound = Some("198.51.100.9:5060".parse().expect("address"));
    let mut bench = Bench::new(settings).with_subscribers();
    let own = request(
        "MESSAGE",
        "sip:somebody@elsewhere.example",
        "sip:alice@example.org",
        "m1",
        "",
    );
    let sent = bench.receive(ALICE, &own);
    assert_eq!(
        sent.first().map(|(to, _)| to.to_string()),
        Some("198.51.100.9:5060".into()),
        "{sent:#?}"
    );
    let strange = request(
        "MESSAGE",
        "sip:somebody@elsewhere.example",
        "sip:stranger@elsewhere.example",
        "m2",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &strange))), 403);
}

#[test]
fn what_is_said_to_the_server_itself_is_answered_by_it() {
    let mut bench = Bench::new(settings());
    for (message, expected) in [
        (
            request("OPTIONS", "sip:example.org", "sip:x@y.example", "o1", ""),
            200,
        ),
        (
            request("OPTIONS", "sip:192.0.2.1", "sip:x@y.example", "o2", ""),
            200,
        ),
        (
            request(
                "OPTIONS",
                "sip:example.org",
                "sip:x@y.example",
                "o3",
                "Require: teleport\n",
            ),
            420,
        ),
        (
            request(
                "NOTIFY",
                "sip:example.org",
                "sip:x@y.example",
                "n1",
                "Event: keep-alive\n",
            ),
            200,
        ),
        (
            request("MESSAGE", "sip:example.org", "sip:x@y.example", "m1", ""),
            405,
        ),
        (
            request("FROBNICATE", "sip:example.org", "sip:x@y.example", "f1", ""),
            501,
        ),
        (
            request("BYE", "sip:example.org", "sip:x@y.example", "b1", ""),
            481,
        ),
        (
            request("CANCEL", "sip:bob@example.org", "sip:x@y.example", "c1", ""),
            481,
        ),
        (
            request(
                "OPTIONS",
                "sip:bob@example.org",
                "sip:x@y.example",
                "mf",
                "",
            )
            .replace("Max-Forwards: 70", "Max-Forwards: 0"),
            483,
        ),
        (
            request(
                "OPTIONS",
                "sip:bob@example.org",
                "sip:x@y.example",
                "pr",
                "Proxy-Require: foo, bar\n",
            ),
            420,
        ),
        (
            request("OPTIONS", "tel:+123", "sip:x@y.example", "te", ""),
            416,
        ),
    ] {
        assert_eq!(
            status(&only(bench.receive(ALICE, &message))),
            expected,
            "{message}"
        );
    }
    let expected_state = 3; // 405, 501 and 481 are judged last, with a transaction; all the others cost none.
    assert_eq!(
        bench.exchange.transaction_stats().servers_created,
        expected_state
    );
    for noise in ["\n\n", "\0\0\0\0", "garbage", "\u{1}\u{1}\0\0"] {
        assert_eq!(bench.receive(ALICE, noise), vec![]);
    }
}

#[test]
fn a_request_that_ends_here_needs_no_hops() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let spent = |message: String| message.replace("Max-Forwards: 70", "Max-Forwards: 0");
    let stranger = "sip:x@y.example";
    for (message, expected) in [
        (
            request("OPTIONS", "sip:example.org", stranger, "o1", ""),
            200,
        ),
        (
            request(
                "NOTIFY",
                "sip:bob@example.org",
                stranger,
                "n1",
                "Event: keep-alive\n",
            ),
            200,
        ),
        (register("alice", ALICE, 1, ""), 401),
        (
            register("alice", ALICE, 2, "")
                .replace("REGISTER sip:example.org", "REGISTER sip:elsewhere.example"),
            483,
        ),
        (
            request("OPTIONS", "sip:bob@example.org", stranger, "o2", ""),
            483,
        ),
        (
            request("MESSAGE", "sip:bob@example.org", stranger, "m1", ""),
            483,
        ),
    ] {
        let message = spent(message);
        let response = only(bench.receive(ALICE, &message));
        assert_eq!(status(&response), expected, "{message}");
    }
}

#[test]
fn a_request_with_more_header_fields_than_are_read_is_refused() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let most = "X-Filler: 1\n".repeat(600);
    let stranger = "sip:x@y.example";
    let options = request("OPTIONS", "sip:example.org", stranger, "o1", &most);
    let response = only(bench.receive(ALICE, &options));
    assert!(
        response.starts_with("SIP/2.0 400 Too many header fields\r\n"),
        "{response}"
    );
    assert!(response.contains("\r\nCall-ID: call-1\r\n"), "{response}");
    assert!(!response.contains("X-Filler"), "{response}");
    // What cannot be answered is not: an ACK, a response, and what hides where an answer would go.
    let ack = request("ACK", "sip:example.org", stranger, "o1", &most);
    assert_eq!(bench.receive(ALICE, &ack), vec![]);
    let answered = options.replace("OPTIONS sip:example.org SIP/2.0", "SIP/2.0 200 OK");
    assert_eq!(bench.receive(ALICE, &answered), vec![]);
    let hidden = options.replace("Via: ", &format!("{most}Via: "));
    assert_eq!(bench.receive(ALICE, &hidden), vec![]);
    let dropped = bench.metrics.drops[Drop::TooManyHeaders as usize].value();
    assert_eq!(dropped, 4);
}

#[test]
fn a_register_for_another_domain_is_not_ours_to_answer() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let message = register("alice", ALICE, 1, "")
        .replace("REGISTER sip:example.org", "REGISTER sip:elsewhere.example");
    let challenge = only(bench.receive(ALICE, &message));
    assert_eq!(status(&challenge), 407, "{challenge}");
    let strange = message
        .replace("sip:alice@example.org", "sip:x@elsewhere.example")
        .replace("rralice1", "other");
    assert_eq!(status(&only(bench.receive(ALICE, &strange))), 403);
}

#[test]
fn a_contact_that_names_the_server_is_not_called() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let loops = register("bob", BOB, 1, "").replace(
        &format!("Contact: <sip:bob@{BOB}>"),
        "Contact: <sip:bob@example.org;x=1>, <sip:bob@192.0.2.1;x=2>",
    );
    assert_eq!(status(&only(bench.receive(BOB, &loops))), 200);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 480);
}

#[test]
fn a_draining_node_refuses_new_calls() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench
        .exchange
        .answer(bench.now, Answer::Drain(true), &mut bench.output);
    let refused = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    ));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After"), "{refused}");
    bench
        .exchange
        .answer(bench.now, Answer::Drain(false), &mut bench.output);
    let challenge = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    ));
    assert_eq!(status(&challenge), 407);
}

/// A node that drains while a call from Alice rings at Bob's, and the INVITE that he got.
fn draining_while_it_rings() -> (Bench, String) {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = register("bob", BOB, 1, "");
    assert_eq!(status(&only(bench.receive(BOB, &contact))), 200);
    let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
    let invite = request("INVITE", callee, caller, "i1", "");
    let forwarded = bench.receive(ALICE, &invite).pop().expect("a copy").1;
    let drain = Answer::Drain(true);
    bench.exchange.answer(bench.now, drain, &mut bench.output);
    (bench, forwarded)
}

/// Bob's 200 to an INVITE.
fn accept(invite: &str) -> String {
    let kept = ["Via", "Record-Route", "From", "Call-ID", "CSeq"];
    let lines = invite.split("\r\n").filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        kept.contains(&name)
    });
    let kept: Vec<&str> = lines.collect();
    format!(
        "SIP/2.0 200 OK\n{}\nTo: <sip:bob@example.org>;tag=b1\nContact: <sip:bob@{BOB}>\nContent-Length: 0\n\n",
        kept.join("\n")
    )
}

fn acknowledge(invite: &str) -> String {
    let route = invite
        .split("\r\n")
        .find_map(|line| line.strip_prefix("Record-Route: "))
        .expect("recorded");
    let (uri, caller) = (format!("sip:bob@{BOB}"), "sip:alice@example.org");
    request("ACK", &uri, caller, "a1", &format!("Route: {route}\n"))
        .replace(&format!("To: <{uri}>"), "To: <sip:bob@example.org>;tag=b1")
}

#[test]
fn a_draining_node_is_not_done_before_the_ack_has_passed() {
    let (mut bench, invite) = draining_while_it_rings();
    let waiting = |bench: &Bench| {
        let metrics = &bench.metrics;
        (
            metrics.response_contexts.value(),
            metrics.unacknowledged.value(),
        )
    };
    assert_eq!(waiting(&bench), (1, 0));
    assert_eq!(status(&only(bench.receive(BOB, &accept(&invite)))), 200);
    assert_eq!(waiting(&bench), (0, 1));
    assert_eq!(
        status(&only(bench.receive(BOB, &accept(&invite)))),
        200,
        "repeated"
    );
    assert_eq!(waiting(&bench), (0, 1));
    let passed = only(bench.receive(ALICE, &acknowledge(&invite)));
    assert!(passed.starts_with("ACK "), "{passed}");
    assert_eq!(waiting(&bench), (0, 0));
}

#[test]
fn a_draining_node_does_not_wait_for_an_ack_for_ever() {
    let (mut bench, invite) = draining_while_it_rings();
    bench.receive(BOB, &accept(&invite));
    bench.wait(Duration::from_millis(31_900));
    assert_eq!(bench.metrics.unacknowledged.value(), 1);
    assert!(bench.exchange.next_deadline().is_some());
    bench.wait(Duration::from_millis(100));
    assert_eq!(bench.metrics.unacknowledged.value(), 0);
}
