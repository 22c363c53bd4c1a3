//! Compares URIs, and writes the key of an address of record (RFC 3261 sections 19.1.4 and 10.3).
use crate::grammar::{find, is_plain_in_user, split_at};
use crate::write::push_address;
use crate::{Host, Params, Scheme, Uri};

/// Maximum number of parameters or headers that are compared in any order. A URI with more of them equals only an identical one.
/// Otherwise, comparing each with each would let a peer cause much work with few bytes.
const MAX_COMPARED: usize = 32;

impl Uri<'_> {
    /// Equality of RFC 3261 section 19.1.4, including its rules for escapes and case. URIs of schemes other than sip and sips are
    /// compared byte by byte; the scheme ignores case.
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

    /// Appends the key of an address of record (RFC 3261 section 10.3 step 5): `user@host` in canonical form, or `host` if there
    /// is no user. The user is unescaped where that is safe, the host is in lower case, and there is no port and no parameter.
    /// All characters that are not allowed unescaped in a user part (`%00`, `%40`) are escaped, so that different users never
    /// share a key. Literal addresses have one spelling. URIs of other schemes are appended unchanged.
    pub fn write_address_of_record(&self, into: &mut Vec<u8>) {
        if !matches!(self.scheme, Scheme::Sip | Scheme::Sips) {
            into.extend_from_slice(self.bytes);
            return;
        }
        if let Some(user) = self.user {
            write_user(user, into);
            into.push(b'@');
        }
        match self.host {
            Host::Name(name) => into.extend(name.iter().map(u8::to_ascii_lowercase)),
            Host::Address(address) if address.is_ipv6() => {
                into.push(b'[');
                push_address(into, address);
                into.push(b']');
            }
            Host::Address(address) => push_address(into, address),
        }
    }
}

impl Uri<'_> {
    /// Appends a canonical form of the parts that decide where a request to this URI goes: scheme, user, host, port, `transport`,
    /// `maddr`. Other parameters do not count. Neither does `transport=udp`, or the default port of an address for its transport
    /// (RFC 3263 section 4.2), because these are the defaults. So some URIs have the same target but are not equal by RFC 3261
    /// section 19.1.4. URIs of other schemes are appended unchanged.
    pub fn write_target(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(match self.scheme {
            Scheme::Sip => &b"sip:"[..],
            Scheme::Sips => b"sips:",
            _ => return into.extend_from_slice(self.bytes),
        });
        self.write_address_of_record(into);
        let transport = self.params.value(b"transport");
        let assumed = match self.host {
            Host::Address(_) => default_port(self.scheme == Scheme::Sips, transport),
            // A name without a port needs a different lookup (RFC 3263 section 4.2).
            Host::Name(_) => None,
        };
        if let Some(port) = self.port.filter(|port| Some(*port) != assumed) {
            into.push(b':');
            into.extend_from_slice(&port.to_be_bytes());
        }
        let mut push = |name: &[u8], value: &[u8]| {
            into.push(b';');
            into.extend_from_slice(name);
            into.extend(value.iter().map(u8::to_ascii_lowercase));
        };
        if let Some(transport) = transport.filter(|it| !it.eq_ignore_ascii_case(b"udp")) {
            push(b"transport=", transport);
        }
        if let Some(maddr) = self.params.value(b"maddr") {
            push(b"maddr=", maddr);
        }
    }
}

/// The default port of a URI; `None` for an unknown transport.
fn default_port(is_secure: bool, transport: Option<&[u8]>) -> Option<u16> {
    let is = |name: &[u8]| transport.is_some_and(|transport| transport.eq_ignore_ascii_case(name));
    match transport {
        None if is_secure => Some(5061),
        Some(_) if is(b"tls") || is_secure && is(b"tcp") => Some(5061),
        Some(_) if is_secure && (is(b"ws") || is(b"wss")) => Some(443),
        Some(_) if is_secure => None,
        None => Some(5060),
        Some(_) if is(b"udp") || is(b"tcp") => Some(5060),
        Some(_) if is(b"ws") => Some(80),
        Some(_) if is(b"wss") => Some(443),
        Some(_) => None,
    }
}

