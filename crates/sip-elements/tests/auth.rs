//! Digest authentication as a phone sees it: challenges are parsed, answered and judged; what is forged, old or replayed is not
//! accepted, and says no more than it must.

use sip_elements::auth::{
    Cached, Challenge as Asked, Challenger, CredentialCache, Nonces, StoredCredentials, Subject,
    Verdict, add_challenges, verify,
};
use sip_elements::bans::{Bans, Source};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::{DeadTargets, Settings, Shared};
use sip_message::digest::{
    Algorithm, DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256,
};
use sip_message::{
    Challenge, HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter,
};
use sip_transport::{Listener, Protocol, Time};
use std::fmt::Write as _;
use std::net::IpAddr;

const REALM: &str = "example.org";
const NOW: u64 = 1_800_000_000;
const CHALLENGE: Verdict = Verdict::Challenge { stale: false };
const STALE: Verdict = Verdict::Challenge { stale: true };

fn listener() -> Listener {
    Listener {
        protocol: Protocol::Udp,
        address: "192.0.2.50:5070".parse().unwrap(),
        prefix_length: 24,
        advertised: "192.0.2.50:5070".to_owned(),
        behind_balancer: false,
    }
}

fn settings(algorithms: &[Algorithm]) -> Settings {
    Settings {
        algorithms: algorithms.to_vec(),
        ..Settings::new(&[REALM.to_owned()], vec![listener()])
    }
}

/// A server with alice (password `secret`) and bob (password `hunter2`) in its cache.
struct Server {
    settings: Settings,
    shared: Shared,
}

fn shared(nonces: (u64, u64)) -> Shared {
    let limits = LocationLimits {
        max_bindings: 1,
        max_pending_changes: 1,
    };
    Shared {
        locations: Locations::with_secret((1, 1), limits),
        credentials: CredentialCache::with_secret((3, 4), 100, 3600, 60),
        nonces: Nonces::new(nonces, 64),
        bans: Bans::default(),
        dead_targets: DeadTargets::default(),
        hasher: KeyHasher::new((5, 6)),
    }
}

/// Where requests come from, unless a test says otherwise.
fn here() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

impl Server {
    fn new() -> Self {
        Self::offering(&[Algorithm::Sha256, Algorithm::Md5])
    }

    fn offering(algorithms: &[Algorithm]) -> Self {
        let server = Self {
            settings: settings(algorithms),
            shared: shared((1, 2)),
        };
        for (username, password) in [("alice", "secret"), ("bob", "hunter2")] {
            server.learn(username, Some(password));
        }
        server
            .shared
            .credentials
            .insert(b"nobody", REALM.as_bytes(), None, at(0));
        server
    }

    /// What the store says of a subscriber.
    fn answer(&self, username: &[u8], now: Time) {
        let passwords = [(&b"alice"[..], &b"secret"[..]), (b"bob", b"hunter2")];
        let known = passwords.iter().find(|(name, _)| *name == username);
        let credentials = known.map(|(name, password)| StoredCredentials {
            ha1_md5: ha1_md5(name, REALM.as_bytes(), password),
            ha1_sha256: ha1_sha256(name, REALM.as_bytes(), password),
        });
        let cache = &self.shared.credentials;
        let asking = cache.asking(username, REALM.as_bytes());
        assert!(cache.answered(asking, credentials, now));
    }

    fn learn(&self, username: &str, password: Option<&str>) {
        let credentials = password.map(|password| StoredCredentials {
            ha1_md5: ha1_md5(username.as_bytes(), REALM.as_bytes(), password.as_bytes()),
            ha1_sha256: ha1_sha256(username.as_bytes(), REALM.as_bytes(), password.as_bytes()),
        });
        self.shared
            .credentials
            .insert(username.as_bytes(), REALM.as_bytes(), credentials, at(0));
    }

    /// The header lines of a challenge.
    fn challenges(&self, challenger: Challenger, stale: bool, now: Time) -> Vec<String> {
        self.challenges_for(Source::of(here()), challenger, stale, now)
    }

