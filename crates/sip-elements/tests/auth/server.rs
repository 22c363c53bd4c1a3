//! A server under test.

use sip_elements::auth::{
    Challenge as Asked, Challenger, CredentialCache, Nonces, StoredCredentials, Subject, Verdict,
    add_challenges, verify,
};
use sip_elements::bans::{Bans, Source};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::{DeadTargets, Settings, Shared, View};
use sip_message::digest::{Algorithm, ha1_md5, ha1_sha256};
use sip_message::{
    Challenge, HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter,
};
use sip_transport::{Listener, Protocol, Time};
use std::net::IpAddr;

pub(crate) const REALM: &str = "example.org";
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const CHALLENGE: Verdict = Verdict::Challenge { stale: false };
pub(crate) const STALE: Verdict = Verdict::Challenge { stale: true };

fn listener() -> Listener {
    Listener {
        protocol: Protocol::Udp,
        address: "192.0.2.50:5070".parse().unwrap(),
        prefix_length: 24,
        advertised: "192.0.2.50:5070".to_owned(),
        behind_balancer: false,
    }
}

pub(crate) fn settings(algorithms: &[Algorithm]) -> Settings {
    Settings {
        algorithms: algorithms.to_vec(),
        ..Settings::new(&[REALM.to_owned()], vec![listener()])
    }
}

/// A server with alice (password `secret`) and bob (password `hunter2`) in its cache.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) shared: Shared,
}

pub(crate) fn shared(nonces: (u64, u64)) -> Shared {
    let limits = LocationLimits {
        max_bindings: 1,
        max_pending_changes: 1,
    };
    Shared {
        locations: Locations::with_secret((1, 1), limits),
        credentials: CredentialCache::with_secret((3, 4), 100, 3600, 60),
        nonces: Nonces::new(nonces, 64),
        services: sip_elements::services::Services::default(),
        bans: Bans::default(),
        dead_targets: DeadTargets::default(),
        edges: sip_elements::Edges::default(),
        hasher: KeyHasher::new((5, 6)),
    }
}

/// The source of requests, unless a test sets another one.
pub(crate) fn here() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::offering(&[Algorithm::Sha256, Algorithm::Md5])
    }

    pub(crate) fn offering(algorithms: &[Algorithm]) -> Self {
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

    /// Puts the store's answer about a subscriber into the cache.
    pub(crate) fn answer(&self, username: &[u8], now: Time) {
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

    pub(crate) fn learn(&self, username: &str, password: Option<&str>) {
        let credentials = password.map(|password| StoredCredentials {
            ha1_md5: ha1_md5(username.as_bytes(), REALM.as_bytes(), password.as_bytes()),
            ha1_sha256: ha1_sha256(username.as_bytes(), REALM.as_bytes(), password.as_bytes()),
        });
        self.shared
            .credentials
            .insert(username.as_bytes(), REALM.as_bytes(), credentials, at(0));
    }

    /// The header lines of a challenge.
    pub(crate) fn challenges(&self, challenger: Challenger, stale: bool, now: Time) -> Vec<String> {
        self.challenges_for(Source::of(here()), challenger, stale, now)
    }

    pub(crate) fn challenges_for(
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

    pub(crate) fn nonce(&self, now: Time) -> String {
        self.nonce_for(Source::of(here()), now)
    }

    pub(crate) fn nonce_for(&self, source: Source, now: Time) -> String {
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

    pub(crate) fn judge(&self, request: &[u8], username: &str, now: Time) -> Verdict {
        self.judge_from(here(), request, username, now)
    }

    /// The same from another source. If a subscriber's password fails, the store is asked once more.
    pub(crate) fn judge_from(
        &self,
        source: IpAddr,
        request: &[u8],
        username: &str,
        now: Time,
    ) -> Verdict {
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

    pub(crate) fn judge_once(
        &self,
        source: IpAddr,
        request: &[u8],
        username: &str,
        now: Time,
    ) -> Verdict {
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
        let view = View {
            now,
            settings: &self.settings,
            shared: &self.shared,
        };
        verify(&request, &subject, view, &mut |_| ())
    }
}

pub(crate) fn at(seconds: u64) -> Time {
    Time::from_unix_seconds(NOW + seconds)
}