/// Escapes every character that is not allowed unescaped, and no others: each user has one spelling.
fn write_user(user: &[u8], into: &mut Vec<u8>) {
    for (octet, _) in Unescaped(user) {
        if is_plain_in_user(octet) {
            into.push(octet);
        } else {
            into.extend([b'%', hex_digit(octet >> 4), hex_digit(octet & 15)]);
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

/// The bytes after the first colon.
fn behind_scheme(uri: &[u8]) -> &[u8] {
    let colon = find(b':', uri).unwrap_or(uri.len());
    split_at(uri, colon).1
}

/// Iterates over the unescaped bytes of a URI component. The flag says whether a byte was escaped.
struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = (u8, bool);

    fn next(&mut self) -> Option<(u8, bool)> {
        let (&first, rest) = self.0.split_first()?;
        if let (b'%', [high, low, behind @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low))
        {
            self.0 = behind;
            return Some((high << 4 | low, true));
        }
        self.0 = rest;
        Some((first, false))
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// Compares components. An escaped character equals the plain one unless it is reserved (RFC 2396 section 2.2). For reserved
/// characters, the escape has a different meaning.
fn equal_component(ours: &[u8], theirs: &[u8], ignore_case: bool) -> bool {
    let canonical = |(octet, escaped): (u8, bool)| {
        let significant = escaped && is_reserved(octet);
        (
            if ignore_case {
                octet.to_ascii_lowercase()
            } else {
                octet
            },
            significant,
        )
    };
    Unescaped(ours)
        .map(canonical)
        .eq(Unescaped(theirs).map(canonical))
}

fn is_reserved(octet: u8) -> bool {
    matches!(
        octet,
        b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b','
    )
}

fn equal_option(ours: Option<&[u8]>, theirs: Option<&[u8]>, ignore_case: bool) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => equal_component(ours, theirs, ignore_case),
        (None, None) => true,
        _ => false,
    }
}

/// A parameter that both URIs have must be equal. user, ttl, method and maddr must be in both or in none. Other parameters that
/// only one URI has do not count. `transport` in only one URI makes them differ, because a URI without it leaves the choice open.
fn equal_params(ours: &Params<'_>, theirs: &Params<'_>) -> bool {
    let covers = |one: &Params<'_>, other: &Params<'_>| {
        one.iter().all(|(name, value)| {
            let mut same_name = other
                .iter()
                .filter(|(other, _)| equal_component(other, name, true))
                .peekable();
            match same_name.peek() {
                Some(_) => same_name.any(|(_, other)| equal_option(value, other, true)),
                None => !is_significant(name),
            }
        })
    };
    if ours.iter().count().max(theirs.iter().count()) > MAX_COMPARED {
        return ours.as_bytes() == theirs.as_bytes();
    }
    covers(ours, theirs) && covers(theirs, ours)
}

fn is_significant(name: &[u8]) -> bool {
    [&b"user"[..], b"ttl", b"method", b"maddr", b"transport"]
        .iter()
        .any(|other| equal_component(name, other, true))
}

/// Every header of one URI must be in the other, in any order.
fn equal_headers(ours: Option<&[u8]>, theirs: Option<&[u8]>) -> bool {
    let covers = |one: &[u8], other: &[u8]| {
        headers(one).all(|(name, value)| {
            headers(other).any(|(other, found)| {
                equal_component(name, other, true) && equal_component(value, found, false)
            })
        })
    };
    let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
    match headers(ours).count() {
        count if count != headers(theirs).count() => false,
        count if count > MAX_COMPARED => ours == theirs,
        _ => covers(ours, theirs) && covers(theirs, ours),
    }
}

/// `name=value` pairs separated by `&`.
fn headers(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    bytes
        .split(|&octet| octet == b'&')
        .filter(|header| !header.is_empty())
        .map(|header| {
            let equals = find(b'=', header).unwrap_or(header.len());
            let (name, value) = split_at(header, equals);
            (name, value.get(1..).unwrap_or_default())
        })
}

#[cfg(test)]
mod tests {
    use crate::Uri;

    fn equivalent(one: &str, other: &str) -> bool {
        let (one, other) = (
            Uri::parse(one.as_bytes()).unwrap(),
            Uri::parse(other.as_bytes()).unwrap(),
        );
        assert_eq!(
            one.equivalent(&other),
            other.equivalent(&one),
            "not symmetric"
        );
        one.equivalent(&other)
    }

    fn address_of_record(uri: &str) -> String {
        let mut key = Vec::new();
        Uri::parse(uri.as_bytes())
            .unwrap()
            .write_address_of_record(&mut key);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn the_equivalent_uris_of_section_19_1_4_are() {
        for (one, other) in [
            (
                "sip:%61lice@atlanta.com;transport=TCP",
                "sip:alice@AtLanTa.CoM;Transport=tcp",
            ),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
            (
                "sip:carol@chicago.com;newparam=5",
                "sip:carol@chicago.com;security=on",
            ),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
        ] {
            assert!(equivalent(one, other), "{one} {other}");
        }
    }

    #[test]
    fn the_different_uris_of_section_19_1_4_are_not() {
        for (one, other) in [
            (
                "SIP:ALICE@AtLanTa.CoM;Transport=udp",
                "sip:alice@AtLanTa.CoM;Transport=UDP",
            ),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            (
                "sip:bob@biloxi.com",
                "sip:bob@biloxi.com:6000;transport=tcp",
            ),
            (
                "sip:carol@chicago.com",
                "sip:carol@chicago.com?Subject=next%20meeting",
            ),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ] {
            assert!(!equivalent(one, other), "{one} {other}");
        }
    }

    #[test]
    fn components_are_compared_by_their_own_rules() {
        for (one, other, expected) in [
            ("sip:a@h", "sips:a@h", false),
            ("sip:a:x@h", "sip:a@h", false),
            ("sip:a:x@h", "sip:a:X@h", false),
            ("sip:a@h", "sip:h", false),
            ("sip:a%3Bb@h", "sip:a;b@h", false),
            ("sip:a%3bb@h", "sip:a%3Bb@h", true),
            ("sip:%00@h", "sip:%00%00@h", false),
            ("sip:a#b@h", "sip:a%23b@h", true),
            ("sip:a@h;maddr=x", "sip:a@h", false),
            ("sip:a@h;ttl=1", "sip:a@h;ttl=2", false),
            ("sip:a@h;lr", "sip:a@h;lr=on", false),
            ("sip:a@h;x=%41", "sip:a@h;X=a", true),
            ("sip:a@[2001:db8:0::1]", "sip:a@[2001:DB8::1]", true),
            ("sip:h?a=1&a=2", "sip:h?a=2&a=1", true),
            ("sip:h?a=1", "sip:h?a=1&b=2", false),
            ("sip:h;a=1;a=2", "sip:h;a=2;a=1", true),
            ("sip:h;a=1;a=2", "sip:h;a=1;a=1", false),
            ("tel:+123", "TEL:+123", true),
            ("tel:+123", "tel:+124", false),
            ("urn:service:sos", "URN:service:sos", true),
            ("urn:x", "tel:x", false),
        ] {
            assert_eq!(equivalent(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn long_lists_are_compared_as_written() {
        for (start, separator) in [(";", ";"), ("?", "&")] {
            let uri = |items: &[String]| format!("sip:h{start}{}", items.join(separator));
            let mut up: Vec<String> = (0..32).map(|number| format!("p{number}=1")).collect();
            let mut down: Vec<String> = up.iter().rev().cloned().collect();
            assert!(equivalent(&uri(&up), &uri(&down)));
            up.push("last=1".to_owned());
            down.insert(0, "last=1".to_owned());
            assert!(!equivalent(&uri(&up), &uri(&down)));
            assert!(equivalent(&uri(&up), &uri(&up)));
        }
    }

    #[test]
    fn an_address_of_record_has_one_key_whatever_its_spelling() {
        for (uri, key) in [
            ("sip:alice@Example.ORG", "alice@example.org"),
            (
                "sips:alice:pw@example.org:5061;transport=tcp?a=b",
                "alice@example.org",
            ),
            ("sip:%61lice@example.org", "alice@example.org"),
            ("sip:Alice@example.org", "Alice@example.org"),
            ("sip:+1%2B2@example.org", "+1+2@example.org"),
            ("sip:a#b@example.org", "a%23b@example.org"),
            ("sip:a%23b@example.org", "a%23b@example.org"),
            ("sip:a%40b@example.org", "a%40b@example.org"),
            ("sip:null-%00-null@example.org", "null-%00-null@example.org"),
            ("sip:example.org", "example.org"),
            ("sip:a@[2001:DB8:0::1]:5060", "a@[2001:db8::1]"),
            ("sip:a@010.0.0.1", "a@10.0.0.1"),
            ("tel:+1-201", "tel:+1-201"),
            ("urn:service:Sos", "urn:service:Sos"),
        ] {
            assert_eq!(address_of_record(uri), key, "{uri}");
        }
    }

    #[test]
    fn users_that_differ_have_keys_that_differ() {
        let keys = [
            "sip:%00@h",
            "sip:%00%00@h",
            "sip:%2500@h",
            "sip:a@h",
            "sip:A@h",
            "sip:a%40h@h",
            "sip:a%25@h",
        ]
        .map(address_of_record);
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[index + 1..].contains(key), "{key}");
        }
    }
}
