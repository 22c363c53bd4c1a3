//! The SIP identities in a peer's certificate (RFC 5922 section 7).

use super::facts::Facts;

/// The identities in a peer's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentities {
    domains: Box<[Box<str>]>,
    uris: Box<[Box<str>]>,
}

impl PeerIdentities {
    /// The identities of a certificate in DER. Returns `None` if it is invalid.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        Facts::read(certificate).map(|facts| Self::from_facts(&facts))
    }

    /// Applies RFC 5922 section 7.1: the identities are the hosts of `sip` URIs without a user, or the DNS names if there are no
    /// such URIs. The common name, which the RFC leaves to the implementation, is ignored.
    pub(crate) fn from_facts(facts: &Facts) -> Self {
        let from_uris: Box<[Box<str>]> = facts
            .uris
            .iter()
            .filter_map(|uri| domain_of(uri))
            .map(|host| host.to_ascii_lowercase().into())
            .collect();
        let domains = if from_uris.is_empty() {
            facts
                .dns_names
                .iter()
                .map(|name| name.as_str().into())
                .collect()
        } else {
            from_uris
        };
        let uris = facts.uris.iter().filter(|uri| is_sip(uri));
        Self {
            domains,
            uris: uris.map(|uri| uri.as_str().into()).collect(),
        }
    }

    /// The SIP domains that the certificate is valid for, in lower case.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(AsRef::as_ref)
    }

    /// Its `sip` and `sips` URIs, unchanged and including those of single users.
    pub fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.iter().map(AsRef::as_ref)
    }

    /// Whether the certificate is valid for this domain. The whole name must match, ignoring case, and wildcards never match (RFC
    /// 5922 section 7.2).
    pub fn is_domain(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        !name.contains('*')
            && self
                .domains
                .iter()
                .any(|domain| domain.eq_ignore_ascii_case(name))
    }
}

fn is_sip(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("sip") || scheme.eq_ignore_ascii_case("sips")
    })
}

/// The host of a `sip` URI without a user.
fn domain_of(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains('@') {
        return None;
    }
    let host = rest.split([';', '?', ':']).next()?;
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identities(uris: &[&str], dns_names: &[&str]) -> PeerIdentities {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        PeerIdentities::from_facts(&Facts {
            uris: owned(uris),
            dns_names: owned(dns_names),
            ..Facts::default()
        })
    }

    #[test]
    fn dns_names_count_only_where_no_sip_uri_names_a_domain() {
        let rows: &[(&[&str], &[&str], &[&str])] = &[
            (&[], &["example.org"], &["example.org"]),
            (&["sip:Example.COM"], &["example.org"], &["example.com"]),
            (
                &["SIP:example.com:5061;transport=tls"],
                &[],
                &["example.com"],
            ),
            (
                &["sip:alice@example.com"],
                &["example.org"],
                &["example.org"],
            ),
            (&["sips:example.com"], &["example.org"], &["example.org"]),
            (&["https://example.com"], &[], &[]),
            (&["sip:"], &["example.org"], &["example.org"]),
        ];
        for (uris, dns_names, expected) in rows {
            let found = identities(uris, dns_names);
            assert!(
                found.domains().eq(expected.iter().copied()),
                "{uris:?} {found:?}"
            );
        }
    }

    #[test]
    fn a_domain_is_compared_as_a_whole_without_case_and_wildcards_match_nothing() {
        let found = identities(&[], &["example.org", "*.example.net"]);
        for (name, stands_for_it) in [
            ("example.org", true),
            ("EXAMPLE.org.", true),
            ("sip.example.org", false),
            ("xample.org", false),
            ("sip.example.net", false),
            ("*.example.net", false),
        ] {
            assert_eq!(found.is_domain(name), stands_for_it, "{name}");
        }
    }
}
