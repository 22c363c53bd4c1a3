//! A shared binding, or its removal, as bytes.
//!
//! ```text
//! record  = format:1 time:8 writer:8 forget:4 kind:1 name-length:1 name [binding]
//! binding = q:2 expires:4 cseq:4 port:2 family:1 ip (length:2 string)*6
//! ```
//! Numbers are big-endian, so that versions compare byte by byte, as the script in the store does it. The strings are contact, Call-ID,
//! Path, instance, user agent and listener. A link-local address has a scope of four bytes. A newer version may append to a record; this one
//! skips that.

use super::version::{HybridTime, Version, WriterId};
use crate::binding::BindingRow;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The first byte of each record.
const FORMAT: u8 = 1;
const REMOVED: u8 = 0;
const BINDING: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
/// The maximum length of a record in bytes. A binding in memory has at most half of it.
const LONGEST: usize = 16_384;

/// What a node has written about one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBinding<'a> {
    /// When it was written.
    pub time: HybridTime,
    /// The name of the instance that wrote it, at most 255 bytes.
    pub writer: Cow<'a, str>,
    /// When the record is of no use any more, in seconds since the Unix epoch: every older binding has then expired.
    pub forget_at: u32,
    /// The binding; `None`: it was removed.
    pub binding: Option<BindingRow<'a>>,
}

/// The bytes are not a record of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a record of a binding that this version can read")]
pub struct Unreadable;

impl<'a> SharedBinding<'a> {
    /// The version of the record.
    pub fn version(&self) -> Version {
        Version {
            time: self.time,
            writer: WriterId::of(&self.writer),
        }
    }

    /// The record as bytes; `None` if one of its strings is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let Version { time, writer } = self.version();
        let mut bytes = Vec::with_capacity(384);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&time.word().to_be_bytes());
        bytes.extend_from_slice(&writer.word().to_be_bytes());
        bytes.extend_from_slice(&self.forget_at.to_be_bytes());
        bytes.push(if self.binding.is_some() {
            BINDING
        } else {
            REMOVED
        });
        bytes.push(u8::try_from(self.writer.len()).ok()?);
        bytes.extend_from_slice(self.writer.as_bytes());
        if let Some(binding) = &self.binding {
            encode_binding(&mut bytes, binding)?;
        }
        (bytes.len() <= LONGEST).then_some(bytes)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// If the bytes are anything but a complete record of this format. Bytes behind it are skipped.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        if bytes.len() > LONGEST {
            return Err(Unreadable);
        }
        let mut reader = Reader(bytes);
        // What is left was added by a newer version.
        Self::read(&mut reader).ok_or(Unreadable)
    }

    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        if reader.u8()? != FORMAT {
            return None;
        }
        let time = HybridTime::of_word(reader.u64()?);
        let id = reader.u64()?;
        let forget_at = reader.u32()?;
        let kind = reader.u8()?;
        let length = usize::from(reader.u8()?);
        let writer = std::str::from_utf8(reader.slice(length)?).ok()?;
        // The script compares the identifier, and the nodes compare that of the name.
        if WriterId::of(writer).word() != id {
            return None;
        }
        let binding = match kind {
            REMOVED => None,
            BINDING => Some(decode_binding(reader)?),
            _ => return None,
        };
        Some(Self {
            time,
            writer: Cow::Borrowed(writer),
            forget_at,
            binding,
        })
    }
}

