//! A plain rustls client, and the bytes between it and a session.

use super::authority::pair;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};
use sip_runtime::tls::{CertificateFiles, Received, TlsAcceptor, TlsError, TlsSession};
use std::io::{Read, Write};
use std::sync::Arc;

/// Both versions, each on its own.
pub static VERSIONS: [(&str, [&SupportedProtocolVersion; 1]); 2] =
    [("1.2", [&version::TLS12]), ("1.3", [&version::TLS13])];

/// The setup of a client.
pub struct Setup {
    pub versions: &'static [&'static SupportedProtocolVersion],
    pub certificate: Option<CertificateFiles>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            versions: rustls::ALL_VERSIONS,
            certificate: None,
        }
    }
}

impl Setup {
    pub fn version(versions: &'static [&'static SupportedProtocolVersion]) -> Self {
        Self {
            versions,
            ..Self::default()
        }
    }

    pub fn config(self, roots: RootCertStore) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match &self.certificate {
            Some(files) => {
                let (chain, key) = pair(files);
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
            None => builder.with_no_client_auth(),
        })
    }
}

/// A client and the session that serves it.
pub struct Pair {
    pub client: ClientConnection,
    pub session: TlsSession,
    /// The data that the client has received.
    heard: Vec<u8>,
}

impl Pair {
    pub fn new(config: &Arc<ClientConfig>, name: &str, acceptor: &TlsAcceptor) -> Self {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        Self {
            client: ClientConnection::new(Arc::clone(config), name).expect("a client"),
            session: TlsSession::accept(acceptor).expect("a session"),
            heard: Vec::new(),
        }
    }

    /// A pair with a completed handshake.
    pub fn established(config: &Arc<ClientConfig>, name: &str, acceptor: &TlsAcceptor) -> Self {
        let mut pair = Self::new(config, name, acceptor);
        pair.handshake().expect("a handshake");
        pair
    }

    /// All bytes that the client has to send.
    pub fn client_says(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).expect("a vector");
        }
        bytes
    }

    /// Passes all output of the session to the client.
    pub fn tell_client(&mut self) -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        self.session.take_output(&mut bytes);
        self.give_client(&bytes)
    }

    pub fn give_client(&mut self, mut bytes: &[u8]) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).expect("a slice");
            let processed = self.client.process_new_packets();
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = self.client.reader().read(&mut buffer) {
                self.heard.extend_from_slice(&buffer[..length]);
            }
            processed?;
        }
        Ok(())
    }

    /// Exchanges bytes until neither side has any to send.
    pub fn handshake(&mut self) -> Result<Received, TlsError> {
        let mut last = Received::default();
        loop {
            let mut bytes = self.client_says();
            if bytes.is_empty() {
                return Ok(last);
            }
            let received = self.session.receive(&mut bytes, &mut Vec::new());
            // If the client rejects it, its alert comes next.
            let _ = self.tell_client();
            let received = received?;
            if received.established {
                last = received;
            }
        }
    }

    /// Sends a text from client to session.
    pub fn say(&mut self, text: &[u8]) -> Vec<u8> {
        self.client.writer().write_all(text).expect("room");
        let mut bytes = self.client_says();
        let mut heard = Vec::new();
        let received = self.session.receive(&mut bytes, &mut heard).expect("heard");
        assert_eq!(received.plaintext, heard.len());
        heard
    }

    /// Sends a text from session to client.
    pub fn answer(&mut self, text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.session.send(text, &mut bytes).expect("sent");
        self.give_client(&bytes).expect("received");
        std::mem::take(&mut self.heard)
    }
}
