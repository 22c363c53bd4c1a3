//! The server's own certificates, and which one a handshake gets.

use super::facts::Facts;
use super::identities::PeerIdentities;
use super::load::{LoadError, LoadErrors, certified_key};
use super::settings::CertificateFiles;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::warn;

const DAY: u64 = 86_400;
/// How long before its expiry a certificate causes a warning.
const SOON: Duration = Duration::from_secs(14 * DAY);

/// A certificate chain with its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// The names that it serves, in lower case: domains and hosts, including wildcards.
    names: Vec<String>,
    chain_file: PathBuf,
    not_before: SystemTime,
    not_after: SystemTime,
    last_day: String,
}

impl Certificate {
    fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Self, LoadError> {
        let key = certified_key(&files.chain, &files.key, provider)?;
        let unreadable = || LoadError::new(&files.chain, "the first certificate cannot be read");
        let facts = key
            .cert
            .first()
            .and_then(|certificate| Facts::read(certificate));
        let facts = facts.ok_or_else(unreadable)?;
        Ok(Self {
            key: Arc::new(key),
            names: served_names(&facts),
            chain_file: files.chain.clone(),
            not_before: instant(facts.not_before),
            not_after: instant(facts.not_after),
            last_day: facts.last_day,
        })
    }

    /// The domains and hosts that it serves. The first one is its display name. Never empty.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The file that the chain was loaded from.
    pub fn chain_file(&self) -> &std::path::Path {
        &self.chain_file
    }

    /// When it expires.
    pub const fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// The day on which it expires, in UTC: `2027-01-31`.
    pub fn last_day(&self) -> &str {
        &self.last_day
    }

    /// A warning for the operator if it is not valid yet, has expired, or expires within two weeks.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let days = |time: Duration| time.as_secs() / DAY;
        if let Ok(wait) = self.not_before.duration_since(now)
            && !wait.is_zero()
        {
            return Some(format!(
                "is not valid yet: it becomes valid in {} days",
                days(wait)
            ));
        }
        match self.not_after.duration_since(now) {
            Ok(left) if left > SOON => None,
            Ok(left) => Some(format!("expires in {} days: renew it", days(left))),
            Err(over) => Some(format!(
                "expired {} days ago: clients reject it",
                days(over.duration())
            )),
        }
    }

    fn fits(&self, schemes: &[SignatureScheme]) -> bool {
        self.key.key.choose_scheme(schemes).is_some()
    }
}

/// The names that clients may send in SNI: DNS names and SIP domains. A certificate without any of them serves its common
/// name or addresses.
fn served_names(facts: &Facts) -> Vec<String> {
    let mut names = facts.dns_names.clone();
    for domain in PeerIdentities::from_facts(facts).domains() {
        if !names.iter().any(|name| name == domain) {
            names.push(domain.to_owned());
        }
    }
    if names.is_empty() && !facts.has_alternative_names {
        names.extend(facts.common_name.as_deref().map(str::to_ascii_lowercase));
    }
    if names.is_empty() {
        names.extend(facts.addresses.iter().map(ToString::to_string));
    }
    if names.is_empty() {
        names.push("(no name)".to_owned());
    }
    names
}

fn instant(seconds: i64) -> SystemTime {
    u64::try_from(seconds).map_or(UNIX_EPOCH, |seconds| {
        UNIX_EPOCH + Duration::from_secs(seconds)
    })
}

/// All certificates of a server. It is an immutable snapshot.
#[derive(Debug, Default)]
pub struct Certificates {
    /// The first one is for clients that send no name or an unknown one.
    list: Vec<Certificate>,
    /// Indexes into the list, by name. `*.example.org` is listed as `example.org` in the second table.
    exact: HashMap<String, Vec<usize>>,
    wildcard: HashMap<String, Vec<usize>>,
}

impl Certificates {
    /// Loads all of them, or returns every error.
    pub(super) fn load(
        files: &[CertificateFiles],
        provider: &CryptoProvider,
    ) -> Result<Self, LoadErrors> {
        let (mut loaded, mut wrong) = (Self::default(), Vec::new());
        for files in files {
            match Certificate::load(files, provider) {
                Ok(certificate) => loaded.push(certificate),
                Err(error) => wrong.push(error),
            }
        }
        if wrong.is_empty() {
            Ok(loaded)
        } else {
            Err(LoadErrors(wrong))
        }
    }

    fn push(&mut self, certificate: Certificate) {
        let place = self.list.len();
        for name in &certificate.names {
            let (table, key) = match name.strip_prefix("*.") {
                Some(parent) => (&mut self.wildcard, parent),
                None => (&mut self.exact, name.as_str()),
            };
            table.entry(key.to_owned()).or_default().push(place);
        }
        self.list.push(certificate);
    }

    /// The certificates in the order of the settings.
    pub fn iter(&self) -> impl Iterator<Item = &Certificate> {
        self.list.iter()
    }

    /// Whether there is no certificate. Then no handshake can be accepted.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether both contain the same chains in the same order.
    pub fn same_as(&self, other: &Self) -> bool {
        let chains = |of: &Self| {
            let chains = of
                .list
                .iter()
                .map(|certificate| certificate.key.cert.clone());
            chains.collect::<Vec<_>>()
        };
        chains(self) == chains(other)
    }

    /// Logs a warning for each certificate that needs attention.
    pub fn warn(&self, now: SystemTime) {
        for certificate in &self.list {
            if let Some(warning) = certificate.warning(now) {
                warn!(
                    file = %certificate.chain_file.display(),
                    names = certificate.names.join(", "),
                    "the certificate {warning}"
                );
            }
        }
    }

    /// Selects the certificate for a name: first those with the exact name, then those with a wildcard for its first label, then
    /// all others. Among them it takes the first one whose key the client can verify, or else the first certificate.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Certificate> {
        let name = name.map(str::to_ascii_lowercase);
        let named = name.as_deref().map(|name| {
            let exact = self.exact.get(name).into_iter();
            let parent = name.split_once('.').map(|(_, parent)| parent);
            exact.chain(parent.and_then(|parent| self.wildcard.get(parent)))
        });
        let named = named.into_iter().flatten().flatten();
        let candidates = named.filter_map(|place| self.list.get(*place));
        let chosen = candidates.chain(&self.list).find(|one| one.fits(schemes));
        chosen.or(self.list.first())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = self.choose(hello.server_name(), hello.signature_schemes())?;
        Some(Arc::clone(&chosen.key))
    }
}

/// When a server asks for a client certificate, we send the first certificate with a suitable key.
impl ResolvesClientCert for Certificates {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let chosen = self.list.iter().find(|one| one.fits(schemes))?;
        Some(Arc::clone(&chosen.key))
    }

    fn has_certs(&self) -> bool {
        !self.list.is_empty()
    }
}
