//! Hosts: names and addresses, told apart once.
use crate::grammar::{is_host_char, parse_u32};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host: an address or a name, never confused (brackets are gone).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// A literal address.
    Address(IpAddr),
    /// A domain name, as written.
    Name(&'a [u8]),
}

impl<'a> Host<'a> {
    /// Parses `host` of RFC 3261 section 25.1: a domain name, an IPv4 address, an IPv6 address in brackets.
    /// `None` for anything else; what ends in a number but is no IPv4 address is no name either.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes {
            [] => None,
            [b'[', inner @ .., b']'] => {
                parse_ipv6(inner).map(|address| Self::Address(IpAddr::V6(address)))
            }
            [.., last]
                if last.is_ascii_digit()
                    && bytes
                        .iter()
                        .all(|&octet| octet.is_ascii_digit() || octet == b'.') =>
            {
                parse_ipv4(bytes).map(|address| Self::Address(IpAddr::V4(address)))
            }
            _ => is_name(bytes).then_some(Self::Name(bytes)),
        }
    }

    /// Equality of hosts: addresses by value, names without case.
    pub fn matches(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Self::Address(ours), Host::Address(theirs)) => ours == theirs,
            (Self::Name(ours), Host::Name(theirs)) => ours.eq_ignore_ascii_case(theirs),
            _ => false,
        }
    }
}

/// A domain name without empty labels; a dot at the end is fine.
fn is_name(bytes: &[u8]) -> bool {
    let mut previous = b'.';
    for &octet in bytes {
        if !is_host_char(octet) || (octet == b'.' && previous == b'.') {
            return false;
        }
        previous = octet;
    }
    true
}

/// Four decimal numbers. Leading zeros are decimal too (`1*3DIGIT`).
pub(crate) fn parse_ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = bytes.split(|&octet| octet == b'.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() <= 3)?;
        *octet = u8::try_from(parse_u32(part)?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// An IPv6 address without brackets.
pub(crate) fn parse_ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// An address with or without brackets, as `received` carries it (RFC 5118 section 4.5).
pub(crate) fn parse_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes {
        [b'[', inner @ .., b']'] => parse_ipv6(inner).map(IpAddr::V6),
        _ if bytes.contains(&b':') => parse_ipv6(bytes).map(IpAddr::V6),
        _ => parse_ipv4(bytes).map(IpAddr::V4),
    }
}
