//! When are two URIs the same, and under which key is an address of record found (RFC 3261 sections 19.1.4 and 10.3)?
use crate::grammar::{is_plain_in_user, is_unreserved, split_at};
use crate::{Params, Scheme, Uri};

impl Uri<'_> {
    /// Equality of RFC 3261 section 19.1.4, escapes and case included. Other schemes than sip and sips are compared octet by
    /// octet, the scheme without case.
    pub fn equivalent(&self, other: &Uri<'_>) -> bool {
        match (self.scheme, other.scheme) {
            (Scheme::Sip, Scheme::Sip) | (Scheme::Sips, Scheme::Sips) => {}
            (Scheme::Tel, Scheme::Tel) => {
                return behind_scheme(self.bytes) == behind_scheme(other.bytes);
            }
            (Scheme::Other(ours), Scheme::Other(theirs)) => {
                return ours.eq_ignore_ascii_case(theirs)
                    && behind_scheme(self.bytes) == behind_scheme(other.bytes);
            }
            _ => return false,
        }
        equal_option(self.user, other.user, false)
            && equal_option(self.password, other.password, false)
            && self.host.matches(&other.host)
            && self.port == other.port
            && equal_params(&self.params, &other.params)
            && equal_headers(self.headers, other.headers)
    }

    /// Appends `user@host` in canonical form (user unescaped where that is safe, host in lower case, no port, no parameters):
    /// the key of an address of record (RFC 3261 section 10.3 step 5). Without user: `host`. Escapes of characters that
    /// may stand in a user part unescaped are resolved, others (`%00`, `%40`) stay, with upper-case digits, so that two users
    /// that differ never meet under one key. URIs of other schemes are appended as they are.
    pub fn write_address_of_record(&self, into: &mut Vec<u8>) {
        if !matches!(self.scheme, Scheme::Sip | Scheme::Sips) {
            into.extend_from_slice(self.bytes);
            return;
        }
        if let Some(user) = self.user {
            write_user(user, into);
            into.push(b'@');
        }
        let host = into.len();
        into.extend_from_slice(self.host_bytes);
        if let Some(host) = into.get_mut(host..) {
            host.make_ascii_lowercase();
        }
    }
}

fn write_user(user: &[u8], into: &mut Vec<u8>) {
    for octet in Escaped(user) {
        match octet {
            Octet::Plain(octet) => into.push(octet),
            Octet::Escaped(octet) if is_plain_in_user(octet) => into.push(octet),
            Octet::Escaped(octet) => {
                into.extend([b'%', hex_digit(octet >> 4), hex_digit(octet & 15)]);
            }
        }
    }
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'A' + nibble - 10
    }
}

/// The bytes behind the first colon.
fn behind_scheme(uri: &[u8]) -> &[u8] {
    let colon = memchr::memchr(b':', uri).unwrap_or(uri.len());
    split_at(uri, colon).1
}

/// An octet of a URI component: `%41` and `A` are told apart only where that matters.
#[derive(Clone, Copy)]
enum Octet {
    Plain(u8),
    Escaped(u8),
}

/// The octets of a URI component with escapes resolved.
struct Escaped<'a>(&'a [u8]);

impl Iterator for Escaped<'_> {
    type Item = Octet;

    fn next(&mut self) -> Option<Octet> {
        let (&first, rest) = self.0.split_first()?;
        if let (b'%', [high, low, behind @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low))
        {
            self.0 = behind;
            return Some(Octet::Escaped(high << 4 | low));
        }
        self.0 = rest;
        Some(Octet::Plain(first))
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// Equality of components: an escaped character equals the plain one unless it is reserved, in which case the escape means
/// something else than the character.
fn equal_component(ours: &[u8], theirs: &[u8], ignore_case: bool) -> bool {
    let canonical = |octet: Octet| {
        let (octet, escaped) = match octet {
            Octet::Plain(octet) => (octet, false),
            Octet::Escaped(octet) => (octet, !is_unreserved(octet)),
        };
        (
            if ignore_case {
                octet.to_ascii_lowercase()
            } else {
                octet
            },
            escaped,
        )
    };
    Escaped(ours)
        .map(canonical)
        .eq(Escaped(theirs).map(canonical))
}

fn equal_option(ours: Option<&[u8]>, theirs: Option<&[u8]>, ignore_case: bool) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => equal_component(ours, theirs, ignore_case),
        (None, None) => true,
        _ => false,
    }
}

/// A parameter in both must be equal; user, ttl, method and maddr must be in both or in none; others in one only do not count.
/// `transport` in one only makes URIs differ, as a URI without it leaves the choice open.
fn equal_params(ours: &Params<'_>, theirs: &Params<'_>) -> bool {
    let covers = |one: &Params<'_>, other: &Params<'_>| {
        one.iter().all(|(name, value)| match find(other, name) {
            Some(found) => equal_option(value, found, true),
            None => !is_significant(name),
        })
    };
    covers(ours, theirs) && covers(theirs, ours)
}

#[expect(
    clippy::option_option,
    reason = "as in Params::find: a parameter without value is there"
)]
fn find<'a>(params: &Params<'a>, name: &[u8]) -> Option<Option<&'a [u8]>> {
    params
        .iter()
        .find(|(other, _)| equal_component(other, name, true))
        .map(|(_, value)| value)
}

fn is_significant(name: &[u8]) -> bool {
    [&b"user"[..], b"ttl", b"method", b"maddr", b"transport"]
        .iter()
        .any(|other| equal_component(name, other, true))
}

/// Every header of one must be in the other, whatever the order.
fn equal_headers(ours: Option<&[u8]>, theirs: Option<&[u8]>) -> bool {
    let covers = |one: &[u8], other: &[u8]| {
        headers(one).all(|(name, value)| {
            headers(other).any(|(other, found)| {
                equal_component(name, other, true) && equal_component(value, found, false)
            })
        })
    };
    let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
    headers(ours).count() == headers(theirs).count() && covers(ours, theirs) && covers(theirs, ours)
}

/// `name=value` pairs separated by `&`.
fn headers(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    bytes
        .split(|&octet| octet == b'&')
        .filter(|header| !header.is_empty())
        .map(|header| {
            let equals = memchr::memchr(b'=', header).unwrap_or(header.len());
            let (name, value) = split_at(header, equals);
            (name, value.get(1..).unwrap_or_default())
        })
}
