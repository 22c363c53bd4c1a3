//! Loads certificates, keys and authorities from PEM files. Errors name the file.

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::{Path, PathBuf};

/// Size limit of a PEM file, in bytes.
const LARGEST: u64 = 4 << 20;

/// A file that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The path from the configuration. Empty if the error concerns no file.
    pub file: PathBuf,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl LoadError {
    pub(super) fn new(file: &Path, problem: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.as_os_str().is_empty() {
            write!(formatter, "{}: ", self.file.display())?;
        }
        formatter.write_str(&self.problem)
    }
}

impl std::error::Error for LoadError {}

/// Every error that prevented the context from being created; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadErrors(pub Vec<LoadError>);

impl fmt::Display for LoadErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            let lead = if place == 0 { "" } else { "\n" };
            write!(formatter, "{lead}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadErrors {}

/// Loads a certificate chain with its key and checks that they match.
pub(super) fn certified_key(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, LoadError> {
    let certificates = certificates(chain)?;
    let private = private_key(key)?;
    let signer = provider
        .key_provider
        .load_private_key(private)
        .map_err(|error| {
            LoadError::new(
                key,
                format!("has no usable private key ({error}): use an ECDSA, Ed25519 or RSA key"),
            )
        })?;
    let pair = CertifiedKey::new(certificates, signer);
    match pair.keys_match() {
        Ok(()) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => Err(LoadError::new(
            key,
            format!(
                "does not belong to the first certificate in {}",
                chain.display()
            ),
        )),
        Err(error) => Err(LoadError::new(
            chain,
            format!("the first certificate cannot be read: {error}"),
        )),
    }
}

/// All certificates in a file; at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found =
        found.map_err(|error| LoadError::new(file, format!("is not valid PEM: {error}")))?;
    if found.is_empty() {
        let problem = "has no certificate: \"-----BEGIN CERTIFICATE-----\" is missing";
        return Err(LoadError::new(file, problem));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, LoadError> {
    let text = read(file)?;
    if let Ok(key) = PrivateKeyDer::from_pem_slice(&text) {
        return Ok(key);
    }
    let is_encrypted = contains(&text, b"ENCRYPTED");
    let has_certificate = <(SectionKind, Vec<u8>)>::pem_slice_iter(&text)
        .any(|section| matches!(section, Ok((SectionKind::Certificate, _))));
    Err(LoadError::new(
        file,
        if is_encrypted {
            "has an encrypted private key: store it without a passphrase, readable only by the server"
        } else if has_certificate {
            "has a certificate but no private key: are chain and key swapped?"
        } else {
            "has no private key: \"-----BEGIN PRIVATE KEY-----\" is missing"
        },
    ))
}

/// The authorities' certificates in a file.
pub(super) fn authorities(file: &Path) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| {
            LoadError::new(
                file,
                format!("has a certificate that cannot be used: {error}"),
            )
        })?;
    }
    Ok(roots)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn read(file: &Path) -> Result<Vec<u8>, LoadError> {
    let cannot = |error: std::io::Error| LoadError::new(file, format!("cannot be read: {error}"));
    let length = std::fs::metadata(file).map_err(cannot)?.len();
    if length > LARGEST {
        return Err(LoadError::new(
            file,
            format!("is {length} bytes long: too large for a PEM file of certificates"),
        ));
    }
    std::fs::read(file).map_err(cannot)
}