    fn challenges_for(
        &self,
        source: Source,
        challenger: Challenger,
        stale: bool,
        now: Time,
    ) -> Vec<String> {
        let mut request = Vec::new();
        RequestWriter::begin(&mut request, Method::Register, b"sip:example.org").finish();
        let request = Message::parse(&request).unwrap();
        let mut response = Vec::new();
        let begun = ResponseWriter::begin(
            &mut response,
            &request,
            "192.0.2.1:5060".parse().unwrap(),
            401,
            "",
            None,
        );
        add_challenges(
            begun,
            &Asked {
                challenger,
                realm: REALM.as_bytes(),
                source,
                stale,
            },
            &self.shared.nonces,
            &self.settings,
            now,
        )
        .finish();
        let header = match challenger {
            Challenger::Registrar => HeaderName::WwwAuthenticate,
            Challenger::Proxy => HeaderName::ProxyAuthenticate,
        };
        let response = Message::parse(&response).unwrap();
        response
            .values(header)
            .map(|value| String::from_utf8(value.to_vec()).unwrap())
            .collect()
    }

    fn nonce(&self, now: Time) -> String {
        self.nonce_for(Source::of(here()), now)
    }

    fn nonce_for(&self, source: Source, now: Time) -> String {
        let challenge = self
            .challenges_for(source, Challenger::Registrar, false, now)
            .pop()
            .unwrap();
        String::from_utf8(
            Challenge::parse(challenge.as_bytes())
                .unwrap()
                .nonce
                .to_vec(),
        )
        .unwrap()
    }

    fn judge(&self, request: &[u8], username: &str, now: Time) -> Verdict {
        self.judge_from(here(), request, username, now)
    }

    /// The same; a failed password of a subscriber is asked for once more.
    fn judge_from(&self, source: IpAddr, request: &[u8], username: &str, now: Time) -> Verdict {
        let verdict = self.judge_once(source, request, username, now);
        match &verdict {
            Verdict::AskStore { username: asked }
                if [&b"alice"[..], b"bob"].contains(&&**asked) =>
            {
                self.answer(asked, now);
                self.judge_once(source, request, username, now)
            }
            _ => verdict,
        }
    }

    fn judge_once(&self, source: IpAddr, request: &[u8], username: &str, now: Time) -> Verdict {
        let request = Message::parse(request).unwrap();
        let challenger = match request.method() {
            Method::Register => Challenger::Registrar,
            _ => Challenger::Proxy,
        };
        let subject = Subject {
            challenger,
            username: username.as_bytes(),
            realm: REALM.as_bytes(),
            source,
        };
        verify(&request, &subject, &self.shared, &self.settings, now)
    }
}

fn at(seconds: u64) -> Time {
    Time::from_unix_seconds(NOW + seconds)
}

/// A request with credentials, as a phone makes it.
#[derive(Clone)]
struct Phone {
    method: &'static str,
    request_uri: &'static str,
    digest_uri: &'static str,
    username: String,
    /// What the phone hashes as its user name.
    hashed_username: String,
    password: String,
    realm: &'static str,
    algorithm: Option<&'static str>,
    sha256: bool,
    nonce: String,
    /// qop, nc, cnonce.
    qop: Option<(&'static str, String, &'static str)>,
    cseq: u32,
    branch: String,
    contact: &'static str,
    body: &'static str,
}

impl Phone {
    fn alice(nonce: String) -> Self {
        Self {
            method: "REGISTER",
            request_uri: "sip:example.org",
            digest_uri: "sip:example.org",
            username: "alice".to_owned(),
            hashed_username: "alice".to_owned(),
            password: "secret".to_owned(),
            realm: REALM,
            algorithm: Some("MD5"),
            sha256: false,
            nonce,
            qop: Some(("auth", "00000001".to_owned(), "0a4f113b")),
            cseq: 2,
            branch: "z9hG4bKnashds7".to_owned(),
            contact: "<sip:alice@192.0.2.1>",
            body: "",
        }
    }

    fn counting(mut self, count: u32) -> Self {
        self.qop = Some(("auth", format!("{count:08x}"), "0a4f113b"));
        self.cseq = count + 1;
        self.branch = format!("z9hG4bKnashds{count}");
        self
    }

