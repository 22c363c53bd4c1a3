//! Which certificate a client gets, how certificates are replaced, and the errors for invalid files.

use super::authority::Authority;
use super::peer::{Pair, Setup};
use rustls::pki_types::CertificateDer;
use sip_runtime::tls::{CertificateFiles, SharedTls, TlsContext, TlsSettings};
use std::time::{Duration, SystemTime};

/// The index, in the settings, of the certificate that a client gets for a name.
fn chosen(
    authority: &Authority,
    context: &TlsContext,
    settings: &TlsSettings,
    name: &str,
) -> usize {
    let acceptor = context.acceptor().expect("certificates");
    let mut pair = Pair::new(&trusting_anybody(authority), name, acceptor);
    pair.handshake().expect("a handshake");
    let shown = pair.client.peer_certificates().expect("a chain")[0].clone();
    let position = settings
        .certificates
        .iter()
        .position(|files| leaf(files) == shown);
    position.expect("one of them")
}

fn leaf(files: &CertificateFiles) -> CertificateDer<'static> {
    super::authority::pair(files).0.remove(0)
}

/// A client that accepts a certificate for any name.
fn trusting_anybody(authority: &Authority) -> std::sync::Arc<rustls::ClientConfig> {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    #[derive(Debug)]
    struct Anybody(std::sync::Arc<rustls::client::WebPkiServerVerifier>);
    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &rustls::pki_types::ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0
                .verify_tls12_signature(message, certificate, signature)
        }
        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0
                .verify_tls13_signature(message, certificate, signature)
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.0.supported_verify_schemes()
        }
    }
    let mut config = (*Setup::default().config(authority.roots())).clone();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = std::sync::Arc::new(authority.roots());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider);
    let verifier = verifier.build().expect("a verifier");
    config
        .dangerous()
        .set_certificate_verifier(std::sync::Arc::new(Anybody(verifier)));
    std::sync::Arc::new(config)
}

#[test]
fn a_client_gets_the_certificate_for_the_name_it_asks_for() {
    let authority = Authority::new();
    let settings = authority.settings(&[
        &["example.org", "sip.example.org"],
        &["*.example.org"],
        &["example.net", "sip:voice.example.net"],
    ]);
    let context = settings.load(None).expect("it loads");
    for (name, expected) in [
        ("example.org", 0),
        ("SIP.example.org", 0),
        ("pbx.example.org", 1),
        ("a.pbx.example.org", 0),
        ("example.net", 2),
        ("voice.example.net", 2),
        ("unknown.example", 0),
        ("192.0.2.1", 0),
    ] {
        assert_eq!(
            chosen(&authority, &context, &settings, name),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_client_that_cannot_verify_the_first_key_gets_another_one_for_the_name() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[]);
    let ed25519 = authority.issue_with(&["example.org"], &rcgen::PKCS_ED25519, |_| {});
    settings.certificates = vec![ed25519, authority.issue(&["example.org"])];
    let context = settings.load(None).expect("it loads");
    assert_eq!(chosen(&authority, &context, &settings, "example.org"), 0);
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let schemes = &mut provider.signature_verification_algorithms;
    schemes.mapping = schemes.mapping.get(..2).expect("ECDSA comes first");
    let config = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(authority.roots())
        .with_no_client_auth();
    let acceptor = context.acceptor().expect("certificates");
    let pair = Pair::established(&std::sync::Arc::new(config), "example.org", acceptor);
    let shown = &pair.client.peer_certificates().expect("a chain")[0];
    assert_eq!(*shown, leaf(&settings.certificates[1]));
}

#[test]
fn swapped_certificates_are_for_new_handshakes_and_sessions_go_on() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    let shared = SharedTls::new(settings.load(None).expect("it loads"));
    let config = Setup::default().config(authority.roots());
    let connect = |shared: &SharedTls| {
        let context = shared.context();
        // A client without tickets, so that it gets the certificate.
        let config = (*config).clone();
        let mut config = config;
        config.resumption = rustls::client::Resumption::disabled();
        let acceptor = context.acceptor().expect("certificates");
        Pair::established(&std::sync::Arc::new(config), "example.org", acceptor)
    };
    let mut old = connect(&shared);
    let half_way = shared.context();
    settings.certificates = vec![authority.issue(&["example.org"])];
    let fresh = settings.load(Some(&shared.context())).expect("it loads");
    assert!(!fresh.certificates().same_as(half_way.certificates()));
    shared.replace(fresh);
    let mut new = connect(&shared);
    let shown = |pair: &Pair| pair.client.peer_certificates().expect("a chain")[0].clone();
    assert_ne!(shown(&old), shown(&new));
    assert_eq!(shown(&new), leaf(&settings.certificates[0]));
    for pair in [&mut old, &mut new] {
        assert_eq!(pair.say(b"ping"), b"ping");
        assert_eq!(pair.answer(b"pong"), b"pong");
    }
}

