//! Hosts: names and addresses, distinguished when they are parsed.
use crate::grammar::{any_neighbours, equal, find, is_host_char, split_at, take_while};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host: an address (without brackets) or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// A literal address.
    Address(IpAddr),
    /// A domain name, as received.
    Name(&'a [u8]),
}

impl<'a> Host<'a> {
    /// Parses `host` of RFC 3261 section 25.1: a domain name, an IPv4 address, or an IPv6 address in brackets. `None` for
    /// anything else, including digits and dots that are not an IPv4 address.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match Self::split(bytes)? {
            (host, _, []) => Some(host),
            _ => None,
        }
    }

    /// Parses the host at the beginning. Returns the host, its bytes, and the rest.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8], &'a [u8])> {
        match bytes.first()? {
            b'[' => {
                let close = find(b']', bytes)?;
                let (written, rest) = split_at(bytes, close + 1);
                let address = parse_ipv6(written.get(1..close)?)?;
                Some((Self::Address(IpAddr::V6(address)), written, rest))
            }
            first if first.is_ascii_digit() => {
                let (address, length) = ipv4_at_start(bytes);
                if let Some(address) = address
                    && !bytes.get(length).is_some_and(|&octet| is_host_char(octet))
                {
                    let (written, rest) = split_at(bytes, length);
                    return Some((Self::Address(IpAddr::V4(address)), written, rest));
                }
                let (written, rest) = take_while(bytes, is_host_char);
                // Digits and dots that are not an address are not a name either.
                let is_name = written.len() > length;
                Some((name(written).filter(|_| is_name)?, written, rest))
            }
            _ => {
                let (written, rest) = take_while(bytes, is_host_char);
                Some((name(written)?, written, rest))
            }
        }
    }

    /// Compares hosts: addresses by value, names ignoring case.
    pub fn matches(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Self::Address(ours), Host::Address(theirs)) => ours == theirs,
            (Self::Name(ours), Host::Name(theirs)) => ours.eq_ignore_ascii_case(theirs),
            _ => false,
        }
    }
}

/// Parses a domain name without empty labels. A trailing dot is allowed.
fn name(bytes: &[u8]) -> Option<Host<'_>> {
    let empty_label = any_neighbours(bytes, |first, second| {
        equal(first, b'.') & equal(second, b'.')
    });
    let sound = !empty_label && !matches!(bytes.first(), None | Some(b'.'));
    sound.then_some(Host::Name(bytes))
}

/// Parses four decimal numbers. Numbers with leading zeros are decimal too (`1*3DIGIT`).
pub(crate) fn parse_ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let (address, length) = ipv4_at_start(bytes);
    address.filter(|_| length == bytes.len())
}

/// The length of the digits and dots at the beginning of `bytes`, and the address that they form, if any.
#[inline]
fn ipv4_at_start(bytes: &[u8]) -> (Option<Ipv4Addr>, usize) {
    let (mut address, mut number, mut digits, mut dots) = (0_u32, 0_u32, 0, 0);
    let mut is_sound = true;
    let mut length = 0;
    for &octet in bytes {
        let digit = octet.wrapping_sub(b'0');
        if digit <= 9 {
            number = number.wrapping_mul(10).wrapping_add(u32::from(digit));
            digits += 1;
        } else if octet == b'.' {
            is_sound &= matches!(digits, 1..=3) && number <= 255;
            address = address << 8 | number & 255;
            (number, digits, dots) = (0, 0, dots + 1);
        } else {
            break;
        }
        length += 1;
    }
    is_sound &= matches!(digits, 1..=3) && number <= 255 && dots == 3;
    let address = Ipv4Addr::from_bits(address << 8 | number & 255);
    (is_sound.then_some(address), length)
}

/// Parses an IPv6 address without brackets.
pub(crate) fn parse_ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Parses an address with or without brackets, as in `received` (RFC 5118 section 4.5).
pub(crate) fn parse_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes {
        [b'[', inner @ .., b']'] => parse_ipv6(inner).map(IpAddr::V6),
        _ if bytes.contains(&b':') => parse_ipv6(bytes).map(IpAddr::V6),
        _ => parse_ipv4(bytes).map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_distinguished() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("255.255.255.255", "255.255.255.255"),
            ("010.000.2.09", "10.0.2.9"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[::ffff:192.0.2.1]", "::ffff:192.0.2.1"),
            ("[::]", "::"),
        ] {
            assert_eq!(
                Host::parse(text.as_bytes()),
                Some(Host::Address(address.parse().unwrap())),
                "{text}"
            );
        }
        for name in [
            "example.org",
            "a",
            "example.org.",
            "x_y-z",
            "1und1.example",
            "192.0.2.1.example",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(
                Host::parse(name.as_bytes()),
                Some(Host::Name(name.as_bytes())),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "1.2.3",
            "1.2.3.4.5",
            "256.0.0.1",
            "1.2.3.0004",
            "1..2.3",
            "2001:db8::1",
            "[2001:db8::1",
            "[]",
            "[2001:db8:::1]",
            "[192.0.2.1]",
            "[fe80::1%eth0]",
            "[::1]x",
            "a b",
            "a@b",
            "b\u{fc}cher.example",
            "a/b",
        ] {
            assert_eq!(Host::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn hosts_match_by_value_and_without_case() {
        let host = |text: &'static str| Host::parse(text.as_bytes()).unwrap();
        assert!(host("Example.ORG").matches(&host("example.org")));
        assert!(host("[2001:db8:0::1]").matches(&host("[2001:DB8::1]")));
        assert!(!host("192.0.2.1").matches(&host("[::ffff:192.0.2.1]")));
        assert!(!host("192.0.2.1").matches(&host("example.org")));
    }
}
