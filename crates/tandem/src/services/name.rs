//! The names of aliases and subscribers, as people write them.
use sip_message::{Scheme, Uri};
use std::fmt;

/// The maximum length of a name, in bytes.
const LONGEST: usize = 255;

/// An address of record of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriberName {
    /// The user part in canonical form.
    pub(crate) username: String,
    /// In lower case.
    pub(crate) domain: String,
}

/// The name of an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AliasName {
    /// The user part in canonical form.
    pub(crate) username: String,
    /// In lower case; empty for all domains of the server.
    pub(crate) domain: String,
}

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidName {
    #[error("must be user@domain, such as alice@example.org")]
    NoSubscriber,
    #[error("must be a number or user@domain, such as +4930123 or info@example.org")]
    NoAlias,
    #[error("the domain must be one of this server: {0}")]
    Foreign(String),
}

impl SubscriberName {
    /// Parses `user@domain`, with or without `sip:`.
    pub(crate) fn parse(text: &str, domains: &[String]) -> Result<Self, InvalidName> {
        let (username, domain) = canonical(text).ok_or(InvalidName::NoSubscriber)?;
        let domain = domain.ok_or(InvalidName::NoSubscriber)?;
        check_domain(&domain, domains)?;
        Ok(Self { username, domain })
    }
}

impl fmt::Display for SubscriberName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.username, self.domain)
    }
}

impl AliasName {
    /// Parses `user@domain`, or a user or number alone, with or without `sip:`.
    pub(crate) fn parse(text: &str, domains: &[String]) -> Result<Self, InvalidName> {
        let (username, domain) = canonical(text).ok_or(InvalidName::NoAlias)?;
        if let Some(domain) = &domain {
            check_domain(domain, domains)?;
        }
        Ok(Self {
            username,
            domain: domain.unwrap_or_default(),
        })
    }
}

impl fmt::Display for AliasName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.username)?;
        match &*self.domain {
            "" => Ok(()),
            domain => write!(formatter, "@{domain}"),
        }
    }
}

fn check_domain(domain: &str, domains: &[String]) -> Result<(), InvalidName> {
    if domains.iter().any(|own| own.eq_ignore_ascii_case(domain)) {
        return Ok(());
    }
    Err(InvalidName::Foreign(domains.join(", ")))
}

/// User and domain in canonical form.
fn canonical(text: &str) -> Option<(String, Option<String>)> {
    let bare = text.strip_prefix("sip:").unwrap_or(text);
    let has_domain = bare.contains('@');
    let user = bare.split('@').next().unwrap_or_default();
    if user.contains(':') {
        return None; // A password, or another scheme.
    }
    let uri = if has_domain {
        format!("sip:{bare}")
    } else {
        format!("sip:{bare}@alias.invalid")
    };
    let uri = Uri::parse(uri.as_bytes()).filter(|uri| {
        let is_plain = uri.params.as_bytes().is_empty() && uri.headers.is_none();
        is_plain && uri.port.is_none() && uri.scheme == Scheme::Sip
    })?;
    let mut address = Vec::new();
    uri.write_address_of_record(&mut address);
    let address = String::from_utf8(address).ok()?;
    let (username, domain) = address.rsplit_once('@')?;
    let fits = !username.is_empty() && address.len() <= LONGEST;
    fits.then(|| (username.to_owned(), has_domain.then(|| domain.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains() -> Vec<String> {
        vec!["example.org".to_owned(), "example.net".to_owned()]
    }

    #[test]
    fn names_are_taken_as_people_write_them() {
        for (text, expected) in [
            ("+4930123", "+4930123"),
            ("sip:+4930123", "+4930123"),
            ("info@Example.ORG", "info@example.org"),
            ("sip:%69nfo@example.net", "info@example.net"),
        ] {
            let name = AliasName::parse(text, &domains()).expect(text);
            assert_eq!(name.to_string(), expected);
        }
        let name = SubscriberName::parse("sip:alice@example.org", &domains());
        assert_eq!(name.expect("a name").to_string(), "alice@example.org");
    }

    #[test]
    fn what_is_no_name_of_ours_is_refused() {
        for text in [
            "",
            "@example.org",
            "a b",
            "x;y=z@example.org;lr",
            "tel:+49",
            "x@example.org:5060",
        ] {
            let name = AliasName::parse(text, &domains());
            assert_eq!(name, Err(InvalidName::NoAlias), "{text}");
        }
        let name = SubscriberName::parse("alice", &domains());
        assert_eq!(name, Err(InvalidName::NoSubscriber));
        let name = AliasName::parse("x@elsewhere.example", &domains());
        assert!(matches!(name, Err(InvalidName::Foreign(_))));
        let long = "1".repeat(LONGEST);
        assert_eq!(
            AliasName::parse(&long, &domains()),
            Err(InvalidName::NoAlias)
        );
    }
}
