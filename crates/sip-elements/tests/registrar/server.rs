//! A registrar under test, and REGISTER requests for it.

use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::registrar::{Registration, register};
use sip_elements::{Settings, Shared, View};
use sip_message::{HeaderName, KeyHasher, Malformed, Message, ResponseWriter};
use sip_transport::{Flow, ListenerId, Time};
use std::time::Duration;

pub const ALICE: &[u8] = b"alice@example.org";
const START: u64 = 1_800_000_000;

/// The time `seconds` after the start.
pub fn at(seconds: u64) -> Time {
    Time::from_unix_seconds(START + seconds)
}

/// A REGISTER for alice.
#[derive(Clone, Debug)]
pub struct Register {
    pub call_id: String,
    pub cseq: u32,
    /// Complete header lines.
    pub lines: Vec<String>,
    pub source: &'static str,
}

impl Register {
    pub fn new(cseq: u32, lines: &[&str]) -> Self {
        Self {
            call_id: "843817637684230@998sdasdh09".to_owned(),
            cseq,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            source: "192.0.2.1:5062",
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let lines = self
            .lines
            .iter()
            .flat_map(|line| {
                [
                    line, "
",
                ]
            })
            .collect::<String>();
        format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKnashds{}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=456248\r\nTo: <sip:alice@example.org>\r\n\
             Call-ID: {}\r\nCSeq: {} REGISTER\r\nUser-Agent: Phone/1.0\r\n{lines}Content-Length: 0\r\n\r\n",
            self.cseq, self.call_id, self.cseq
        )
        .into_bytes()
    }
}

/// A registrar.
pub struct Server {
    pub shared: Shared,
    pub settings: Settings,
}

impl Server {
    pub fn new(max_contacts: usize, max_bindings: usize) -> Self {
        let limits = LocationLimits {
            max_bindings,
            max_pending_changes: 1000,
        };
        Self {
            shared: Shared {
                locations: Locations::with_secret((1, 2), limits),
                credentials: CredentialCache::with_secret((1, 2), 10, 60, 60),
                nonces: Nonces::new((1, 2), 10),
                services: sip_elements::services::Services::default(),
                bans: sip_elements::bans::Bans::default(),
                dead_targets: sip_elements::DeadTargets::default(),
                edges: sip_elements::Edges::default(),
                hasher: KeyHasher::new((1, 2)),
            },
            settings: settings(max_contacts),
        }
    }

    /// The response to a REGISTER.
    pub fn register(&self, now: Time, register: &Register) -> Response {
        self.receive(now, &register.bytes(), register.source)
    }

    /// The response to these bytes.
    pub fn receive(&self, now: Time, bytes: &[u8], source: &str) -> Response {
        let request = Message::parse(bytes).unwrap();
        let flow = Flow::to(ListenerId(2), source.parse().unwrap());
        let mut into = b"before".to_vec();
        let status = match request.validate() {
            Ok(()) => {
                let registration = Registration {
                    request: &request,
                    flow,
                    address: ALICE,
                    to_tag: b"totag",
                };
                let view = View {
                    now,
                    settings: &self.settings,
                    shared: &self.shared,
                };
                register(&registration, view, &mut into)
            }
            Err(malformed) => {
                let Malformed { status, reason, .. } = malformed;
                let (into, tag) = (&mut into, Some(&b"totag"[..]));
                ResponseWriter::begin(into, &request, flow.remote, status, reason, tag).finish();
                status
            }
        };
        let bytes = into.strip_prefix(b"before").unwrap().to_vec();
        let response = Message::parse(&bytes).unwrap();
        assert_eq!(response.status(), status);
        response.validate().unwrap();
        assert_eq!(response.to().unwrap().tag(), Some(&b"totag"[..]));
        Response { bytes }
    }

    /// The bindings in the form `uri q seconds`.
    pub fn bindings(&self, now: Time) -> Vec<String> {
        let mut bindings = Vec::new();
        self.shared.locations.visit(ALICE, now, |binding| {
            let contact = String::from_utf8_lossy(binding.contact);
            let left = u64::from(binding.expires_at) - now.unix_seconds();
            bindings.push(format!("{contact} {} {left}", binding.q));
        });
        bindings
    }
}

pub struct Response {
    bytes: Vec<u8>,
}

impl Response {
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).unwrap()
    }

    pub fn status(&self) -> u16 {
        self.message().status()
    }

    pub fn reason(&self) -> String {
        String::from_utf8(self.message().reason().to_vec()).unwrap()
    }

    pub fn values(&self, name: HeaderName) -> Vec<String> {
        let message = self.message();
        message
            .values(name)
            .map(|value| String::from_utf8(value.to_vec()).unwrap())
            .collect()
    }

    pub fn contacts(&self) -> Vec<String> {
        self.values(HeaderName::Contact)
    }
}

fn settings(max_contacts: usize) -> Settings {
    let mut settings = Settings::new(&["example.org".to_owned()], Vec::new());
    settings.registrar.default_expires = Duration::from_secs(600);
    settings.registrar.max_contacts = max_contacts;
    settings.limits.retry_after = 17;
    settings.server_header = "Tandem".into();
    settings
}
