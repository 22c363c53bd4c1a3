//! The TLS context that sessions are created from. It is immutable, shared and replaced as a whole.

use super::certificates::Certificates;
use super::settings::ClientCertificates;
use arc_swap::ArcSwap;
use rustls::server::ProducesTickets;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;

/// Creates the server side of sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Arc<ServerConfig>);

impl TlsAcceptor {
    pub(super) fn new(config: ServerConfig) -> Self {
        Self(Arc::new(config))
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// Creates the client side of sessions. Cheap to clone. It keeps the tickets of about 256 servers.
#[derive(Clone, Debug)]
pub struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    pub(super) fn new(config: ClientConfig) -> Self {
        Self(Arc::new(config))
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

/// How clients are verified. Tickets survive a reload only if this stays the same.
#[derive(Clone, Debug)]
pub(super) struct ClientPolicy {
    pub(super) asked: ClientCertificates,
    pub(super) roots: RootCertStore,
}

impl PartialEq for ClientPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.asked == other.asked && self.roots.roots == other.roots.roots
    }
}

/// Everything that handshakes need. Created by [`TlsSettings::load`](super::TlsSettings::load).
#[derive(Debug)]
pub struct TlsContext {
    certificates: Arc<Certificates>,
    acceptor: Option<TlsAcceptor>,
    connector: TlsConnector,
    tickets: Arc<dyn ProducesTickets>,
    policy: ClientPolicy,
}

impl TlsContext {
    pub(super) fn new(
        certificates: Arc<Certificates>,
        acceptor: Option<TlsAcceptor>,
        connector: TlsConnector,
        tickets: Arc<dyn ProducesTickets>,
        policy: ClientPolicy,
    ) -> Self {
        Self {
            certificates,
            acceptor,
            connector,
            tickets,
            policy,
        }
    }

    /// For incoming connections. `None` if there is no certificate.
    pub const fn acceptor(&self) -> Option<&TlsAcceptor> {
        self.acceptor.as_ref()
    }

    /// For outgoing connections.
    pub const fn connector(&self) -> &TlsConnector {
        &self.connector
    }

    /// The server's own certificates.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn tickets(&self) -> &Arc<dyn ProducesTickets> {
        &self.tickets
    }

    pub(super) const fn policy(&self) -> &ClientPolicy {
        &self.policy
    }
}

/// The current context, shared by all workers. Reading it takes no lock.
#[derive(Debug)]
pub struct SharedTls(ArcSwap<TlsContext>);

impl SharedTls {
    /// Starts with this context.
    pub fn new(context: TlsContext) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(context)))
    }

    /// The current context.
    pub fn context(&self) -> Arc<TlsContext> {
        self.0.load_full()
    }

    /// Replaces the context. New handshakes use it.
    pub fn replace(&self, context: TlsContext) {
        self.0.store(Arc::new(context));
    }
}
