//! STUN keep-alives (RFC 5626 section 4.4.2, RFC 8489): Binding requests on the SIP port are answered with their source address.
//!
//! There is no authentication (RFC 5626 section 8) and no state. The amplification for a forged source address is low: a response
//! is at most two and a half times as long as its request.
use std::net::{IpAddr, SocketAddr};

const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const HEADER: usize = 20;

const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;

const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const FINGERPRINT: u16 = 0x8028;
/// Receivers may ignore unknown attributes from here on.
const COMPREHENSION_OPTIONAL: u16 = 0x8000;
/// Attributes of RFC 8489 that a receiver must understand. They have no meaning in a request without authentication.
const UNDERSTOOD: [u16; 11] = [
    0x0001, 0x0006, 0x0008, 0x0009, 0x000a, 0x0014, 0x0015, 0x001c, 0x001d, 0x001e, 0x0020,
];

/// Status code 420 as class and number, and its reason phrase.
const UNKNOWN_ATTRIBUTE: &[u8] = b"\0\0\x04\x14Unknown Attribute";
const FINGERPRINT_XOR: u32 = 0x5354_554e;

/// Whether a datagram is STUN. SIP never begins like this.
pub fn is_stun(datagram: &[u8]) -> bool {
    matches!(datagram, [0..=0x3f, _, _, _, cookie @ ..] if cookie.starts_with(&MAGIC_COOKIE))
        && datagram.len() >= HEADER
}

/// A Binding request.
#[derive(Clone, Copy, Debug)]
pub struct BindingRequest<'a> {
    transaction: [u8; 12],
    attributes: &'a [u8],
    has_fingerprint: bool,
}

impl<'a> BindingRequest<'a> {
    /// Parses a datagram. `None` for everything that gets no response: indications, responses, other methods, malformed requests,
    /// and those with a wrong FINGERPRINT (RFC 8489 section 6.3).
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        if !is_stun(datagram) {
            return None;
        }
        let (&[kind @ .., high, low], rest) = datagram.split_first_chunk::<4>()?;
        let (transaction, attributes) = rest.get(4..)?.split_first_chunk::<12>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if u16::from_be_bytes(kind) != BINDING_REQUEST || length != attributes.len() {
            return None;
        }
        let mut has_fingerprint = false;
        let mut left = Attributes(attributes);
        while let Some(attribute) = left.next() {
            if attribute.kind == FINGERPRINT {
                let covered = datagram.get(..datagram.len().checked_sub(8)?)?;
                // It must be the last attribute (section 14.7). Checking this first limits the work to one checksum.
                if !left.0.is_empty() || attribute.value != fingerprint(covered) {
                    return None;
                }
                has_fingerprint = true;
            }
        }
        left.0.is_empty().then_some(Self {
            transaction: *transaction,
            attributes,
            has_fingerprint,
        })
    }

    /// Writes the response: the source address, or 420 with the unknown attributes that must be understood.
    pub fn write_response(&self, response: &mut Vec<u8>, source: SocketAddr) {
        let start = response.len();
        let kind = if self.unknown().next().is_none() {
            BINDING_SUCCESS
        } else {
            BINDING_ERROR
        };
        response.extend_from_slice(&kind.to_be_bytes());
        response.extend_from_slice(&[0, 0]);
        response.extend_from_slice(&MAGIC_COOKIE);
        response.extend_from_slice(&self.transaction);
        if kind == BINDING_SUCCESS {
            self.write_address(response, source);
        } else {
            write_attribute(response, ERROR_CODE, |into| {
                into.extend_from_slice(UNKNOWN_ATTRIBUTE);
            });
            write_attribute(response, UNKNOWN_ATTRIBUTES, |into| {
                into.extend(self.unknown().flat_map(u16::to_be_bytes));
            });
        }
        if self.has_fingerprint {
            set_length(response, start, 8);
            let value = fingerprint(response.get(start..).unwrap_or_default());
            write_attribute(response, FINGERPRINT, |into| {
                into.extend_from_slice(&value);
            });
        }
        set_length(response, start, 0);
    }

    /// Unknown attributes that must be understood.
    fn unknown(&self) -> impl Iterator<Item = u16> {
        Attributes(self.attributes)
            .map(|attribute| attribute.kind)
            .filter(|kind| *kind < COMPREHENSION_OPTIONAL && !UNDERSTOOD.contains(kind))
    }

    /// XOR-MAPPED-ADDRESS (RFC 8489 section 14.2). The XOR hides the address from routers that rewrite every address they find.
    fn write_address(&self, response: &mut Vec<u8>, source: SocketAddr) {
        let pad = MAGIC_COOKIE.into_iter().chain(self.transaction);
        let port = source.port().to_be_bytes();
        let port = port.into_iter().zip(MAGIC_COOKIE).map(|(a, b)| a ^ b);
        write_attribute(response, XOR_MAPPED_ADDRESS, |into| {
            match source.ip().to_canonical() {
                IpAddr::V4(address) => {
                    into.extend_from_slice(&[0, 1]);
                    into.extend(port);
                    into.extend(address.octets().into_iter().zip(pad).map(|(a, b)| a ^ b));
                }
                IpAddr::V6(address) => {
                    into.extend_from_slice(&[0, 2]);
                    into.extend(port);
                    into.extend(address.octets().into_iter().zip(pad).map(|(a, b)| a ^ b));
                }
            }
        });
    }
}

struct Attribute<'a> {
    kind: u16,
    value: &'a [u8],
}

/// Iterates over the attributes. Stops at the first malformed one, and leaves it.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let (&[kind @ .., high, low], rest) = self.0.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let value = rest.get(..length)?;
        self.0 = rest.get(length.next_multiple_of(4)..)?;
        Some(Attribute {
            kind: u16::from_be_bytes(kind),
            value,
        })
    }
}

/// Writes one attribute, padded to 4 bytes.
fn write_attribute(into: &mut Vec<u8>, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
    into.extend_from_slice(&kind.to_be_bytes());
    let place = into.len();
    into.extend_from_slice(&[0, 0]);
    write(into);
    let length = into.len() - place - 2;
    put(into, place, length);
    into.resize(into.len() + length.next_multiple_of(4) - length, 0);
}

/// Sets the length in the header of a message, including bytes that are still to be written.
fn set_length(message: &mut [u8], start: usize, to_come: usize) {
    let length = message.len() - start - HEADER + to_come;
    put(message, start + 2, length);
}

/// Writes a length, which always fits into two bytes for a datagram.
fn put(message: &mut [u8], place: usize, length: usize) {
    let octets = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(field) = message.get_mut(place..place + 2) {
        field.copy_from_slice(&octets);
    }
}

/// The FINGERPRINT of a message (RFC 8489 section 14.7), over all bytes before it. The length in the header already includes it.
fn fingerprint(message: &[u8]) -> [u8; 4] {
    (crc32fast::hash(message) ^ FINGERPRINT_XOR).to_be_bytes()
}
