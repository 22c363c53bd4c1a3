//! What is wrong with the rewriting of a gateway.

use super::identity::{CallerIdentity, CallerSource};
use super::rewriting::Rewriting;
use crate::numbering::NumberFormat;
use crate::rule::is_prefix;
use sip_message::Host;

/// The maximum number of characters that are removed from a called number.
const MAX_STRIP: u8 = 32;
/// The digits of a number in the international form (E.164 section 6.2.1).
const E164_DIGITS: std::ops::RangeInclusive<usize> = 3..=15;

/// What is wrong with the rewriting of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewritingProblem {
    /// Too many characters to remove.
    #[error("{strip} characters are to be removed; allowed: up to {MAX_STRIP}")]
    Strip {
        /// How many.
        strip: u8,
    },
    /// A prefix that is no part of a number.
    #[error("the prefix is \"{prefix}\"; allowed: up to 32 letters, digits, + and *")]
    Prefix {
        /// The prefix.
        prefix: Box<str>,
    },
    /// A number of the trunk that is not in the international form.
    #[error(
        "the number of the trunk is \"{number}\"; write it in the international form, such as +4930123400"
    )]
    Number {
        /// The number.
        number: Box<str>,
    },
    /// The number of the trunk is to be sent, and there is none.
    #[error("`caller = \"trunk\"` requires `caller_number`")]
    NoNumber,
    /// The host of the identity is no host.
    #[error("the domain of the caller is \"{domain}\"; write a domain name or an address")]
    Domain {
        /// The domain.
        domain: Box<str>,
    },
    /// A format that needs the country code.
    #[error("`{key}` requires `country_code` in [numbering]")]
    NoCountryCode {
        /// The key.
        key: &'static str,
    },
}

impl RewritingProblem {
    /// The key of the gateway that it is about.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Strip { .. } => "strip",
            Self::Prefix { .. } => "prefix",
            Self::Number { .. } => "caller_number",
            Self::NoNumber => "caller",
            Self::Domain { .. } => "caller_domain",
            Self::NoCountryCode { key } => key,
        }
    }
}

pub(super) fn check_rewriting(rewriting: &Rewriting) -> Result<(), RewritingProblem> {
    let Rewriting {
        plan,
        called,
        caller,
    } = rewriting;
    if called.strip > MAX_STRIP {
        let strip = called.strip;
        return Err(RewritingProblem::Strip { strip });
    }
    if !called.prefix.is_empty() && !is_prefix(&called.prefix) {
        let prefix = called.prefix.clone();
        return Err(RewritingProblem::Prefix { prefix });
    }
    check_caller(caller)?;
    for (key, format) in [
        ("called_format", called.format),
        ("caller_format", caller.format),
    ] {
        if format != NumberFormat::Unchanged && plan.country_code.is_empty() {
            return Err(RewritingProblem::NoCountryCode { key });
        }
    }
    Ok(())
}

fn check_caller(caller: &CallerIdentity) -> Result<(), RewritingProblem> {
    if let Some(number) = caller.number.as_deref().filter(|number| !is_e164(number)) {
        let number = number.into();
        return Err(RewritingProblem::Number { number });
    }
    if caller.source == CallerSource::Trunk && caller.number.is_none() {
        return Err(RewritingProblem::NoNumber);
    }
    if let Some(domain) = caller.domain.as_deref()
        && Host::parse(domain.as_bytes()).is_none()
    {
        let domain = domain.into();
        return Err(RewritingProblem::Domain { domain });
    }
    Ok(())
}

fn is_e164(number: &str) -> bool {
    let digits = number.strip_prefix('+').unwrap_or_default();
    E164_DIGITS.contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|octet| octet.is_ascii_digit())
}
