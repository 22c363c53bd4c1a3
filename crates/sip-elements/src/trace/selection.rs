//! Which messages a trace is about.

use sip_message::{HeaderName, Message, NameAddr, Scheme, Uri};

/// Contacts of one message that are compared.
const MAX_CONTACTS: usize = 16;

/// The subject of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One call, or one registration of a phone: the messages with this Call-ID.
    Call(Box<[u8]>),
    /// One user: messages that name the user in the Request-URI, From, To or Contact.
    User {
        /// `user@domain` in canonical form ([`Uri::write_address_of_record`]); `user@` for any domain.
        key: Box<[u8]>,
        /// Whether the domain does not matter.
        any_domain: bool,
    },
}

impl Selection {
    /// The calls of a user: `alice@example.org`, a `sip:`, `sips:` or `tel:` URI, or `alice` in any domain. `None`: it is none of
    /// these.
    pub fn user(text: &str) -> Option<Self> {
        let is_tel = text
            .get(..4)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("tel:"));
        let has_scheme = ["sip:", "sips:"].iter().any(|scheme| {
            let begin = text.get(..scheme.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        let any_domain = is_tel || !text.contains('@');
        let uri = if is_tel {
            format!("sip:{}@any", text.get(4..)?)
        } else if has_scheme {
            text.to_owned()
        } else if any_domain {
            format!("sip:{text}@any")
        } else {
            format!("sip:{text}")
        };
        let uri = Uri::parse(uri.as_bytes()).filter(|uri| uri.user.is_some())?;
        let mut key = Vec::new();
        uri.write_address_of_record(&mut key);
        if any_domain {
            let at = key.iter().position(|octet| *octet == b'@')?;
            key.truncate(at + 1);
        }
        Some(Self::User {
            key: key.into(),
            any_domain,
        })
    }

    /// Whether a message names the subject itself. `scratch` is a buffer.
    pub(super) fn names(&self, message: &Message<'_>, scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Call(call_id) => message.call_id() == Some(&**call_id),
            Self::User { key, any_domain } => {
                let mut is = |uri: &Uri<'_>| is_user(uri, key, *any_domain, scratch);
                message.uri().is_some_and(&mut is)
                    || message.from_uri().is_some_and(&mut is)
                    || message.to_uri().is_some_and(&mut is)
                    || message
                        .values(HeaderName::Contact)
                        .take(MAX_CONTACTS)
                        .filter_map(|contact| NameAddr::parse(contact)?.uri())
                        .any(|uri| is(&uri))
            }
        }
    }

    /// Whether this is a URI of the user. `scratch` is a buffer.
    pub(crate) fn is_uri(&self, uri: &[u8], scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Call(_) => false,
            Self::User { key, any_domain } => {
                Uri::parse(uri).is_some_and(|uri| is_user(&uri, key, *any_domain, scratch))
            }
        }
    }

    /// Whether this subscriber (`user@domain`) is the user.
    pub(crate) fn is_subscriber(&self, subscriber: &[u8]) -> bool {
        match self {
            Self::Call(_) => false,
            Self::User { key, any_domain } if *any_domain => subscriber.starts_with(key),
            Self::User { key, .. } => subscriber == &**key,
        }
    }
}

fn is_user(uri: &Uri<'_>, key: &[u8], any_domain: bool, scratch: &mut Vec<u8>) -> bool {
    match (uri.scheme, uri.user) {
        (Scheme::Tel, Some(number)) => any_domain && key.strip_suffix(b"@") == Some(number),
        (Scheme::Sip | Scheme::Sips, Some(_)) => {
            scratch.clear();
            uri.write_address_of_record(scratch);
            if any_domain {
                scratch.starts_with(key)
            } else {
                scratch.as_slice() == key
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use sip_message::Message;

    /// Whether `selected` is about a request with this Request-URI, From, To and Contact.
    fn check(selected: &str, [uri, from, to, contact]: [&str; 4], expected: bool) {
        let text = format!(
            "INVITE {uri} SIP/2.0\r\nFrom: <{from}>;tag=1\r\nTo: {to}\r\nContact: {contact}\r\nCall-ID: c\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes()).expect("a message");
        let selection = Selection::user(selected).expect(selected);
        let named = selection.names(&message, &mut Vec::new());
        assert_eq!(named, expected, "{selected}: {text}");
    }

    #[test]
    fn a_user_is_found_wherever_a_message_names_it() {
        let other = "sip:x@example.net";
        let alice = "sip:alice@example.org";
        for (uris, expected) in [
            ([alice, other, other, other], true),
            ([other, alice, other, other], true),
            (
                [
                    other,
                    other,
                    "\"A\" <sips:alice@EXAMPLE.org:5061>;tag=2",
                    other,
                ],
                true,
            ),
            (
                [
                    other,
                    other,
                    other,
                    "<sip:x@192.0.2.1>, <sip:alic%65@example.org;ob>",
                ],
                true,
            ),
            ([other, other, other, "<sip:alice@192.0.2.1>"], false),
            (
                [
                    other,
                    "sip:malice@example.org",
                    "<sip:alice@example.organic>",
                    other,
                ],
                false,
            ),
            ([other, "sip:ALICE@example.org", other, "*"], false),
            (
                ["urn:service:sos", "sip:example.org", "<sip:alice@", "<"],
                false,
            ),
        ] {
            for selected in [
                "alice@example.org",
                "sip:alice@example.org",
                "SIPS:alice@Example.ORG",
            ] {
                check(selected, uris, expected);
            }
        }
    }

    #[test]
    fn without_a_domain_the_user_is_found_in_any_and_a_number_in_every_kind_of_uri() {
        let other = "sip:x@example.net";
        check(
            "alice",
            [other, other, other, "<sip:alice@192.0.2.1>"],
            true,
        );
        check(
            "alice",
            [other, "sip:alice2@example.org", other, other],
            false,
        );
        check("alice", [other, "sip:alice", other, other], false);
        for selected in ["+4930123", "tel:+4930123"] {
            check(selected, ["tel:+4930123", other, other, other], true);
            check(
                selected,
                [
                    "sip:+4930123@trunk.example.net;user=phone",
                    other,
                    other,
                    other,
                ],
                true,
            );
            check(selected, ["tel:+49301234", other, other, other], false);
        }
    }

    #[test]
    fn what_names_no_user_is_refused() {
        for text in [
            "",
            "@",
            "@example.org",
            "sip:example.org",
            "tel:",
            "a b",
            "alice@",
            "\u{1b}[2J",
        ] {
            assert_eq!(Selection::user(text), None, "{text:?}");
        }
    }
}