    fn authorization(&self) -> String {
        let input = DigestInput {
            method: self.method.as_bytes(),
            uri: self.digest_uri.as_bytes(),
            nonce: self.nonce.as_bytes(),
            qop_auth: self
                .qop
                .as_ref()
                .map(|(_, nc, cnonce)| (nc.as_bytes(), cnonce.as_bytes())),
        };
        let (username, realm, password) = (
            self.hashed_username.as_bytes(),
            self.realm.as_bytes(),
            self.password.as_bytes(),
        );
        let response = if self.sha256 {
            String::from_utf8(
                response_sha256(&ha1_sha256(username, realm, password), &input).to_vec(),
            )
        } else {
            String::from_utf8(response_md5(&ha1_md5(username, realm, password), &input).to_vec())
        };
        let mut value = format!(
            "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{}\", response=\"{}\"",
            self.username,
            self.realm,
            self.nonce,
            self.digest_uri,
            response.unwrap()
        );
        if let Some(algorithm) = self.algorithm {
            write!(value, ", algorithm={algorithm}").unwrap();
        }
        if let Some((qop, nc, cnonce)) = &self.qop {
            write!(value, ", qop={qop}, nc={nc}, cnonce=\"{cnonce}\"").unwrap();
        }
        value
    }

    fn with_credentials(&self, lines: &[String]) -> Vec<u8> {
        let header = if self.method == "REGISTER" {
            "Authorization"
        } else {
            "Proxy-Authorization"
        };
        let credentials = lines
            .iter()
            .flat_map(|line| [header, ": ", line, "\r\n"])
            .collect::<String>();
        format!(
            "{} {} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.org>;tag=456248\r\nTo: <sip:alice@example.org>\r\n\
             Call-ID: 843817637684230@998sdasdh09\r\nCSeq: {} {}\r\nContact: {}\r\n{credentials}\
             Content-Length: {}\r\n\r\n{}",
            self.method,
            self.request_uri,
            self.branch,
            self.cseq,
            self.method,
            self.contact,
            self.body.len(),
            self.body,
        )
        .into_bytes()
    }

    fn request(&self) -> Vec<u8> {
        self.with_credentials(&[self.authorization()])
    }
}

#[test]
fn each_algorithm_is_offered_in_its_order_with_a_nonce_of_its_own() {
    let server = Server::new();
    let challenges = server.challenges(Challenger::Registrar, false, at(0));
    let parsed: Vec<_> = challenges
        .iter()
        .map(|value| Challenge::parse(value.as_bytes()).unwrap())
        .collect();
    assert_eq!(parsed.len(), 2);
    for (challenge, algorithm) in parsed.iter().zip(["SHA-256", "MD5"]) {
        assert_eq!(challenge.algorithm, Some(algorithm.as_bytes()));
        assert_eq!(challenge.realm, REALM.as_bytes());
        assert_eq!(challenge.qop, Some(&b"auth"[..]));
        assert!(!challenge.stale);
    }
    assert_ne!(parsed[0].nonce, parsed[1].nonce);
    let stale = server.challenges(Challenger::Proxy, true, at(0));
    assert_eq!(stale.len(), 2);
    assert!(
        stale
            .iter()
            .all(|value| Challenge::parse(value.as_bytes()).unwrap().stale)
    );
}

#[test]
fn a_request_without_credentials_is_challenged() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&phone.with_credentials(&[]), "alice", at(0)),
        CHALLENGE
    );
    let foreign = Phone {
        realm: "example.net",
        ..phone.clone()
    };
    assert_eq!(server.judge(&foreign.request(), "alice", at(0)), CHALLENGE);
    for other in [
        "Basic YWxpY2U6c2VjcmV0",
        "NoOneKnowsThisScheme opaque-data=here",
    ] {
        assert_eq!(
            server.judge(&phone.with_credentials(&[other.to_owned()]), "alice", at(0)),
            CHALLENGE
        );
    }
    // Credentials for the registrar are none for the proxy.
    let mut invite = Phone {
        method: "INVITE",
        ..phone
    }
    .request();
    let header = invite
        .windows(6)
        .position(|window| window == b"Proxy-")
        .unwrap();
    invite.drain(header..header + 6);
    assert_eq!(server.judge(&invite, "alice", at(0)), CHALLENGE);
}

