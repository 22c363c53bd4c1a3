//! Client certificates: not requested, optional and required; and the identities in them.

use super::authority::Authority;
use super::peer::{Pair, Setup, VERSIONS};
use rustls::{AlertDescription, Error};
use sip_runtime::tls::{ClientCertificates, TlsContext, TlsError};

fn asking(authority: &Authority, asked: ClientCertificates) -> TlsContext {
    let mut settings = authority.settings(&[&["example.org"]]);
    settings.client_certificates = asked;
    settings.client_ca = Some(authority.file());
    settings.load(None).expect("it loads")
}

fn client(version: usize, issuer: Option<&Authority>) -> Setup {
    let names = [
        "sip:trunk.example.net",
        "trunk-7.example.net",
        "sip:ops@example.net",
    ];
    Setup {
        certificate: issuer.map(|issuer| issuer.issue(&names)),
        ..Setup::version(&VERSIONS[version].1)
    }
}

#[test]
fn a_client_is_known_by_its_certificate_also_when_it_resumes() {
    let authority = Authority::new();
    for asked in [ClientCertificates::Optional, ClientCertificates::Required] {
        let context = asking(&authority, asked);
        let acceptor = context.acceptor().expect("a certificate");
        for version in 0..VERSIONS.len() {
            let config = client(version, Some(&authority)).config(authority.roots());
            for resumed in [false, true] {
                let pair = Pair::established(&config, "example.org", acceptor);
                assert_eq!(pair.session.is_resumed(), resumed);
                let identities = pair.session.peer_identities().expect("a certificate");
                assert!(identities.domains().eq(["trunk.example.net"]));
                assert!(
                    identities
                        .uris()
                        .eq(["sip:trunk.example.net", "sip:ops@example.net"])
                );
                assert!(identities.is_domain("Trunk.Example.NET"));
            }
        }
    }
}

#[test]
fn a_client_without_certificate_is_anonymous_if_optional_and_rejected_if_required() {
    let authority = Authority::new();
    for version in 0..VERSIONS.len() {
        let context = asking(&authority, ClientCertificates::Optional);
        let config = client(version, None).config(authority.roots());
        let acceptor = context.acceptor().expect("a certificate");
        let pair = Pair::established(&config, "example.org", acceptor);
        assert_eq!(pair.session.peer_identities(), None);
        let context = asking(&authority, ClientCertificates::Required);
        let acceptor = context.acceptor().expect("a certificate");
        let mut pair = Pair::new(&config, "example.org", acceptor);
        let refused = pair.handshake().expect_err("it must show one");
        assert!(
            matches!(
                refused,
                TlsError::CertificateRefused(Error::NoCertificatesPresented)
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn a_client_of_another_authority_is_rejected_with_an_alert() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for asked in [ClientCertificates::Optional, ClientCertificates::Required] {
        let context = asking(&authority, asked);
        for version in 0..VERSIONS.len() {
            let config = client(version, Some(&stranger)).config(authority.roots());
            let acceptor = context.acceptor().expect("a certificate");
            let mut pair = Pair::new(&config, "example.org", acceptor);
            let refused = pair.handshake().expect_err("nobody knows it");
            assert!(
                matches!(refused, TlsError::CertificateRefused(_)),
                "{refused:?}"
            );
            let told = pair.client.process_new_packets().expect_err("an alert");
            assert_eq!(told, Error::AlertReceived(AlertDescription::UnknownCA));
        }
    }
}

#[test]
fn clients_are_not_asked_for_certificates_by_default() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = client(1, Some(&authority)).config(authority.roots());
    let pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
    assert_eq!(pair.session.peer_identities(), None);
}
