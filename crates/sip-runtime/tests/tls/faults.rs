//! Misbehaving peers: which error each causes, which alert each gets, and that none of their bytes makes a session panic.

use super::authority::Authority;
use super::peer::{Pair, Setup, VERSIONS};
use rustls::{AlertDescription, Error};
use sip_runtime::tls::{PlainText, TlsError, TlsSession};

fn said_to(octets: &[u8]) -> (TlsError, Vec<u8>) {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let mut session = TlsSession::accept(context.acceptor().expect("one")).expect("a session");
    let (mut plaintext, mut output) = (Vec::new(), Vec::new());
    let refused = session.receive(&mut octets.to_vec(), &mut plaintext);
    session.take_output(&mut output);
    assert!(plaintext.is_empty());
    let refused = refused.expect_err("it is wrong");
    let again = session
        .receive(&mut [0], &mut plaintext)
        .expect_err("it stays so");
    assert_eq!(again.to_string(), refused.to_string());
    assert!(session.send(b"x", &mut output).is_err());
    (refused, output)
}

#[test]
fn plain_text_is_known_by_its_first_octet_and_not_answered() {
    for text in [
        "REGISTER sip:example.org SIP/2.0\r\n",
        "GET / HTTP/1.1\r\n",
        "\r\n\r\n",
        "O",
    ] {
        let (refused, output) = said_to(text.as_bytes());
        assert!(
            matches!(refused, TlsError::NotTls(PlainText::Text)),
            "{refused:?}"
        );
        assert_eq!(refused.to_string(), "plain text where TLS was expected");
        assert!(output.is_empty());
    }
}

#[test]
fn other_octets_that_begin_no_handshake_are_named() {
    // A data record, an alert, the length of an SSL 2 hello, and a zero.
    for octet in [23, 21, 0x80, 0] {
        let (refused, _) = said_to(&[octet, 3, 1, 0, 5, 1, 2, 3, 4, 5]);
        assert!(
            matches!(refused, TlsError::NotTls(PlainText::Octet(it)) if it == octet),
            "{refused:?}"
        );
    }
}

#[test]
fn garbage_in_a_record_is_the_peers_fault_and_gets_an_alert() {
    let rows: [(&[u8], AlertDescription); 3] = [
        (
            &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0xff],
            AlertDescription::DecodeError,
        ),
        (
            &[22, 3, 1, 0, 4, 0, 0, 0, 0],
            AlertDescription::UnexpectedMessage,
        ),
        (&[22, 3, 1, 0x48, 0x01], AlertDescription::DecodeError),
    ];
    for (octets, expected) in rows {
        let (refused, output) = said_to(octets);
        assert!(
            matches!(refused, TlsError::PeerMisbehaved(_)),
            "{refused:?}"
        );
        assert_eq!(
            output.last(),
            Some(&u8::from(expected)),
            "{octets:?} {refused:?}"
        );
    }
}

#[test]
fn a_handshake_message_without_end_is_refused_before_it_fills_memory() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let mut session = TlsSession::accept(context.acceptor().expect("one")).expect("a session");
    // A hello of sixteen megabytes, in records of 16 kB.
    let mut record = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 16_384, 0);
    let refused = (0..20).find_map(|_| session.receive(&mut record.clone(), &mut Vec::new()).err());
    assert!(
        matches!(refused, Some(TlsError::PeerMisbehaved(_))),
        "{refused:?}"
    );
}