#[test]
fn the_right_password_is_accepted_with_either_algorithm_and_challenger() {
    for (algorithm, sha256) in [
        (Some("MD5"), false),
        (None, false),
        (Some("SHA-256"), true),
        (Some("sha-256"), true),
    ] {
        for method in ["REGISTER", "INVITE", "MESSAGE"] {
            let server = Server::new();
            let phone = Phone {
                method,
                algorithm,
                sha256,
                ..Phone::alice(server.nonce(at(0)))
            };
            assert_eq!(
                server.judge(&phone.request(), "alice", at(0)),
                Verdict::Accepted,
                "{algorithm:?} {method}"
            );
        }
    }
}

#[test]
fn ours_are_picked_from_several_credentials() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    let foreign = Phone {
        realm: "example.net",
        ..phone.clone()
    }
    .authorization();
    let odd = Phone {
        algorithm: Some("SHA-512-256"),
        ..phone.clone()
    }
    .authorization();
    let lines = [
        "Basic YWxpY2U6c2VjcmV0".to_owned(),
        foreign,
        odd,
        phone.authorization(),
    ];
    assert_eq!(
        server.judge(&phone.with_credentials(&lines), "alice", at(0)),
        Verdict::Accepted
    );
}

#[test]
fn an_algorithm_that_was_not_offered_is_not_taken() {
    let server = Server::offering(&[Algorithm::Sha256]);
    let nonce = server.nonce(at(0));
    let md5 = Phone::alice(nonce.clone());
    assert_eq!(server.judge(&md5.request(), "alice", at(0)), CHALLENGE);
    let absent = Phone {
        algorithm: None,
        ..Phone::alice(nonce)
    };
    assert_eq!(server.judge(&absent.request(), "alice", at(0)), CHALLENGE);
}

#[test]
fn what_proves_nothing_gets_one_and_the_same_challenge() {
    let server = Server::new();
    let right = Phone::alice(server.nonce(at(0)));
    let rows = [
        (
            "wrong password",
            Phone {
                password: "guess".to_owned(),
                ..right.clone()
            },
        ),
        (
            "password of another",
            Phone {
                password: "hunter2".to_owned(),
                ..right.clone()
            },
        ),
        (
            "nobody's name",
            Phone {
                username: "nobody".to_owned(),
                hashed_username: "nobody".to_owned(),
                ..right.clone()
            },
        ),
        (
            "empty name",
            Phone {
                username: String::new(),
                hashed_username: String::new(),
                ..right.clone()
            },
        ),
        (
            "long name",
            Phone {
                username: "x".repeat(300),
                hashed_username: "x".repeat(300),
                ..right.clone()
            },
        ),
        (
            "another name in the hash",
            Phone {
                hashed_username: "alice ".to_owned(),
                ..right.clone()
            },
        ),
        (
            "made-up nonce",
            Phone {
                nonce: "84a4cc6f3082121f32b42a2187831a9e".to_owned(),
                ..right.clone()
            },
        ),
        (
            "auth-int",
            Phone {
                qop: Some(("auth-int", "00000001".to_owned(), "0a4f113b")),
                ..right.clone()
            },
        ),
    ];
    for (what, phone) in rows {
        assert_eq!(
            server.judge(&phone.request(), &phone.username, at(0)),
            CHALLENGE,
            "{what}"
        );
    }
    let other = Server {
        shared: shared((7, 7)),
        ..Server::new()
    };
    let foreign = Phone {
        nonce: other.nonce(at(0)),
        ..right.clone()
    };
    assert_eq!(
        server.judge(&foreign.request(), "alice", at(0)),
        STALE,
        "a nonce of another secret is not looked up"
    );
    assert_eq!(
        server.judge(&right.request(), "alice", at(2)),
        Verdict::Accepted,
        "none of them used up the nonce; the pause after wrong passwords is over"
    );
}

