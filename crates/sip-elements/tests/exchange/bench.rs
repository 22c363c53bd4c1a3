//! Test harness for an exchange: a test sends messages in, and checks what the exchange sends.

use sip_elements::auth::{CredentialCache, Nonces, StoredCredentials};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{ControlMessage, Exchange, ExchangeOptions, Question, Record, Settings, Shared};
use sip_message::digest::{self, Algorithm, DigestInput};
use sip_message::{Challenge, HeaderName, KeyHasher, Message};
use sip_transport::{Flow, Input, Listener, ListenerId, Node, Output, Protocol, Time, Undelivered};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ALICE: &str = "192.0.2.10:5060";
pub(crate) const BOB: &str = "192.0.2.20:5060";

pub(crate) fn settings() -> Settings {
    let listeners = vec![Listener {
        protocol: Protocol::Udp,
        address: "192.0.2.1:5060".parse().expect("address"),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
        behind_balancer: false,
    }];
    let mut settings = Settings::new(&["example.org".into()], listeners);
    settings.algorithms = vec![Algorithm::Sha256, Algorithm::Md5];
    settings.limits.parked_requests = 10;
    settings.limits.retry_after = 7;
    settings
}

/// A node, its clock, and the subscribers that its control plane knows.
pub(crate) struct Bench {
    pub(crate) exchange: Exchange,
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) now: Time,
    pub(crate) output: Output<Question, Record>,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Self {
        let shared = Arc::new(Shared {
            locations: Locations::new(LocationLimits {
                max_bindings: 1000,
                max_pending_changes: 1000,
            }),
            credentials: CredentialCache::new(1000, 3600, 60),
            nonces: Nonces::new((1, 2), 1024),
            services: sip_elements::services::Services::default(),
            bans: sip_elements::bans::Bans::default(),
            dead_targets: sip_elements::DeadTargets::default(),
            edges: sip_elements::Edges::default(),
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
    pub(crate) fn with_subscribers(self) -> Self {
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

    /// Receives a message. Returns the messages that the node sends, with their destinations.
    pub(crate) fn receive(&mut self, from: &str, message: &str) -> Vec<(SocketAddr, String)> {
        let flow = Flow::to(ListenerId(0), from.parse().expect("address"));
        let message = message.replace('\n', "\r\n");
        self.exchange
            .receive(self.now, flow, message.as_bytes(), &mut self.output);
        self.sent()
    }

    /// Same as [`Self::receive`], over any flow.
    pub(crate) fn receive_on(&mut self, flow: Flow, message: &str) -> Vec<(Flow, String)> {
        let message = message.replace('\n', "\r\n");
        self.exchange
            .receive(self.now, flow, message.as_bytes(), &mut self.output);
        self.sent_on()
    }

    /// Reports a message, or the beginning of one, that could not be sent on this flow.
    pub(crate) fn undeliverable(&mut self, flow: Flow, bytes: &[u8]) {
        let input = Input::Undeliverable(Undelivered {
            flow,
            bytes,
            handed_over: false,
        });
        self.exchange.handle(self.now, input, &mut self.output);
    }

    pub(crate) fn sent(&mut self) -> Vec<(SocketAddr, String)> {
        let sent = self.sent_on().into_iter();
        sent.map(|(flow, text)| (flow.remote, text)).collect()
    }

    pub(crate) fn sent_on(&mut self) -> Vec<(Flow, String)> {
        let sent = self.output.outgoing().iter().map(|outgoing| {
            let bytes = self.output.written(outgoing.range.clone());
            (outgoing.flow, String::from_utf8_lossy(bytes).into_owned())
        });
        let sent = sent.collect();
        let questions: Vec<Question> = self.output.drain_questions().collect();
        let records: Vec<Record> = self.output.drain_records().collect();
        self.output.clear();
        for question in questions {
            self.output.ask(question);
        }
        for record in records {
            self.output.record(record);
        }
        sent
    }

    pub(crate) fn question(&mut self) -> Option<Question> {
        self.output.drain_questions().next()
    }

    /// Answers a question as the control plane does.
    pub(crate) fn answer(&mut self, question: Question) -> Vec<(SocketAddr, String)> {
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
        let asking = self.shared.credentials.asking(&username, &domain);
        self.shared
            .credentials
            .answered(asking, credentials, self.now);
        self.exchange.control(
            self.now,
            ControlMessage::Credentials {
                ticket,
                result: Ok(credentials),
            },
            &mut self.output,
        );
        self.sent()
    }

    pub(crate) fn wait(&mut self, duration: Duration) -> Vec<(SocketAddr, String)> {
        self.now = self.now + duration;
        self.exchange.expire(self.now, &mut self.output);
        self.sent()
    }

    /// Registers a phone, and answers the challenge.
    pub(crate) fn register(&mut self, user: &str, at: &str) {
        self.register_contact(user, at, &format!("sip:{user}@{at}"));
    }

    /// Same as [`Self::register`], with another Contact.
    pub(crate) fn register_contact(&mut self, user: &str, at: &str, contact: &str) {
        let written = format!("<sip:{user}@{at}>\n");
        let with = |cseq, extra: &str| {
            register(user, at, cseq, extra).replace(&written, &format!("<{contact}>\n"))
        };
        let challenge = only(self.receive(at, &with(1, "")));
        let credentials = answer_challenge(&challenge, user, "REGISTER", "sip:example.org");
        let authorization = format!("Authorization: {credentials}\n");
        let response = only(self.receive(at, &with(2, &authorization)));
        assert!(response.starts_with("SIP/2.0 200 "), "{response}");
    }
}

pub(crate) fn stored(user: &str) -> StoredCredentials {
    let password = format!("{user}-secret");
    StoredCredentials {
        ha1_md5: digest::ha1_md5(user.as_bytes(), b"example.org", password.as_bytes()),
        ha1_sha256: digest::ha1_sha256(user.as_bytes(), b"example.org", password.as_bytes()),
    }
}

pub(crate) fn only(sent: Vec<(SocketAddr, String)>) -> String {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.into_iter()
        .next()
        .map(|(_, message)| message)
        .unwrap_or_default()
}

pub(crate) fn status(message: &str) -> u16 {
    Message::parse(message.as_bytes()).map_or(0, |message| message.status())
}

pub(crate) fn answer_challenge(response: &str, user: &str, method: &str, uri: &str) -> String {
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

pub(crate) fn register(user: &str, at: &str, cseq: u32, extra: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\nVia: SIP/2.0/UDP {at};branch=z9hG4bKr{user}{cseq}\nMax-Forwards: 70\n\
         From: <sip:{user}@example.org>;tag=1\nTo: <sip:{user}@example.org>\nCall-ID: reg-{user}\nCSeq: {cseq} REGISTER\n\
         Contact: <sip:{user}@{at}>\n{extra}Content-Length: 0\n\n"
    )
}

pub(crate) fn request(method: &str, uri: &str, from: &str, branch: &str, extra: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK{branch}\nMax-Forwards: 70\n\
         From: <{from}>;tag=a1\nTo: <{uri}>\nCall-ID: call-1\nCSeq: 1 {method}\nContact: <sip:alice@{ALICE}>\n{extra}\
         Content-Length: 0\n\n"
    )
}

/// The Record-Route values of a message, topmost first.
pub(crate) fn recorded(message: &str) -> Vec<String> {
    let lines = message.split("\r\n");
    let values = lines.filter_map(|line| line.strip_prefix("Record-Route: "));
    values.map(str::to_owned).collect()
}

/// A callee's 200 to a request, with a Contact.
pub(crate) fn accept_at(request: &str, contact: &str) -> String {
    let kept = ["Via", "Record-Route", "From", "Call-ID", "CSeq"];
    let lines = request.split("\r\n").filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        kept.contains(&name)
    });
    let kept: Vec<&str> = lines.collect();
    let to = request.split("\r\n").find(|line| line.starts_with("To: "));
    let to = to.expect("To");
    let tag = if to.contains(";tag=") { "" } else { ";tag=b1" };
    format!(
        "SIP/2.0 200 OK\n{}\n{to}{tag}\nContact: <{contact}>\nContent-Length: 0\n\n",
        kept.join("\n")
    )
}

/// Bob's 200 to a request.
pub(crate) fn accept(request: &str) -> String {
    accept_at(request, &format!("sip:bob@{BOB}"))
}
