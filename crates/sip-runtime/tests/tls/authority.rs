//! A certificate authority for one test, with the files that it issues.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType, SignatureAlgorithm,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sip_runtime::tls::{CertificateFiles, TlsContext, TlsSettings};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Makes the names of authorities unique, because authorities are looked up by name.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Issues certificates into its own directory.
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("Authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a root");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("written");
        Self { directory, issuer }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The file with the root certificate.
    pub fn file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    /// A root store that trusts only this authority.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        roots
    }

    /// Issues a certificate for names: DNS names, addresses, or URIs (a letter before a colon).
    pub fn issue(&self, names: &[&str]) -> CertificateFiles {
        self.issue_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    pub fn issue_with(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateFiles {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let mut params = params(names);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("issued");
        let stem = names.join("_").replace(['*', ':', '/'], "-");
        self.write(&stem, &certificate.pem(), &key.serialize_pem())
    }

    pub fn write(&self, stem: &str, chain: &str, key: &str) -> CertificateFiles {
        let number = std::fs::read_dir(self.path()).expect("a directory").count();
        let files = CertificateFiles {
            chain: self.path().join(format!("{stem}-{number}.pem")),
            key: self.path().join(format!("{stem}-{number}.key")),
        };
        std::fs::write(&files.chain, chain).expect("written");
        std::fs::write(&files.key, key).expect("written");
        files
    }

    /// Settings with one certificate for each of these lists of names. Servers are verified against this authority.
    pub fn settings(&self, certificates: &[&[&str]]) -> TlsSettings {
        TlsSettings {
            certificates: certificates.iter().map(|names| self.issue(names)).collect(),
            server_ca: Some(self.file()),
            ..TlsSettings::default()
        }
    }

    pub fn context(&self, certificates: &[&[&str]]) -> TlsContext {
        self.settings(certificates).load(None).expect("it loads")
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("params");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    for name in names {
        let name = *name;
        params.subject_alt_names.push(match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if name.contains(':') => SanType::URI(name.try_into().expect("ascii")),
            Err(_) => SanType::DnsName(name.try_into().expect("ascii")),
        });
    }
    params
}

/// Reads a chain and key from files.
pub fn pair(files: &CertificateFiles) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    use rustls::pki_types::pem::PemObject;
    let chain = CertificateDer::pem_file_iter(&files.chain).expect("a file");
    (
        chain.map(|one| one.expect("a certificate")).collect(),
        PrivateKeyDer::from_pem_file(&files.key).expect("a key"),
    )
}