/// Whatever an unknown subscriber's credentials are compared with, it is no password.
#[test]
fn no_digest_speaks_for_nobody() {
    let server = Server::new();
    let phone = Phone {
        username: "nobody".to_owned(),
        hashed_username: "nobody".to_owned(),
        ..Phone::alice(server.nonce(at(0)))
    };
    let (_, count, cnonce) = phone.qop.clone().unwrap();
    let input = DigestInput {
        method: b"REGISTER",
        uri: phone.digest_uri.as_bytes(),
        nonce: phone.nonce.as_bytes(),
        qop_auth: Some((count.as_bytes(), cnonce.as_bytes())),
    };
    let guess = String::from_utf8(response_md5(&[0; 16], &input).to_vec()).unwrap();
    let honest = phone.authorization();
    let (before, rest) = honest.split_once("response=\"").unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    let line = format!("{before}response=\"{guess}\"{after}");
    assert_eq!(
        server.judge(&phone.with_credentials(&[line]), "nobody", at(0)),
        CHALLENGE
    );
}

#[test]
fn who_has_proven_himself_may_not_speak_for_another() {
    let server = Server::new();
    let alice = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&alice.request(), "bob", at(0)),
        Verdict::Forbidden("Credentials of another user")
    );
    // Who has proven nothing does not learn whose identity it is.
    let liar = Phone {
        password: "guess".to_owned(),
        ..alice
    };
    assert_eq!(server.judge(&liar.request(), "bob", at(0)), CHALLENGE);
}

#[test]
fn a_name_may_be_written_with_escapes_or_with_its_domain() {
    let server = Server::new();
    let plain = Phone::alice(server.nonce(at(0)));
    let escaped = Phone {
        username: "%61lice".to_owned(),
        ..plain.clone()
    }
    .counting(1);
    assert_eq!(
        server.judge(&escaped.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let full = Phone {
        username: "alice@Example.ORG".to_owned(),
        ..plain.clone()
    }
    .counting(2);
    assert_eq!(
        server.judge(&full.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let elsewhere = Phone {
        username: "alice@example.net".to_owned(),
        ..plain
    }
    .counting(3);
    let asked = Verdict::AskStore {
        username: Box::from(*b"alice@example.net"),
    };
    assert_eq!(server.judge(&elsewhere.request(), "alice", at(0)), asked);
}

#[test]
fn an_unknown_subscriber_is_asked_for_before_anything_is_used_up() {
    let server = Server::new();
    let carol = |server: &Server| Phone {
        username: "carol".to_owned(),
        hashed_username: "carol".to_owned(),
        ..Phone::alice(server.nonce(at(0)))
    };
    let request = carol(&server).request();
    let asked = Verdict::AskStore {
        username: Box::from(*b"carol"),
    };
    assert_eq!(server.judge(&request, "carol", at(0)), asked);
    assert_eq!(
        server.judge(&request, "alice", at(0)),
        asked,
        "credentials of another: whose they are must be known"
    );
    server.learn("carol", Some("secret"));
    assert_eq!(server.judge(&request, "carol", at(0)), Verdict::Accepted);
    server.learn("carol", None);
    assert_eq!(
        server.judge(&carol(&server).request(), "carol", at(0)),
        CHALLENGE
    );
    // A made-up nonce costs no question.
    server
        .shared
        .credentials
        .invalidate(b"carol", REALM.as_bytes());
    assert_eq!(
        server
            .shared
            .credentials
            .find(b"carol", REALM.as_bytes(), at(0)),
        Cached::NotCached
    );
    let forged = Phone {
        nonce: "A".repeat(22),
        ..carol(&server)
    };
    assert_eq!(server.judge(&forged.request(), "carol", at(0)), STALE);
}

#[test]
fn an_old_nonce_is_stale_whatever_the_password() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&phone.clone().counting(1).request(), "alice", at(299)),
        Verdict::Accepted
    );
    let late = phone.clone().counting(2);
    assert_eq!(server.judge(&late.request(), "alice", at(302)), STALE);
    let guess = Phone {
        password: "guess".to_owned(),
        ..late
    };
    assert_eq!(server.judge(&guess.request(), "alice", at(302)), STALE);
    // It is not looked at, so it counts against nobody.
    assert_eq!(server.shared.bans.stats().offences, [0; 4]);
}

#[test]
fn a_used_nonce_count_is_refused_and_a_higher_one_accepted() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    for (count, expected) in [
        (1, Verdict::Accepted),
        (2, Verdict::Accepted),
        (1, STALE),
        (7, Verdict::Accepted),
        (3, STALE),
        (8, Verdict::Accepted),
    ] {
        assert_eq!(
            server.judge(&phone.clone().counting(count).request(), "alice", at(1)),
            expected,
            "{count}"
        );
    }
}

