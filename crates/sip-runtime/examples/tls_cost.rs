//! Measures what TLS handshakes cost the server: CPU time of the server side only, in memory, on one core, with TLS 1.3.
//!
//! `cargo run --release --package sip-runtime --example tls_cost [-- HANDSHAKES]`

use rcgen::{CertificateParams, KeyPair, RsaKeySize};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sip_runtime::tls::{CertificateFiles, TlsAcceptor, TlsSession, TlsSettings};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "tandem.localhost";

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 2_000,
    };
    let folder = tempfile::tempdir()?;
    let keys = [
        ("ECDSA P-256", KeyPair::generate()?),
        (
            "RSA 2048",
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        ),
    ];
    println!("TLS 1.3, server's processor time, one core, {count} handshakes each");
    println!(
        "{:<12} {:<8} {:>12} {:>12}",
        "key", "", "microseconds", "per second"
    );
    for (name, key) in &keys {
        let (acceptor, client) = setup(folder.path(), key)?;
        for (what, resumed) in [("full", false), ("resumed", true)] {
            let mut client = client.clone();
            if !resumed {
                client.resumption = Resumption::disabled();
            }
            let each = handshakes(&acceptor, &Arc::new(client), count, resumed)? / count;
            let (micros, rate) = (each.as_secs_f64() * 1e6, 1.0 / each.as_secs_f64());
            println!("{name:<12} {what:<8} {micros:>12.1} {rate:>12.0}");
        }
    }
    Ok(())
}

/// A server with its own certificate, and a client that trusts it.
fn setup(folder: &Path, key: &KeyPair) -> Result<(TlsAcceptor, ClientConfig), Box<dyn Error>> {
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(key)?;
    let files = CertificateFiles {
        chain: folder.join("chain.pem"),
        key: folder.join("key.pem"),
    };
    std::fs::write(&files.chain, certificate.pem())?;
    std::fs::write(&files.key, key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.chain)?)?;
    let settings = TlsSettings {
        server_ca: Some(files.chain.clone()),
        certificates: vec![files],
        ..TlsSettings::default()
    };
    let context = settings.load(None)?;
    let acceptor = context.acceptor().ok_or("there is a certificate")?.clone();
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((acceptor, client))
}

/// The server's CPU time for that many handshakes.
fn handshakes(
    acceptor: &TlsAcceptor,
    client: &Arc<ClientConfig>,
    count: u32,
    resumed: bool,
) -> Result<Duration, Box<dyn Error>> {
    // The first handshake gets the ticket.
    handshake(acceptor, client)?;
    let mut spent = Duration::ZERO;
    for _ in 0..count {
        let (each, was_resumed) = handshake(acceptor, client)?;
        if was_resumed != resumed {
            return Err("the handshake was not of the kind that is measured".into());
        }
        spent += each;
    }
    Ok(spent)
}

fn handshake(
    acceptor: &TlsAcceptor,
    config: &Arc<ClientConfig>,
) -> Result<(Duration, bool), Box<dyn Error>> {
    let mut client = ClientConnection::new(Arc::clone(config), ServerName::try_from(NAME)?)?;
    let (mut to_server, mut to_client, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    let began = processor_time();
    let mut session = TlsSession::accept(acceptor)?;
    let mut spent = processor_time().saturating_sub(began);
    while session.is_handshaking() {
        to_server.clear();
        while client.wants_write() {
            client.write_tls(&mut to_server)?;
        }
        to_client.clear();
        let began = processor_time();
        session.receive(&mut to_server, &mut plaintext)?;
        session.take_output(&mut to_client);
        spent += processor_time().saturating_sub(began);
        let mut unread = to_client.as_slice();
        while !unread.is_empty() {
            client.read_tls(&mut unread)?;
            client.process_new_packets()?;
        }
    }
    Ok((spent, session.is_resumed()))
}

/// The CPU time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}
