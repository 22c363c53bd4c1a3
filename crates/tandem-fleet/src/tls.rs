//! TLS of the controller: as a client of the API server of Kubernetes, and as a server for it.

use anyhow::{Context as _, bail};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// A client that trusts the authorities of this file only; without a file, none.
pub(crate) fn client(authorities: Option<&Path>) -> anyhow::Result<Arc<ClientConfig>> {
    let roots = authorities.map_or_else(|| Ok(RootCertStore::empty()), roots)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A server with this certificate. With `authorities`, clients need a certificate of one of them.
pub(crate) fn server(
    certificate: &Path,
    key: &Path,
    authorities: Option<&Path>,
) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("the key {} cannot be read", key.display()))?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match authorities {
        Some(file) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), provider)
                .build()?,
        ),
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key).with_context(|| {
        format!(
            "the certificate {} does not fit its key",
            certificate.display()
        )
    })?;
    Ok(Arc::new(config))
}

fn roots(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(file)?);
    if added == 0 {
        bail!("{} has no certificate of an authority", file.display());
    }
    Ok(roots)
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    let found =
        read().with_context(|| format!("the certificates {} cannot be read", file.display()))?;
    if found.is_empty() {
        bail!("{} has no certificate in PEM", file.display());
    }
    Ok(found)
}