#[test]
fn a_retransmission_is_accepted_but_nothing_else_with_the_same_count() {
    for method in ["REGISTER", "INVITE"] {
        let server = Server::new();
        let phone = Phone {
            method,
            body: "v=0\r\n",
            ..Phone::alice(server.nonce(at(0)))
        };
        assert_eq!(
            server.judge(&phone.request(), "alice", at(0)),
            Verdict::Accepted
        );
        assert_eq!(
            server.judge(&phone.request(), "alice", at(31)),
            Verdict::Accepted,
            "the same again"
        );
        assert_eq!(
            server.judge(&phone.request(), "alice", at(34)),
            STALE,
            "too late for a retransmission"
        );
        for (what, replay) in [
            (
                "contact",
                Phone {
                    contact: "<sip:thief@203.0.113.66>",
                    ..phone.clone()
                },
            ),
            (
                "CSeq",
                Phone {
                    cseq: 3,
                    ..phone.clone()
                },
            ),
            (
                "branch",
                Phone {
                    branch: "z9hG4bKother".to_owned(),
                    ..phone.clone()
                },
            ),
            (
                "Request-URI",
                Phone {
                    request_uri: "sip:example.org:5060",
                    ..phone.clone()
                },
            ),
            (
                "body",
                Phone {
                    body: "v=1\r\n",
                    ..phone.clone()
                },
            ),
        ] {
            assert_eq!(
                server.judge(&replay.request(), "alice", at(1)),
                STALE,
                "{method}: another {what}"
            );
        }
    }
}

#[test]
fn without_qop_a_nonce_is_good_for_one_request() {
    let server = Server::new();
    let phone = Phone {
        qop: None,
        algorithm: None,
        ..Phone::alice(server.nonce(at(0)))
    };
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted
    );
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted,
        "its retransmission"
    );
    let next = Phone {
        cseq: 3,
        ..phone.clone()
    };
    assert_eq!(server.judge(&next.request(), "alice", at(0)), STALE);
    let counting = Phone {
        qop: Some(("auth", "00000009".to_owned(), "x")),
        ..phone
    };
    assert_eq!(server.judge(&counting.request(), "alice", at(0)), STALE);
}

#[test]
fn a_digest_uri_may_name_the_server_instead_of_the_request_uri() {
    let server = Server::new();
    for digest_uri in [
        "sip:example.org",
        "sip:192.0.2.50:5070",
        "sip:alice@example.org",
        "sip:alice@192.0.2.50:5070",
    ] {
        let phone = Phone {
            method: "INVITE",
            request_uri: "sip:bob@example.org",
            digest_uri,
            ..Phone::alice(server.nonce(at(0)))
        };
        assert_eq!(
            server.judge(&phone.request(), "alice", at(0)),
            Verdict::Accepted,
            "{digest_uri}"
        );
    }
}

#[test]
fn a_nonce_count_may_be_written_without_zeros() {
    let server = Server::new();
    let phone = Phone {
        qop: Some(("auth", "1".to_owned(), "0a4f113b")),
        ..Phone::alice(server.nonce(at(0)))
    };
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let again = Phone {
        qop: Some(("auth", "0001".to_owned(), "0a4f113b")),
        cseq: 9,
        ..phone
    };
    assert_eq!(server.judge(&again.request(), "alice", at(0)), STALE);
}

/// What a scan learns: a name of a subscriber and one of nobody are told apart neither by the answer nor by what it costs.
#[test]
fn a_failed_password_costs_the_store_as_much_as_an_unknown_name() {
    let server = Server::new();
    let nonce = server.nonce(at(0));
    let guess = |name: &str, count: u32| {
        let phone = Phone {
            username: name.to_owned(),
            hashed_username: name.to_owned(),
            password: "guess".to_owned(),
            ..Phone::alice(nonce.clone())
        };
        phone.counting(count).request()
    };
    // Alice is cached, Bob is known to the store only, and there is no Carol.
    let cache = &server.shared.credentials;
    cache.invalidate(b"bob", REALM.as_bytes());
    for name in ["alice", "bob", "carol"] {
        let mut questions = 0;
        for count in 1..=4 {
            let judge = || server.judge_once(here(), &guess(name, count), name, at(0));
            let mut verdict = judge();
            while let Verdict::AskStore { username } = &verdict {
                questions += 1;
                server.answer(username, at(0));
                verdict = judge();
            }
            assert_eq!(verdict, CHALLENGE, "{name}");
        }
        assert_eq!(questions, 1, "{name}");
    }
}

