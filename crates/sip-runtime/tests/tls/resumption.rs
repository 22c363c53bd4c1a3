//! Session resumption by tickets, which survive a reload unless the verification of clients changes.

use super::authority::Authority;
use super::peer::{Pair, Setup, VERSIONS};
use sip_runtime::tls::{ClientCertificates, TlsVersion};

#[test]
fn a_client_that_comes_back_resumes_and_is_not_shown_a_certificate_again() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let acceptor = context.acceptor().expect("a certificate");
    for (version, versions) in &VERSIONS {
        let config = Setup::version(versions).config(authority.roots());
        let full = handshake_octets(&config, acceptor, false);
        for _ in 0..3 {
            let resumed = handshake_octets(&config, acceptor, true);
            assert!(
                resumed + 400 < full,
                "TLS {version}: {resumed} of {full} octets"
            );
        }
    }
}

/// How many bytes the server sent.
fn handshake_octets(
    config: &std::sync::Arc<rustls::ClientConfig>,
    acceptor: &sip_runtime::tls::TlsAcceptor,
    resumed: bool,
) -> usize {
    let mut pair = Pair::new(config, "example.org", acceptor);
    let mut octets = 0;
    while pair.session.is_handshaking() || pair.session.has_output() {
        let (mut bytes, mut said) = (pair.client_says(), Vec::new());
        pair.session
            .receive(&mut bytes, &mut Vec::new())
            .expect("goes on");
        pair.session.take_output(&mut said);
        octets += said.len();
        pair.give_client(&said).expect("goes on");
    }
    assert_eq!(pair.session.is_resumed(), resumed);
    assert_eq!(pair.say(b"hello"), b"hello");
    octets
}

#[test]
fn tickets_outlive_a_reload_but_not_another_rule_for_clients() {
    let authority = Authority::new();
    let other = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    settings.client_ca = Some(authority.file());
    settings.client_certificates = ClientCertificates::Optional;
    let first = settings.load(None).expect("it loads");
    let config = Setup::default().config(authority.roots());
    let resumes = |context: &sip_runtime::tls::TlsContext| {
        let acceptor = context.acceptor().expect("a certificate");
        Pair::established(&config, "example.org", acceptor)
            .session
            .is_resumed()
    };
    assert!(!resumes(&first));
    settings.certificates = vec![authority.issue(&["example.org"])];
    let renewed = settings.load(Some(&first)).expect("it loads");
    assert!(
        resumes(&renewed),
        "another certificate is no reason to forget"
    );
    settings.client_ca = Some(other.file());
    let judged = settings.load(Some(&renewed)).expect("it loads");
    assert!(!resumes(&judged), "other authorities are");
    settings.client_certificates = ClientCertificates::None;
    let unasked = settings.load(Some(&judged)).expect("it loads");
    assert!(!resumes(&unasked));
}

#[test]
fn a_ticket_of_an_older_version_is_worth_nothing_once_that_version_is_refused() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    let first = settings.load(None).expect("it loads");
    let config = Setup::version(&VERSIONS[0].1).config(authority.roots());
    Pair::established(&config, "example.org", first.acceptor().expect("one"));
    settings.min_version = TlsVersion::V1_3;
    let second = settings.load(Some(&first)).expect("it loads");
    let acceptor = second.acceptor().expect("one");
    let refused = Pair::new(&config, "example.org", acceptor).handshake();
    assert!(
        matches!(refused, Err(sip_runtime::tls::TlsError::NothingShared(_))),
        "{refused:?}"
    );
}
