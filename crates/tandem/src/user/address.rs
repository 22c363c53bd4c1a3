//! Subscriber addresses: `alice@example.org`, with an optional `sip:` as in a copied address.

use super::report::Failure;
use anyhow::{Context as _, bail, ensure};
use std::str::FromStr;

/// In characters; longer than the user parts of any numbering plan.
const MAX_USERNAME: usize = 128;
/// The limit of DNS, in characters (RFC 1035 section 2.3.4).
const MAX_DOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// A subscriber address from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberAddress {
    username: String,
    /// In lower case; `None`: the first configured domain.
    domain: Option<String>,
}

impl FromStr for SubscriberAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let text = without_scheme(text);
        let (username, domain) = match text.rsplit_once('@') {
            Some((username, domain)) => (username, Some(canonical_domain(domain)?)),
            None => (text, None),
        };
        check_username(username)?;
        Ok(Self {
            username: username.to_owned(),
            domain,
        })
    }
}

impl SubscriberAddress {
    /// Username and domain; without a domain, the first of `domains`.
    pub(super) fn complete(&self, domains: &[String]) -> Result<(String, String), Failure> {
        let domain = match (&self.domain, domains.first()) {
            (Some(given), _) => given.clone(),
            (None, Some(first)) => first.to_ascii_lowercase(),
            (None, None) => {
                return Err(Failure::Usage(format!(
                    "{0} has no domain: write {0}@example.org",
                    self.username
                )));
            }
        };
        Ok((self.username.clone(), domain))
    }
}

fn without_scheme(text: &str) -> &str {
    ["sip:", "sips:"]
        .iter()
        .find(|scheme| {
            text.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .and_then(|scheme| text.get(scheme.len()..))
        .unwrap_or(text)
}

/// Checks that this can be the user part of an address of record (RFC 3261 section 25.1, `user`); returns the reason if not. Escapes
/// are rejected, because the digest username would have to be written without them.
pub(super) fn check_username(username: &str) -> anyhow::Result<()> {
    ensure!(!username.is_empty(), "the username is empty");
    ensure!(
        username.len() <= MAX_USERNAME,
        "the username has {} characters; at most {MAX_USERNAME} are allowed",
        username.len()
    );
    if let Some(odd) = username.chars().find(|&letter| !is_user_character(letter)) {
        bail!(
            "the username \"{}\" contains {odd:?}; only letters, digits and -_.!~*'()&=+$,;?/ are allowed",
            username.escape_debug()
        );
    }
    Ok(())
}

fn is_user_character(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.!~*'()&=+$,;?/".contains(letter)
}

/// The domain in its stored form: lower case, no final dot. A host name, an IPv4 address, or an IPv6 address in brackets; returns the
/// reason if it is none of these.
pub(super) fn canonical_domain(domain: &str) -> anyhow::Result<String> {
    ensure!(!domain.is_empty(), "the domain is empty");
    if let Some(inside) = domain
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return inside
            .parse::<std::net::Ipv6Addr>()
            .map(|ip| format!("[{ip}]"))
            .with_context(|| {
                let domain = domain.escape_debug();
                format!("the domain \"{domain}\" is not an IPv6 address")
            });
    }
    if let Ok(ip) = domain.parse::<std::net::Ipv4Addr>() {
        return Ok(ip.to_string());
    }
    let name = domain.strip_suffix('.').unwrap_or(domain);
    check_host_name(name)?;
    Ok(name.to_ascii_lowercase())
}

fn check_host_name(name: &str) -> anyhow::Result<()> {
    let refused = |reason: &str| bail!("the domain \"{}\" {reason}", name.escape_debug());
    if name.len() > MAX_DOMAIN {
        return refused("is longer than 253 characters");
    }
    if let Some((_, port)) = name.split_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return refused("contains a port; remove it");
    }
    if !name.is_ascii() {
        return refused("contains non-ASCII letters; use its xn-- form");
    }
    let label_fits = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !name.split('.').all(label_fits) {
        return refused(
            "is not a host name; it consists of labels of letters, digits and hyphens, separated by dots",
        );
    }
    // RFC 3261's toplabel; a final label that starts with a digit is probably a mistyped IPv4 address.
    if name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()))
    {
        return refused(
            "is neither a host name (the last label starts with a digit) nor an IPv4 address",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, String), String> {
        let address: SubscriberAddress = text
            .parse()
            .map_err(|problem: anyhow::Error| problem.to_string())?;
        Ok(address
            .complete(&["Default.example".to_owned()])
            .expect("has a default"))
    }

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (text, username, domain) in [
            ("alice@example.org", "alice", "example.org"),
            ("sip:alice@example.org", "alice", "example.org"),
            ("SIPS:alice@example.org", "alice", "example.org"),
            ("Alice@Example.ORG.", "Alice", "example.org"),
            ("+4930123@example.org", "+4930123", "example.org"),
            ("o'neil,j;x=1@example.org", "o'neil,j;x=1", "example.org"),
            ("100@192.0.2.1", "100", "192.0.2.1"),
            ("100@[2001:DB8::0:1]", "100", "[2001:db8::1]"),
            ("100@localhost", "100", "localhost"),
            ("alice", "alice", "default.example"),
            ("sip:alice", "alice", "default.example"),
        ] {
            assert_eq!(
                parsed(text),
                Ok((username.to_owned(), domain.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "username is empty"),
            ("@example.org", "username is empty"),
            ("alice@", "domain is empty"),
            ("al ice@example.org", "contains ' '"),
            ("al%20ice@example.org", "contains '%'"),
            ("alice@home@example.org", "contains '@'"),
            ("jürgen@example.org", "contains 'ü'"),
            ("alice@example.org:5060", "contains a port"),
            ("alice@example.org;transport=udp", "not a host name"),
            ("alice@exa_mple.org", "not a host name"),
            ("alice@-example.org", "not a host name"),
            ("alice@example..org", "not a host name"),
            ("alice@münchen.example", "xn--"),
            ("alice@192.0.2.300", "nor an IPv4 address"),
            ("alice@[2001:db8]", "not an IPv6 address"),
        ] {
            let problem = parsed(text).expect_err(text);
            assert!(problem.contains(reason), "{text}: {problem}");
        }
        let long = format!("{}@example.org", "a".repeat(MAX_USERNAME + 1));
        assert!(parsed(&long).expect_err("long").contains("at most 128"));
        let long = format!("alice@{}.org", "a.".repeat(130).trim_end_matches('.'));
        assert!(parsed(&long).expect_err("long").contains("longer than 253"));
    }

    #[test]
    fn without_any_configured_domain_the_address_must_have_one() {
        let address: SubscriberAddress = "alice".parse().expect("a username");
        let Err(Failure::Usage(problem)) = address.complete(&[]) else {
            panic!("taken without a domain")
        };
        assert!(problem.contains("alice@example.org"), "{problem}");
    }
}
