//! The memory of an idle TLS session, including what the C library allocates. It runs alone in its process, so that no other
//! test's memory counts.
#![cfg(target_env = "gnu")]

#[path = "tls/authority.rs"]
#[expect(dead_code, reason = "shared with the other tests of TLS")]
mod authority;
#[path = "tls/peer.rs"]
mod peer;

use authority::Authority;
use peer::{Pair, Setup, VERSIONS};
use sip_runtime::tls::{ClientCertificates, TlsSession};

/// Sessions held at the same time.
const SESSIONS: usize = 500;
/// The limit for an idle session, in bytes.
const BOUND: usize = 6_000;

/// Bytes that the process has allocated, by Rust and by C.
#[expect(
    unsafe_code,
    reason = "a C function without arguments that reads counters"
)]
fn allocated() -> usize {
    // SAFETY: it takes no arguments and returns a structure by value.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

#[test]
fn an_idle_session_costs_no_more_than_six_kilobytes() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    settings.client_certificates = ClientCertificates::Optional;
    settings.client_ca = Some(authority.file());
    let context = settings.load(None).expect("it loads");
    let acceptor = context.acceptor().expect("a certificate");
    let phone = authority.issue(&["sip:phone.example.org"]);
    for (version, versions) in &VERSIONS {
        for certificate in [None, Some(phone.clone())] {
            let mutual = certificate.is_some();
            let setup = Setup {
                certificate,
                ..Setup::version(versions)
            };
            let config = setup.config(authority.roots());
            for resumed in [false, true] {
                let mut config = (*config).clone();
                if !resumed {
                    config.resumption = rustls::client::Resumption::disabled();
                }
                let config = std::sync::Arc::new(config);
                let connect = || -> TlsSession {
                    let mut pair = Pair::established(&config, "example.org", acceptor);
                    assert_eq!(pair.say(&[b'x'; 1_500]).len(), 1_500);
                    assert_eq!(pair.answer(&[b'y'; 3_000]).len(), 3_000);
                    pair.session
                };
                let mut sessions: Vec<TlsSession> = Vec::with_capacity(SESSIONS);
                // The first one may get a ticket and causes one-time allocations.
                drop(connect());
                let before = allocated();
                sessions.extend((0..SESSIONS).map(|_| connect()));
                let each = (allocated() - before) / SESSIONS + size_of::<TlsSession>();
                assert!(
                    sessions
                        .iter()
                        .all(|session| session.is_resumed() == resumed)
                );
                println!(
                    "TLS {version}, client certificate: {mutual}, resumed: {resumed}: {each} octets each"
                );
                assert!(each <= BOUND, "{each}");
            }
        }
    }
}
