//! The TLS settings, and how a context is created from them.

use super::certificates::Certificates;
use super::context::{ClientPolicy, TlsAcceptor, TlsConnector, TlsContext};
use super::load::{LoadError, LoadErrors, authorities};
use super::verify::ServerVerifier;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracing::warn;

/// The oldest TLS version to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl TlsVersion {
    fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        static NEWEST: [&SupportedProtocolVersion; 1] = [&version::TLS13];
        match self {
            Self::V1_2 => &BOTH,
            Self::V1_3 => &NEWEST,
        }
    }
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No.
    #[default]
    None,
    /// Clients may send a certificate. It must be valid.
    Optional,
    /// Clients must send a valid certificate.
    Required,
}

/// The files of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM file: the server's certificate first, then the intermediate authorities.
    pub chain: PathBuf,
    /// PEM file: the private key of the first certificate.
    pub key: PathBuf,
}

/// The TLS settings.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// The first one is the default. Without any, sessions cannot be accepted.
    pub certificates: Vec<CertificateFiles>,
    /// Default 1.2.
    pub min_version: TlsVersion,
    /// Default: no.
    pub client_certificates: ClientCertificates,
    /// PEM file with the authorities that issue client certificates. Required if clients are asked for one.
    pub client_ca: Option<PathBuf>,
    /// PEM file with the authorities that issue server certificates. `None`: those that the operating system trusts.
    pub server_ca: Option<PathBuf>,
    /// Whether to verify the servers that we connect to. Default true.
    pub verify_servers: bool,
    /// Whether to resume sessions with servers. Default true.
    pub resume_sessions: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            min_version: TlsVersion::default(),
            client_certificates: ClientCertificates::default(),
            client_ca: None,
            server_ca: None,
            verify_servers: true,
            resume_sessions: true,
        }
    }
}

impl TlsSettings {
    /// Reads all files and creates a context. If you pass the context that this one replaces, its tickets stay valid, unless the
    /// verification of clients has changed: a client with a ticket is not asked for a certificate again.
    ///
    /// # Errors
    /// Every problem found in the files.
    pub fn load(&self, previous: Option<&TlsContext>) -> Result<TlsContext, LoadErrors> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let certificates = Certificates::load(&self.certificates, &provider);
        let clients = self.client_roots();
        let servers = self.server_roots();
        let (certificates, clients, servers) = match (certificates, clients, servers) {
            (Ok(certificates), Ok(clients), Ok(servers)) => (certificates, clients, servers),
            (certificates, clients, servers) => {
                let mut all = certificates.err().unwrap_or(LoadErrors(Vec::new()));
                all.0.extend(clients.err());
                all.0.extend(servers.err());
                return Err(all);
            }
        };
        let certificates = Arc::new(certificates);
        let policy = ClientPolicy {
            asked: self.client_certificates,
            roots: clients,
        };
        let kept = previous.filter(|previous| previous.policy() == &policy);
        let tickets = match kept {
            Some(previous) => Ok(Arc::clone(previous.tickets())),
            None => aws_lc_rs::Ticketer::new(),
        };
        let tickets = tickets.map_err(|error| ours(&error))?;
        let acceptor = (!certificates.is_empty())
            .then(|| self.acceptor(&provider, &certificates, &policy))
            .transpose()?
            .map(|mut config| {
                config.ticketer = Arc::clone(&tickets);
                TlsAcceptor::new(config)
            });
        let connector = self.connector(&provider, &certificates, servers)?;
        certificates.warn(SystemTime::now());
        Ok(TlsContext::new(
            certificates,
            acceptor,
            connector,
            tickets,
            policy,
        ))
    }

    fn acceptor(
        &self,
        provider: &Arc<CryptoProvider>,
        certificates: &Arc<Certificates>,
        policy: &ClientPolicy,
    ) -> Result<ServerConfig, LoadErrors> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(self.min_version.and_later())
            .map_err(|error| ours(&error))?
            .with_client_cert_verifier(self.client_verifier(provider, policy)?)
            .with_cert_resolver(Arc::clone(certificates) as _);
        // Resumption uses tickets only; the server stores no sessions. One ticket is enough for a phone that reconnects.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 1;
        Ok(config)
    }

    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        policy: &ClientPolicy,
    ) -> Result<Arc<dyn ClientCertVerifier>, LoadErrors> {
        if policy.asked == ClientCertificates::None {
            return Ok(WebPkiClientVerifier::no_client_auth());
        }
        let roots = Arc::new(policy.roots.clone());
        let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let builder = match policy.asked {
            ClientCertificates::Optional => builder.allow_unauthenticated(),
            ClientCertificates::None | ClientCertificates::Required => builder,
        };
        let file = self.client_ca.as_deref().unwrap_or(Path::new(""));
        builder
            .build()
            .map_err(|error| LoadErrors(vec![LoadError::new(file, error.to_string())]))
    }

    fn connector(
        &self,
        provider: &Arc<CryptoProvider>,
        certificates: &Arc<Certificates>,
        roots: Option<RootCertStore>,
    ) -> Result<TlsConnector, LoadErrors> {
        let verifier = Arc::new(ServerVerifier::new(roots, provider));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(self.min_version.and_later())
            .map_err(|error| ours(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::clone(certificates) as _);
        if !self.resume_sessions {
            config.resumption = Resumption::disabled();
        }
        Ok(TlsConnector::new(config))
    }

    /// The authorities that issue client certificates. Empty if clients are not asked for one.
    fn client_roots(&self) -> Result<RootCertStore, LoadError> {
        match (self.client_certificates, &self.client_ca) {
            (ClientCertificates::None, _) => Ok(RootCertStore::empty()),
            (_, Some(file)) => authorities(file),
            (_, None) => Err(LoadError::new(
                Path::new(""),
                "client certificates are requested, but no file of trusted authorities is configured",
            )),
        }
    }

    /// The authorities that issue server certificates. `None` if servers are not verified.
    ///
    /// The default is the operating system's list, not a built-in one: telephony relies on private authorities. An operator can
    /// trust or distrust an authority once for the whole machine.
    fn server_roots(&self) -> Result<Option<RootCertStore>, LoadError> {
        if !self.verify_servers {
            warn!(
                "certificates of servers that Tandem connects to are NOT verified: an attacker on the path can read and change all messages"
            );
            return Ok(None);
        }
        if let Some(file) = &self.server_ca {
            return authorities(file).map(Some);
        }
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let (_, unusable) = roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            warn!(
                unusable,
                "this system trusts no certificate authority: no connection to a server over TLS will succeed; \
                 install ca-certificates or name a file of authorities"
            );
        }
        Ok(Some(roots))
    }
}

fn ours(error: &rustls::Error) -> LoadErrors {
    LoadErrors(vec![LoadError::new(
        Path::new(""),
        format!("cannot set up TLS: {error}"),
    )])
}