#[test]
fn files_that_are_wrong_are_named_with_what_is_wrong_all_at_once() {
    let authority = Authority::new();
    let (one, other) = (
        authority.issue(&["a.example"]),
        authority.issue(&["b.example"]),
    );
    let text = |file: &std::path::Path| std::fs::read_to_string(file).expect("a file");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let files = |chain: &std::path::Path, key: &std::path::Path| CertificateFiles {
        chain: chain.to_owned(),
        key: key.to_owned(),
    };
    let rows = [
        (
            files(&authority.path().join("none.pem"), &one.key),
            "none.pem: cannot be read: No such file",
        ),
        (files(&one.key, &one.key), "has no certificate"),
        (
            files(&one.chain, &one.chain),
            "has a certificate but no private key: are chain and key swapped?",
        ),
        (
            files(&one.chain, &other.key),
            "does not belong to the first certificate in ",
        ),
        (
            authority.write("empty", "", &text(&one.key)),
            "has no certificate",
        ),
        (
            authority.write("bare", &text(&one.chain), "nothing"),
            "has no private key",
        ),
        (
            authority.write("locked", &text(&one.chain), encrypted),
            "encrypted private key",
        ),
        (
            authority.write(
                "cut",
                &text(&one.chain).replace("-----END", "-----ENDE"),
                &text(&one.key),
            ),
            "is not valid PEM",
        ),
    ];
    let settings = TlsSettings {
        certificates: rows.iter().map(|(files, _)| files.clone()).collect(),
        server_ca: Some(one.key.clone()),
        client_certificates: sip_runtime::tls::ClientCertificates::Required,
        ..TlsSettings::default()
    };
    let wrong = settings.load(None).expect_err("all of it is wrong").0;
    assert_eq!(wrong.len(), rows.len() + 2, "{wrong:?}");
    for ((_, expected), error) in rows.iter().zip(&wrong) {
        assert!(
            error.to_string().contains(expected),
            "{error} <> {expected}"
        );
    }
    assert!(
        wrong[8]
            .to_string()
            .contains("no file of trusted authorities"),
        "{}",
        wrong[8]
    );
    assert!(
        wrong[9].to_string().contains("has no certificate"),
        "{}",
        wrong[9]
    );
}

#[test]
fn an_expired_certificate_is_loaded_with_a_warning_that_counts_days() {
    let authority = Authority::new();
    let files = authority.issue_with(&["example.org"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let settings = TlsSettings {
        certificates: vec![files],
        ..authority.settings(&[])
    };
    let context = settings.load(None).expect("it loads");
    let certificate = context.certificates().iter().next().expect("one");
    let end = certificate.not_after();
    assert_eq!(certificate.names(), ["example.org"]);
    assert_eq!(certificate.last_day(), "2021-01-01");
    assert_eq!(
        end,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_609_459_200)
    );
    let days = |days: u64| Duration::from_secs(days * 86_400);
    for (now, expected) in [
        (end + days(3), Some("expired 3 days ago: clients reject it")),
        (end - days(5), Some("expires in 5 days: renew it")),
        (end - days(15), None),
        (
            end - days(400),
            Some("is not valid yet: it becomes valid in 34 days"),
        ),
    ] {
        assert_eq!(certificate.warning(now).as_deref(), expected);
    }
}

#[test]
fn without_certificates_nothing_is_accepted_but_servers_can_be_connected_to() {
    let authority = Authority::new();
    let context = authority.context(&[]);
    assert!(context.acceptor().is_none());
    assert!(sip_runtime::tls::TlsSession::connect(context.connector(), "example.org").is_ok());
}