#[test]
fn credentials_that_cannot_be_checked_are_malformed() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    let malformed = |lines: &[String]| server.judge(&phone.with_credentials(lines), "alice", at(0));
    assert_eq!(
        malformed(&["Digest username=\"alice\"".to_owned()]),
        Verdict::Malformed("Bad Authorization")
    );
    assert_eq!(
        malformed(&["digest".to_owned()]),
        Verdict::Malformed("Bad Authorization")
    );
    let without_count = phone.authorization().replace("nc=00000001, ", "");
    assert_eq!(
        malformed(&[without_count]),
        Verdict::Malformed("Bad credentials: qop without nc and cnonce")
    );
    for count in ["", "x", "123456789", "-1"] {
        let bad_count = phone
            .authorization()
            .replace("nc=00000001", &format!("nc={count}"));
        assert_eq!(
            malformed(&[bad_count]),
            Verdict::Malformed("Bad credentials: qop without nc and cnonce"),
            "{count}"
        );
    }
    let elsewhere = Phone {
        digest_uri: "sip:example.net",
        ..phone.clone()
    };
    assert_eq!(
        server.judge(&elsewhere.request(), "alice", at(0)),
        Verdict::Malformed("Digest uri does not match Request-URI")
    );
    let another_user = Phone {
        digest_uri: "sip:bob@example.org",
        ..phone.clone()
    };
    assert_eq!(
        server.judge(&another_user.request(), "alice", at(0)),
        Verdict::Malformed("Digest uri does not match Request-URI")
    );
    // What is broken beside good credentials is somebody else's.
    assert_eq!(
        malformed(&["Digest x".to_owned(), phone.authorization()]),
        Verdict::Accepted
    );
}

#[test]
fn a_nonce_is_good_only_from_where_it_was_sent_to() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    for (source, expected) in [
        ("192.0.2.2", STALE),
        ("2001:db8::1", STALE),
        ("192.0.2.1", Verdict::Accepted),
    ] {
        let source = source.parse().unwrap();
        let found = server.judge_from(source, &phone.request(), "alice", at(0));
        assert_eq!(found, expected, "{source}");
    }
}

/// A request whose source is forged never got the challenge that went there, so it carries a nonce of somebody else, or none of ours.
#[test]
fn wrong_passwords_from_a_forged_source_count_against_nobody() {
    let server = Server::new();
    let own = server.nonce(at(0));
    let victim: IpAddr = "198.51.100.9".parse().unwrap();
    for (nonce, expected) in [(own.as_str(), STALE), ("made-up", CHALLENGE)] {
        let forged = Phone {
            password: "guess".to_owned(),
            ..Phone::alice(nonce.to_owned())
        };
        for _ in 0..1_000 {
            let found = server.judge_from(victim, &forged.request(), "alice", at(0));
            assert_eq!(found, expected);
        }
    }
    assert!(!server.shared.bans.is_banned(victim, at(0)));
    assert_eq!(server.shared.bans.stats(), Bans::default().stats());
}

#[test]
fn after_three_wrong_passwords_even_the_right_one_waits() {
    let server = Server::new();
    let right = Phone::alice(server.nonce(at(0)));
    let wrong = Phone {
        password: "guess".to_owned(),
        ..right.clone()
    };
    let judge = |phone: &Phone, now| server.judge(&phone.request(), "alice", at(now));
    for _ in 0..3 {
        assert_eq!(judge(&wrong, 0), CHALLENGE);
    }
    assert_eq!(judge(&right, 0), CHALLENGE, "not even looked at");
    let bob = Phone {
        username: "bob".to_owned(),
        hashed_username: "bob".to_owned(),
        password: "hunter2".to_owned(),
        ..right.clone()
    };
    let found = server.judge(&bob.clone().counting(7).request(), "bob", at(0));
    assert_eq!(found, Verdict::Accepted, "others of the same source go on");
    assert_eq!(judge(&right.counting(8), 1), Verdict::Accepted);
    assert_eq!(server.shared.bans.stats().offences, [3, 0, 1, 0]);
}

