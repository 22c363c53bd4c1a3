//! Peers that use TLS: plain rustls over sockets.

use super::authority::{Authority, pair};
use super::peer::{Peer, connected};
use super::switch::Switches;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use sip_runtime::StreamOptions;
use sip_runtime::tls::{CertificateFiles, SharedTls, TlsContext};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

pub type Client = StreamOwned<ClientConnection, TcpStream>;
pub type Server = StreamOwned<ServerConnection, TcpStream>;

/// The name in the switches' certificate.
pub const NAME: &str = "switch.example";

/// Options of switches that have a certificate of this authority and trust it.
pub fn with_tls(context: TlsContext, options: StreamOptions) -> StreamOptions {
    StreamOptions {
        tls: Some(SharedTls::new(context)),
        ..options
    }
}

/// The configuration of a client that trusts this authority.
pub fn trusting(roots: RootCertStore, shown: Option<&CertificateFiles>) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match shown {
        Some(files) => {
            let (chain, key) = pair(files);
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
        None => builder.with_no_client_auth(),
    })
}

/// A client over a socket. The handshake runs with the first byte.
pub fn client_over(stream: TcpStream, config: &Arc<ClientConfig>) -> Client {
    let name = ServerName::try_from(NAME).expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a client");
    StreamOwned::new(session, stream)
}

/// A client of switches.
pub fn client_of(switches: &Switches, config: &Arc<ClientConfig>) -> Peer<Client> {
    Peer::on(client_over(connected(switches.address()), config))
}

/// The server side of a connection, with a certificate for these names.
pub fn server_over(stream: TcpStream, authority: &Authority, names: &[&str]) -> Peer<Server> {
    let (chain, key) = pair(&authority.issue(names));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    let session = ServerConnection::new(Arc::new(config)).expect("a server");
    Peer::on(StreamOwned::new(session, stream))
}

impl Peer<Client> {
    /// Its local address.
    pub fn local(&self) -> SocketAddr {
        self.stream.sock.local_addr().expect("an address")
    }
}
