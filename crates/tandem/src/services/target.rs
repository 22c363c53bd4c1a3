//! The targets of call forwarding, as people write them.
use sip_message::{Scheme, Uri};

/// The maximum length of a target, in bytes.
const LONGEST: usize = 512;

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a number, user@domain or a SIP URI, such as +4930123, bob@example.org or sip:box@vm.example.org"
)]
pub(crate) struct InvalidTarget;

/// The SIP URI of a target. A number or a user alone is one in the domain of the subscriber.
pub(crate) fn target_uri(text: &str, domain: &str) -> Result<String, InvalidTarget> {
    let has_scheme = ["sip:", "sips:"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    let user = text.split('@').next().unwrap_or_default();
    if !has_scheme && user.contains(':') {
        return Err(InvalidTarget);
    }
    let uri = match (has_scheme, text.contains('@')) {
        (true, _) => text.to_owned(),
        (false, true) => format!("sip:{text}"),
        (false, false) => format!("sip:{text}@{domain}"),
    };
    let is_allowed = |uri: &Uri<'_>| {
        let is_sip = matches!(uri.scheme, Scheme::Sip | Scheme::Sips);
        is_sip && uri.user.is_some_and(|user| !user.is_empty()) && uri.headers.is_none()
    };
    let fits = uri.len() <= LONGEST && Uri::parse(uri.as_bytes()).as_ref().is_some_and(is_allowed);
    if fits { Ok(uri) } else { Err(InvalidTarget) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_the_domain_of_the_subscriber() {
        for (text, expected) in [
            ("+4930123", "sip:+4930123@example.org"),
            ("bob", "sip:bob@example.org"),
            ("bob@example.net", "sip:bob@example.net"),
            (
                "sips:bob@example.net:5071;transport=tcp",
                "sips:bob@example.net:5071;transport=tcp",
            ),
        ] {
            assert_eq!(target_uri(text, "example.org").as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for text in [
            "",
            "a b",
            "tel:+49",
            "sip:example.org",
            "x@h?Subject=y",
            "x>@h",
            "http://x@y",
        ] {
            assert_eq!(
                target_uri(text, "example.org"),
                Err(InvalidTarget),
                "{text}"
            );
        }
        assert_eq!(target_uri(&"1".repeat(LONGEST), "h"), Err(InvalidTarget));
    }
}
