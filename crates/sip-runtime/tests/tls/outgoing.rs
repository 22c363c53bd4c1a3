//! Outgoing connections: which identity a server must prove (RFC 5922 section 7.3).

use super::authority::Authority;
use sip_runtime::tls::{TlsContext, TlsError, TlsSession, TlsSettings};

/// Runs a handshake between two of our sessions. Returns the client side.
fn connect(ours: &TlsContext, theirs: &TlsContext, name: &str) -> Result<TlsSession, TlsError> {
    let mut client = TlsSession::connect(ours.connector(), name)?;
    let mut server = TlsSession::accept(theirs.acceptor().expect("certificates"))?;
    for _ in 0..6 {
        let mut bytes = Vec::new();
        client.take_output(&mut bytes);
        server.receive(&mut bytes, &mut Vec::new())?;
        bytes.clear();
        server.take_output(&mut bytes);
        client.receive(&mut bytes, &mut Vec::new())?;
    }
    let (mut bytes, mut heard) = (Vec::new(), Vec::new());
    client.send(b"INVITE", &mut bytes)?;
    server.receive(&mut bytes, &mut heard)?;
    assert_eq!(heard, b"INVITE");
    Ok(client)
}

#[test]
fn a_server_is_accepted_for_the_domains_of_its_certificate_and_no_other() {
    let authority = Authority::new();
    let ours = authority.context(&[]);
    for (names, accepted, refused) in [
        (
            &["example.org"][..],
            &["example.org", "EXAMPLE.org"][..],
            &["sip.example.org"][..],
        ),
        (
            &["sip:example.net", "pbx.example.org"],
            &["example.net"],
            &["pbx.example.org"],
        ),
        (&["*.example.org"], &[], &["pbx.example.org", "example.org"]),
        (
            &["192.0.2.7", "2001:db8::7"],
            &["192.0.2.7", "[2001:db8::7]"],
            &["192.0.2.8"],
        ),
    ] {
        let theirs = authority.context(&[names]);
        for name in accepted {
            let client = connect(&ours, &theirs, name).expect(name);
            assert!(client.peer_identities().is_some());
        }
        for name in refused {
            let error = connect(&ours, &theirs, name).expect_err(name);
            let text = error.to_string();
            assert!(
                matches!(error, TlsError::CertificateRefused(_)),
                "{name}: {text}"
            );
            assert!(text.contains(name), "{name}: {text}");
        }
    }
}

#[test]
fn a_server_of_an_unknown_authority_is_refused_unless_nothing_is_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let theirs = stranger.context(&[&["example.org"]]);
    let error = connect(&authority.context(&[]), &theirs, "example.org").expect_err("unknown");
    let expected = "the certificate of the peer is rejected: its issuer is not trusted";
    assert_eq!(error.to_string(), expected);
    let careless = TlsSettings {
        verify_servers: false,
        ..TlsSettings::default()
    };
    let careless = careless.load(None).expect("it loads");
    connect(&careless, &theirs, "other.example").expect("anybody is welcome");
}

#[test]
fn an_expired_server_is_refused() {
    let authority = Authority::new();
    let expired =
        authority.issue_with(&["example.org"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        });
    let theirs = TlsSettings {
        certificates: vec![expired],
        ..authority.settings(&[])
    };
    let theirs = theirs.load(None).expect("it loads");
    let error = connect(&authority.context(&[]), &theirs, "example.org").expect_err("expired");
    assert!(
        matches!(error, TlsError::CertificateRefused(_)),
        "{error:?}"
    );
}

#[test]
fn a_self_signed_certificate_is_trusted_where_it_is_named_as_authority() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["example.org".to_owned()]).expect("params");
    let own = params.self_signed(&key).expect("signed");
    let authority = Authority::new();
    let files = authority.write("own", &own.pem(), &key.serialize_pem());
    let settings = TlsSettings {
        server_ca: Some(files.chain.clone()),
        certificates: vec![files],
        ..TlsSettings::default()
    };
    let context = settings.load(None).expect("it loads");
    connect(&context, &context, "example.org").expect("trusted");
}

#[test]
fn we_show_our_first_certificate_to_a_server_that_asks() {
    let authority = Authority::new();
    let ours = authority.context(&[&["sip:example.org"], &["example.net"]]);
    let mut settings = authority.settings(&[&["trunk.example"]]);
    settings.client_certificates = sip_runtime::tls::ClientCertificates::Required;
    settings.client_ca = Some(authority.file());
    let theirs = settings.load(None).expect("it loads");
    connect(&ours, &theirs, "trunk.example").expect("both are known");
    let nobody = authority.context(&[]);
    let refused = connect(&nobody, &theirs, "trunk.example").expect_err("nobody");
    assert!(
        matches!(refused, TlsError::CertificateRefused(_)),
        "{refused:?}"
    );
}

#[test]
fn a_server_that_speaks_no_tls_is_known_at_once() {
    let authority = Authority::new();
    let context = authority.context(&[]);
    let mut client = TlsSession::connect(context.connector(), "example.org").expect("a session");
    let mut text = b"SIP/2.0 400 Bad Request\r\n".to_vec();
    let error = client
        .receive(&mut text, &mut Vec::new())
        .expect_err("plain text");
    assert!(matches!(error, TlsError::NotTls(_)), "{error:?}");
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_is_sent() {
    let authority = Authority::new();
    let context = authority.context(&[]);
    for name in ["", "a b", "exa_mple..org"] {
        let error = TlsSession::connect(context.connector(), name).expect_err("no name");
        assert!(matches!(error, TlsError::ServerName(_)), "{name} {error:?}");
    }
}
