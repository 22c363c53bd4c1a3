//! Phones for the benchmarks: a registrar with subscribers, and their REGISTERs with digest.

use sip_elements::auth::{CredentialCache, Nonces, StoredCredentials, add_challenges};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::{Settings, Shared, View};
use sip_message::digest::{
    Algorithm, DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256,
};
use sip_message::{
    Challenge, HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter,
};
use sip_transport::{Flow, ListenerId, Time};
use std::time::Duration;

/// The domain.
pub const REALM: &[u8] = b"example.org";
/// When everything happens.
pub const NOW: Time = Time::from_unix_seconds(1_800_000_000);

/// A registrar's state.
#[derive(Debug)]
pub struct Server {
    /// Tables.
    pub shared: Shared,
    /// Choices.
    pub settings: Settings,
}

impl Server {
    /// What decisions read.
    pub const fn view(&self) -> View<'_> {
        View {
            now: NOW,
            settings: &self.settings,
            shared: &self.shared,
        }
    }
}

/// A registrar that offers one algorithm.
pub fn server(algorithm: Algorithm) -> Server {
    let limits = LocationLimits {
        max_bindings: 2_000_000,
        max_pending_changes: 1_000,
    };
    let shared = Shared {
        locations: Locations::with_secret((1, 2), limits),
        credentials: CredentialCache::with_secret((3, 4), 1_000_000, 3_600, 60),
        nonces: Nonces::new((5, 6), 1 << 17),
        services: sip_elements::services::Services::default(),
        bans: sip_elements::bans::Bans::default(),
        dead_targets: sip_elements::DeadTargets::default(),
        edges: sip_elements::Edges::default(),
        hasher: KeyHasher::new((7, 8)),
    };
    Server {
        shared,
        settings: settings(algorithm),
    }
}

fn settings(algorithm: Algorithm) -> Settings {
    Settings {
        algorithms: vec![algorithm],
        nonce_lifetime: Duration::from_secs(3_600),
        server_header: "Tandem".to_owned(),
        ..Settings::new(&["example.org".to_owned()], Vec::new())
    }
}

/// A REGISTER and what the phases before the registrar know of it.
#[derive(Debug)]
pub struct Register {
    /// `user000042@example.org`.
    pub address: Vec<u8>,
    /// Where it comes from.
    pub flow: Flow,
    /// The request.
    pub bytes: Vec<u8>,
}

impl Register {
    /// `user000042`.
    pub fn username(&self) -> &[u8] {
        self.address
            .split(|byte| *byte == b'@')
            .next()
            .unwrap_or_default()
    }
}

/// A subscriber's phone.
#[derive(Debug)]
pub struct Phone {
    username: String,
    nonce: Vec<u8>,
    number: u32,
    count: u32,
}

impl Phone {
    /// A subscriber with a cached password and a nonce.
    pub fn new(server: &Server, number: u32) -> Self {
        let username = format!("user{number:06}");
        let credentials = StoredCredentials {
            ha1_md5: ha1_md5(username.as_bytes(), REALM, b"secret"),
            ha1_sha256: ha1_sha256(username.as_bytes(), REALM, b"secret"),
        };
        server
            .shared
            .credentials
            .insert(username.as_bytes(), REALM, Some(credentials), NOW);
        Self {
            username,
            nonce: nonce(server, flow_of(number)),
            number,
            count: 0,
        }
    }

    /// Its next REGISTER, with the next nonce-count.
    pub fn next_register(&mut self, algorithm: Algorithm) -> Register {
        self.count += 1;
        let flow = flow_of(self.number);
        let (username, host, cseq) = (&self.username, flow.remote, self.count + 1);
        let (nonce_count, cnonce) = (format!("{:08x}", self.count), "8d3c41f6b2a07e59");
        let nonce = String::from_utf8_lossy(&self.nonce);
        let input = DigestInput {
            method: b"REGISTER",
            uri: b"sip:example.org",
            nonce: &self.nonce,
            qop_auth: Some((nonce_count.as_bytes(), cnonce.as_bytes())),
        };
        let response = match algorithm {
            Algorithm::Md5 => {
                response_md5(&ha1_md5(username.as_bytes(), REALM, b"secret"), &input).to_vec()
            }
            Algorithm::Sha256 => {
                response_sha256(&ha1_sha256(username.as_bytes(), REALM, b"secret"), &input).to_vec()
            }
        };
        let response = String::from_utf8_lossy(&response);
        let token = algorithm.token();
        let number = self.number;
        let bytes = format!(
            "REGISTER sip:example.org SIP/2.0\r\n\
             Via: SIP/2.0/UDP {host};rport;branch=z9hG4bK{number:06x}{cseq:010x}\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{username}@example.org>;tag=5f21c4a9{number:06x}\r\n\
             To: <sip:{username}@example.org>\r\n\
             Call-ID: {number:06x}-9e44f2c1-71ab-4c5b@{host}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             Contact: <sip:{username}@{host};transport=udp>;expires=3600\r\n\
             Authorization: Digest username=\"{username}\", realm=\"example.org\", nonce=\"{nonce}\", \
             uri=\"sip:example.org\", response=\"{response}\", algorithm={token}, cnonce=\"{cnonce}\", qop=auth, nc={nonce_count}\r\n\
             User-Agent: Softphone v3.15.0 (x86_64/Linux)\r\n\
             Supported: path, gruu, outbound\r\n\
             Allow: INVITE,ACK,BYE,CANCEL,OPTIONS,NOTIFY,SUBSCRIBE,INFO,MESSAGE,UPDATE,REFER\r\n\
             Content-Length: 0\r\n\r\n"
        )
        .into_bytes();
        let address = [username.as_bytes(), b"@", REALM].concat();
        Register {
            address,
            flow,
            bytes,
        }
    }
}

/// Where a phone sends from.
fn flow_of(number: u32) -> Flow {
    let [_, a, b, c] = number.to_be_bytes();
    Flow::to(ListenerId(0), ([10, a, b, c], 5062).into())
}

fn nonce(server: &Server, flow: Flow) -> Vec<u8> {
    let mut request = Vec::new();
    RequestWriter::begin(&mut request, Method::Register, b"sip:example.org").finish();
    let request = Message::parse(&request).expect("a request");
    let mut response = Vec::new();
    let begun = ResponseWriter::begin(
        &mut response,
        &request,
        ([10, 0, 0, 1], 5060).into(),
        401,
        "",
        None,
    );
    let asked = sip_elements::auth::Challenge {
        challenger: sip_elements::auth::Challenger::Registrar,
        realm: REALM,
        source: sip_elements::bans::Source::of(flow.remote.ip()),
        stale: false,
    };
    add_challenges(begun, &asked, &server.shared.nonces, &server.settings, NOW).finish();
    let response = Message::parse(&response).expect("a response");
    let challenge = response
        .header(HeaderName::WwwAuthenticate)
        .and_then(Challenge::parse);
    challenge.expect("a challenge").nonce.to_vec()
}
