//! Ciphertext that arrives cut at any byte, or as many records at once.

use super::authority::Authority;
use super::peer::{Pair, Setup, VERSIONS};
use sip_runtime::tls::{Received, TlsSession};

/// Passes bytes to a session in two parts.
fn receive_cut(session: &mut TlsSession, bytes: &[u8], cut: usize) -> (Received, Vec<u8>) {
    let (mut heard, mut all) = (Vec::new(), Received::default());
    let (first, second) = bytes.split_at(cut);
    for part in [first, second] {
        let received = session
            .receive(&mut part.to_vec(), &mut heard)
            .expect("received");
        all.plaintext += received.plaintext;
        all.established |= received.established;
        all.closed |= received.closed;
    }
    (all, heard)
}

#[test]
fn a_handshake_may_be_cut_at_any_octet() {
    let authority = Authority::new();
    let mut settings = authority.settings(&[&["example.org"]]);
    settings.client_certificates = sip_runtime::tls::ClientCertificates::Required;
    settings.client_ca = Some(authority.file());
    let context = settings.load(None).expect("it loads");
    let acceptor = context.acceptor().expect("certificates");
    for (version, versions) in &VERSIONS {
        let setup = Setup {
            certificate: Some(authority.issue(&["phone.example.org"])),
            ..Setup::version(versions)
        };
        let config = setup.config(authority.roots());
        for flight in [0, 1] {
            // Every byte of the headers and first fields. After that, steps that are no multiple of a field's length.
            for cut in (0..80).chain((80..2_000).step_by(37)) {
                let mut pair = Pair::new(&config, "example.org", acceptor);
                for sent in 0.. {
                    let bytes = pair.client_says();
                    let cut = if sent == flight {
                        cut.min(bytes.len())
                    } else {
                        0
                    };
                    let (received, _) = receive_cut(&mut pair.session, &bytes, cut);
                    pair.tell_client().expect("the client goes on");
                    if received.established {
                        break;
                    }
                }
                assert_eq!(pair.session.version(), *version);
                assert_eq!(pair.say(b"OPTIONS"), b"OPTIONS");
            }
        }
    }
}

#[test]
fn a_record_may_be_cut_at_any_octet() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let acceptor = context.acceptor().expect("a certificate");
    for (_, versions) in &VERSIONS {
        let config = Setup::version(versions).config(authority.roots());
        let mut pair = Pair::established(&config, "example.org", acceptor);
        let text = [b'x'; 300];
        for cut in 0..text.len() + 20 {
            std::io::Write::write_all(&mut pair.client.writer(), &text).expect("room");
            let bytes = pair.client_says();
            let (received, heard) = receive_cut(&mut pair.session, &bytes, cut);
            assert_eq!(
                (received.plaintext, heard.as_slice()),
                (text.len(), text.as_slice())
            );
        }
    }
}

#[test]
fn octets_may_come_one_by_one() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let mut pair = Pair::new(
        &config,
        "example.org",
        context.acceptor().expect("a certificate"),
    );
    let mut heard = Vec::new();
    while pair.session.is_handshaking() {
        for octet in pair.client_says() {
            pair.session
                .receive(&mut [octet], &mut heard)
                .expect("received");
        }
        pair.tell_client().expect("the client goes on");
    }
    std::io::Write::write_all(&mut pair.client.writer(), b"REGISTER").expect("room");
    for octet in pair.client_says() {
        pair.session
            .receive(&mut [octet], &mut heard)
            .expect("received");
    }
    assert_eq!(heard, b"REGISTER");
}

#[test]
fn many_records_and_the_beginning_of_another_may_come_at_once() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let config = Setup::default().config(authority.roots());
    let acceptor = context.acceptor().expect("a certificate");
    let mut pair = Pair::established(&config, "example.org", acceptor);
    let mut bytes = Vec::new();
    let text: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
    for part in text.chunks(700) {
        std::io::Write::write_all(&mut pair.client.writer(), part).expect("room");
        bytes.append(&mut pair.client_says());
    }
    let (received, heard) = receive_cut(&mut pair.session, &bytes, 20_011);
    assert_eq!(received.plaintext, text.len());
    assert!(heard == text);
    let answered = pair.answer(&text);
    assert!(
        answered == text,
        "more than one record's worth goes out too"
    );
}