/// Everybody behind the edge proxies shares their addresses. What the client below them writes is its own invention.
#[test]
fn wrong_passwords_through_an_edge_proxy_pause_the_client_behind_it_alone() {
    let mut server = Server::new();
    let [edge, other]: [IpAddr; 2] = ["192.0.2.20", "192.0.2.21"].map(|it| it.parse().unwrap());
    server.settings.proxy.edge_proxies = ["192.0.2.20/31".parse().unwrap()].into_iter().collect();
    // All of them share their nonces.
    let all = Source::of(IpAddr::from([0; 4]));
    let nonce = server.nonce_for(all, at(0));
    let through = |phone: &Phone, vias: &str| {
        let request = String::from_utf8(phone.request()).unwrap();
        let edges = "Via: SIP/2.0/UDP 192.0.2.20;branch=z9hG4bKe\r\n";
        request.replacen(
            "Via: SIP/2.0/UDP 192.0.2.1;",
            &format!("{edges}Via: {vias};"),
            1,
        )
    };
    let right = Phone::alice(nonce);
    let wrong = Phone {
        password: "guess".to_owned(),
        ..right.clone()
    };
    let attacker = "SIP/2.0/UDP 10.0.0.1;received=203.0.113.7";
    let forger = "SIP/2.0/UDP h;received=203.0.113.8,SIP/2.0/UDP h;received=203.0.113.9";
    let nameless = "SIP/2.0/UDP h";
    let judge = |from, phone: &Phone, vias: &str| {
        server.judge_from(from, through(phone, vias).as_bytes(), "alice", at(0))
    };
    for vias in [attacker, forger, nameless] {
        for _ in 0..3 {
            assert_eq!(judge(edge, &wrong, vias), CHALLENGE);
        }
    }
    let paused = judge(edge, &right, attacker);
    assert_eq!(paused, CHALLENGE, "the attacker pauses");
    assert_eq!(judge(other, &right, attacker), CHALLENGE, "on each edge");
    let alice = "SIP/2.0/UDP 10.0.0.1;received=203.0.113.9";
    assert_eq!(judge(edge, &right, alice), Verdict::Accepted);
    assert_eq!(
        judge(other, &right.clone().counting(2), nameless),
        Verdict::Accepted
    );
    let stats = server.shared.bans.stats();
    assert_eq!((stats.offences, stats.unattributed), ([9, 0, 2, 0], 3));
}

#[test]
fn who_tries_many_names_is_banned() {
    let server = Server::new();
    for attempt in 0..50 {
        let now = at(attempt * 5);
        assert!(!server.shared.bans.is_banned(here(), now));
        let name = format!("nobody{attempt}");
        server
            .shared
            .credentials
            .insert(name.as_bytes(), REALM.as_bytes(), None, now);
        let guess = Phone {
            username: name.clone(),
            hashed_username: name.clone(),
            ..Phone::alice(server.nonce(now))
        };
        assert_eq!(server.judge(&guess.request(), &name, now), CHALLENGE);
    }
    assert!(server.shared.bans.is_banned(here(), at(250)));
}

/// A phone with a wrong password must not have everybody banned who shares its address.
#[test]
fn a_phone_that_goes_on_with_a_wrong_password_is_slowed_down_but_bans_nobody() {
    let server = Server::new();
    for second in 0..3_600 {
        let now = at(second);
        let wrong = Phone {
            password: "old".to_owned(),
            ..Phone::alice(server.nonce(now))
        };
        assert_eq!(server.judge(&wrong.request(), "alice", now), CHALLENGE);
        assert!(!server.shared.bans.is_banned(here(), now), "{second}");
    }
    let [checked, _, paused, _] = server.shared.bans.stats().offences;
    assert_eq!(checked + paused, 3_600);
    assert!((60..70).contains(&checked), "{checked}");
}