fn encode_binding(bytes: &mut Vec<u8>, binding: &BindingRow<'_>) -> Option<()> {
    bytes.extend_from_slice(&binding.q.to_be_bytes());
    bytes.extend_from_slice(&binding.expires_at.to_be_bytes());
    bytes.extend_from_slice(&binding.cseq.to_be_bytes());
    bytes.extend_from_slice(&binding.source.port().to_be_bytes());
    match binding.source {
        SocketAddr::V4(source) => {
            bytes.push(IPV4);
            bytes.extend_from_slice(&source.ip().octets());
        }
        SocketAddr::V6(source) => {
            bytes.push(IPV6);
            bytes.extend_from_slice(&source.ip().octets());
            bytes.extend_from_slice(&source.scope_id().to_be_bytes());
        }
    }
    let strings: [&[u8]; 6] = [
        &binding.contact,
        &binding.call_id,
        &binding.path,
        &binding.instance,
        &binding.user_agent,
        binding.listener.as_bytes(),
    ];
    for string in strings {
        bytes.extend_from_slice(&u16::try_from(string.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(string);
    }
    Some(())
}

fn decode_binding<'a>(reader: &mut Reader<'a>) -> Option<BindingRow<'a>> {
    let q = reader.u16()?;
    let expires_at = reader.u32()?;
    let cseq = reader.u32()?;
    let port = reader.u16()?;
    let source = match reader.u8()? {
        IPV4 => SocketAddr::from((Ipv4Addr::from(reader.array::<4>()?), port)),
        IPV6 => {
            let ip = Ipv6Addr::from(reader.array::<16>()?);
            SocketAddr::V6(SocketAddrV6::new(ip, port, 0, reader.u32()?))
        }
        _ => return None,
    };
    let row = BindingRow {
        q,
        expires_at,
        cseq,
        source,
        contact: reader.string()?,
        call_id: reader.string()?,
        path: reader.string()?,
        instance: reader.string()?,
        user_agent: reader.string()?,
        listener: match reader.string()? {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
        },
    };
    (row.q <= 1_000 && !row.contact.is_empty()).then_some(row)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (slice, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(slice)
    }

    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        let length = usize::from(self.u16()?);
        self.slice(length).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn typical(source: &str) -> SharedBinding<'static> {
        SharedBinding {
            time: HybridTime::at(1_800_000_000_123),
            writer: "7d3cbb9e-1f1a-4f4e-9e0a-2b7a2c0f5d11".into(),
            forget_at: 1_800_003_720,
            binding: Some(BindingRow {
                contact: b"sip:alice@192.0.2.7:5060;transport=udp".into(),
                q: 1_000,
                expires_at: 1_800_003_600,
                call_id: b"843817637684230@998sdasdh09".into(),
                cseq: 1_826,
                path:
                    b"<sip:edge.example.org;lr;e=0123456789abcdef0123456789abcdef0123456789abcdef>"
                        .into(),
                instance: b"\"<urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6>\";reg-id=1".into(),
                user_agent: b"Phone/1.0.2 (model 7)".into(),
                source: source.parse().expect("an address"),
                listener: "udp:192.0.2.1:5060".into(),
            }),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_is_small() {
        for source in ["192.0.2.7:5060", "[2001:db8::7]:5060", "[fe80::1%3]:5060"] {
            let record = typical(source);
            let bytes = record.encode().expect("short");
            assert_eq!(SharedBinding::decode(&bytes), Ok(record));
            assert!(bytes.len() <= 400, "{}", bytes.len());
        }
        let removal = SharedBinding {
            binding: None,
            ..typical("192.0.2.7:5060")
        };
        let bytes = removal.encode().expect("short");
        assert_eq!(SharedBinding::decode(&bytes), Ok(removal));
    }

    #[test]
    fn the_bytes_of_a_version_order_like_the_version() {
        let mut records = ["a", "b", "c"].map(|writer| SharedBinding {
            writer: writer.into(),
            ..typical("192.0.2.7:5060")
        });
        records[0].time = HybridTime::at(1_800_000_000_124);
        let encoded = |record: &SharedBinding<'_>| record.encode().expect("short")[1..17].to_vec();
        for first in &records {
            for second in &records {
                assert_eq!(
                    first.version().cmp(&second.version()),
                    encoded(first).cmp(&encoded(second))
                );
            }
        }
    }

    #[test]
    fn what_a_newer_version_appends_is_skipped() {
        for binding in [typical("192.0.2.7:5060").binding, None] {
            let record = SharedBinding {
                binding,
                ..typical("192.0.2.7:5060")
            };
            let bytes = record.encode().expect("short");
            let longer = [&bytes[..], b"\0\x05later"].concat();
            assert_eq!(SharedBinding::decode(&longer), Ok(record));
        }
    }

    #[test]
    fn a_part_of_a_record_or_one_of_another_format_is_unreadable() {
        let bytes = typical("192.0.2.7:5060").encode().expect("short");
        for length in 0..bytes.len() {
            assert_eq!(SharedBinding::decode(&bytes[..length]), Err(Unreadable));
        }
        let mut of_another = bytes.clone();
        of_another[10] ^= 1;
        assert_eq!(SharedBinding::decode(&of_another), Err(Unreadable));
        let mut of_the_future = bytes;
        of_the_future[0] = 2;
        assert_eq!(SharedBinding::decode(&of_the_future), Err(Unreadable));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = SharedBinding::decode(&bytes);
            let mut record = typical("192.0.2.7:5060").encode().expect("short");
            for (place, byte) in record.iter_mut().zip(bytes).skip(21).step_by(7) {
                *place ^= byte;
            }
            let _ = SharedBinding::decode(&record);
        }
    }
}
