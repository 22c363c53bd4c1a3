//! Calls over TLS: the callee must prove the domain of the URI.

use crate::peer::PATIENCE;
use sip_stack::tls::{CertificateFiles, SharedTls, TlsSettings};
use sip_stack::{Agent, CallEnd, CallError};
use std::path::Path;
use tempfile::TempDir;

/// A self-signed certificate for a name, as settings of the one that has it and trusts it.
fn certificate(folder: &Path, name: &str) -> TlsSettings {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    TlsSettings {
        server_ca: Some(chain.clone()),
        certificates: vec![CertificateFiles { chain, key }],
        ..TlsSettings::default()
    }
}

fn start(address: &str, settings: &TlsSettings) -> Agent {
    let tls = SharedTls::new(settings.load(None).expect("loaded"));
    let agent = Agent::builder(address).bind("tls:127.0.0.1:0");
    let agent = agent.options(|options| options.streams.tls = Some(tls));
    agent.start().expect("an agent")
}

#[test]
fn a_call_over_tls_reaches_the_domain_of_its_uri() {
    let folder = TempDir::new().expect("a folder");
    let settings = certificate(folder.path(), "localhost");
    let alice = start("sip:alice@example.org", &settings);
    let bob = start("sip:bob@example.org", &settings);
    let uri = format!("sips:bob@localhost:{}", bob.listeners()[0].address.port());
    let callee = std::thread::spawn(move || {
        let incoming = bob.incoming(PATIENCE).expect("a call");
        incoming.accept("answer").expect("up").ended()
    });
    let call = alice.invite(&uri).session("offer").send().expect("sent");
    let answer = call.answered().expect("answered");
    let contact = answer.message().header(sip_stack::HeaderName::Contact);
    assert!(contact.is_some_and(|contact| contact.starts_with(b"<sips:bob@127.0.0.1:")));
    call.hang_up().expect("running");
    assert!(matches!(callee.join().expect("no panic"), CallEnd::ByPeer));
}

#[test]
fn an_impostor_gets_no_call() {
    let folder = TempDir::new().expect("a folder");
    let settings = certificate(folder.path(), "example.org");
    let alice = start("sip:alice@example.org", &settings);
    let mallory = start("sip:mallory@example.org", &settings);
    let port = mallory.listeners()[0].address.port();
    let call = alice.invite(&format!("sips:bob@localhost:{port}")).send();
    let error = call.expect("sent").answered().expect_err("not localhost");
    assert!(
        matches!(error, CallError::Ended(CallEnd::Unreachable)),
        "{error:?}"
    );
}
