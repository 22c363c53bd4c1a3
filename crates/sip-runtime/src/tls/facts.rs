//! Reads names and validity from a certificate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The fields read from an X.509 certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// DNS names of the subjectAltName, in lower case.
    pub dns_names: Vec<String>,
    /// URIs of the subjectAltName, unchanged.
    pub uris: Vec<String>,
    /// Addresses of the subjectAltName.
    pub addresses: Vec<IpAddr>,
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Whether the certificate has a subjectAltName.
    pub has_alternative_names: bool,
    /// First second of its validity, in Unix time.
    pub not_before: i64,
    /// Last second of its validity, in Unix time.
    pub not_after: i64,
    /// The day of that second, in UTC: `2027-01-31`.
    pub last_day: String,
}

impl Facts {
    /// Reads a certificate in DER. Returns `None` if it is invalid.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let mut facts = Self {
            common_name: certificate
                .subject()
                .iter_common_name()
                .find_map(|name| name.as_str().ok().map(str::to_owned)),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            last_day: validity.not_after.to_datetime().date().to_string(),
            ..Self::default()
        };
        if let Some(names) = certificate.subject_alternative_name().ok()? {
            facts.has_alternative_names = true;
            for name in &names.value.general_names {
                facts.take(name);
            }
        }
        Some(facts)
    }

    fn take(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push(name.to_ascii_lowercase()),
            GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
            GeneralName::IPAddress(octets) => self.addresses.extend(address(octets)),
            _ => {}
        }
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let version_4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).into());
    let version_6 = || <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).into());
    version_4.or_else(|_| version_6()).ok()
}