/// Whether a byte belongs to the version in a record header, which TLS implementations ignore.
fn is_record_version(bytes: &[u8], place: usize) -> bool {
    let mut start = 0;
    while let Some([_, _, _, high, low]) = bytes.get(start..start + 5) {
        if place == start + 1 || place == start + 2 {
            return true;
        }
        start += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    false
}

/// Whether a handshake succeeds if one byte of one of the client's flights is changed.
fn succeeds(pair: &mut Pair, flight: usize, place: usize, cut: usize) -> bool {
    for sent in 0..3 {
        let mut bytes = pair.client_says();
        let (length, changes) = (bytes.len(), sent == flight);
        if changes && is_record_version(&bytes, place) {
            return false;
        }
        match bytes.get_mut(place).filter(|_| changes) {
            Some(octet) => *octet ^= 0x55,
            None if changes => return false,
            None => {}
        }
        let (head, tail) = bytes.split_at_mut(cut.min(length));
        for part in [head, tail] {
            if pair.session.receive(part, &mut Vec::new()).is_err() {
                return false;
            }
        }
        if pair.tell_client().is_err() {
            return false;
        }
    }
    !pair.session.is_handshaking() && !pair.client.is_handshaking()
}

#[test]
fn no_changed_octet_of_a_handshake_makes_a_session_panic_or_passes_unseen() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let acceptor = context.acceptor().expect("one");
    for (version, versions) in &VERSIONS {
        let config = Setup::version(versions).config(authority.roots());
        for flight in [0, 1] {
            for place in (0..60).chain((60..300).step_by(7)) {
                for cut in [0, 5, 17] {
                    let mut pair = Pair::new(&config, "example.org", acceptor);
                    let passed = succeeds(&mut pair, flight, place, cut);
                    assert!(!passed, "TLS {version}, octet {place} of flight {flight}");
                }
            }
        }
    }
}

#[test]
fn a_changed_record_ends_the_session_and_what_came_before_is_kept() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
    std::io::Write::write_all(&mut pair.client.writer(), b"good").expect("room");
    let mut bytes = pair.client_says();
    std::io::Write::write_all(&mut pair.client.writer(), b"bad").expect("room");
    bytes.append(&mut pair.client_says());
    *bytes.last_mut().expect("octets") ^= 1;
    let mut heard = Vec::new();
    let refused = pair
        .session
        .receive(&mut bytes, &mut heard)
        .expect_err("it was changed");
    assert!(
        matches!(refused, TlsError::PeerMisbehaved(Error::DecryptError)),
        "{refused:?}"
    );
    assert_eq!(heard, b"good");
    let told = pair.tell_client().expect_err("an alert");
    assert_eq!(told, Error::AlertReceived(AlertDescription::BadRecordMac));
}

#[test]
fn an_oversized_record_is_refused_as_soon_as_its_length_is_known() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    for (_, versions) in &VERSIONS {
        let config = Setup::version(versions).config(authority.roots());
        let mut pair = Pair::established(&config, "example.org", context.acceptor().expect("one"));
        let refused = pair
            .session
            .receive(&mut [23, 3, 3, 0x50, 0], &mut Vec::new());
        assert!(
            matches!(refused, Err(TlsError::PeerMisbehaved(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_client_without_a_version_in_common_gets_an_alert() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    settings.min_version = sip_runtime::tls::TlsVersion::V1_3;
    let context = settings.load(None).expect("it loads");
    let config = Setup::version(&VERSIONS[0].1).config(authority.roots());
    let mut pair = Pair::new(&config, "example.org", context.acceptor().expect("one"));
    let refused = pair.handshake().expect_err("nothing shared");
    assert!(matches!(refused, TlsError::NothingShared(_)), "{refused:?}");
    assert_eq!(refused.place(), 2);
    let told = pair.client.process_new_packets().expect_err("an alert");
    assert_eq!(
        told,
        Error::AlertReceived(AlertDescription::ProtocolVersion)
    );
}

#[test]
fn a_client_that_refuses_our_certificate_is_not_counted_as_misbehaving() {
    let (authority, other) = (Authority::new(), Authority::new());
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(other.roots());
    let mut pair = Pair::new(&config, "example.org", context.acceptor().expect("one"));
    let refused = pair.handshake().expect_err("it knows another authority");
    assert!(
        matches!(refused, TlsError::CertificateRefused(_)),
        "{refused:?}"
    );
    assert_eq!(
        refused.to_string(),
        "the peer rejected the certificate of this server: UnknownCA"
    );
}
