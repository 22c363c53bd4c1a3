//! The branch of our requests (RFC 3261 section 8.1.1.7). It names the client transaction, and proves that we wrote it, so a response cannot
//! be forged without having seen the request.
//!
//! 55 bytes: the magic cookie `z9hG4bK`, then lower-case hex digits: 16 for the name of the transaction, 16 for the seal (a keyed hash of the
//! name, the Call-ID and the last part), and 16 that belong to the transaction user.
//!
//! The name is one of two. The transaction of a request of our own is named by its place, so a response finds it without a search. That of a
//! forwarded request is named by a [`ClientKey`], a keyed hash that the transaction user computes from the received request and the target.
//! Every node with the same secret computes the same one.

use crate::ClientId;
use sip_message::KeyHasher;
use sip_transport::SlabId;
use std::num::NonZeroU64;

const COOKIE: &[u8; 7] = b"z9hG4bK";
const LENGTH: usize = 55;

/// Names the client transaction of a forwarded request: a keyed hash. Equal requests to equal targets have equal keys, on every node with the
/// same secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(NonZeroU64);

impl ClientKey {
    /// The key with this hash, which must be a [keyed one](KeyHasher::hash): a peer could otherwise fill one bucket of the table.
    pub fn new(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX))
    }

    /// The part by which the table of transactions finds it.
    pub(crate) const fn tag(self) -> u32 {
        self.0.get() as u32
    }
}

/// The branch of one of our requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The hash of a [`ClientKey`], or a place.
    name: u64,
    seal: u64,
    suffix: u64,
}

impl Branch {
    /// Creates the branch of a request of our own in the call `call_id`. `suffix` belongs to the caller.
    pub fn new(hasher: &KeyHasher, id: ClientId, call_id: &[u8], suffix: u64) -> Self {
        let name = u64::from(id.0.index) << 32 | u64::from(id.0.generation);
        Self::named(hasher, name, call_id, suffix)
    }

    /// Creates the branch of a forwarded request in the call `call_id`. `suffix` belongs to the caller (loop detection).
    pub fn keyed(hasher: &KeyHasher, key: ClientKey, call_id: &[u8], suffix: u64) -> Self {
        Self::named(hasher, key.0.get(), call_id, suffix)
    }

    fn named(hasher: &KeyHasher, name: u64, call_id: &[u8], suffix: u64) -> Self {
        let seal = seal(hasher, (name, suffix), call_id);
        Self { name, seal, suffix }
    }

    /// The place of its transaction, if it is the branch of a request of our own.
    pub(crate) const fn place(&self) -> SlabId {
        SlabId {
            index: (self.name >> 32) as u32,
            generation: self.name as u32,
        }
    }

    /// The key of its transaction, if it is the branch of a forwarded request.
    pub(crate) fn key(&self) -> ClientKey {
        ClientKey::new(self.name)
    }

    /// Parses a branch; `None` if it cannot be ours. Any peer can write a branch that parses: check it with [`Branch::is_genuine`].
    pub fn parse(branch: &[u8]) -> Option<Self> {
        let branch: &[u8; LENGTH] = branch.try_into().ok()?;
        let digits = branch.strip_prefix(COOKIE)?;
        let (name, digits) = digits.split_at_checked(16)?;
        let (seal, suffix) = digits.split_at_checked(16)?;
        Some(Self {
            name: parse_hex(name)?,
            seal: parse_hex(seal)?,
            suffix: parse_hex(suffix)?,
        })
    }

    /// Whether a node with this secret wrote the branch into a request with this Call-ID.
    pub fn is_genuine(&self, hasher: &KeyHasher, call_id: &[u8]) -> bool {
        self.seal == seal(hasher, (self.name, self.suffix), call_id)
    }

    /// The 64 bits that belong to the transaction user.
    pub const fn suffix(&self) -> u64 {
        self.suffix
    }

    /// Appends the branch to `into`.
    pub fn write(&self, into: &mut Vec<u8>) {
        let mut branch = [0; LENGTH];
        branch[..7].copy_from_slice(COOKIE);
        write_hex(&mut branch[7..23], self.name);
        write_hex(&mut branch[23..39], self.seal);
        write_hex(&mut branch[39..], self.suffix);
        into.extend_from_slice(&branch);
    }
}

fn seal(hasher: &KeyHasher, (name, suffix): (u64, u64), call_id: &[u8]) -> u64 {
    hasher.hash(&[
        b"branch",
        &name.to_be_bytes(),
        &suffix.to_be_bytes(),
        call_id,
    ])
}

/// Finds our branch in the value of a Via header field, if it is the first parameter of the first value. We write it there, and other
/// implementations copy it unchanged. `None` means that this quick look finds none; a full parse may still find it.
pub(crate) fn leading_branch(via: &[u8]) -> Option<Branch> {
    let params = via
        .iter()
        .position(|octet| matches!(octet, b';' | b',' | b'"'))?;
    let (branch, behind) = via
        .get(params..)?
        .strip_prefix(b";branch=")?
        .split_at_checked(LENGTH)?;
    let ends = matches!(
        behind.first(),
        None | Some(b';' | b',' | b' ' | b'\t' | b'\r' | b'\n')
    );
    if ends { Branch::parse(branch) } else { None }
}

fn write_hex(into: &mut [u8], value: u64) {
    for (place, digit) in into.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (4 * place)) as usize & 15];
    }
}

/// Parses at most 16 lower-case digits. It checks for invalid digits only at the end, because the usual branch has none.
fn parse_hex(digits: &[u8]) -> Option<u64> {
    let (value, wrong) = digits.iter().fold((0, 0), |(value, wrong), &digit| {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => 0x80,
        };
        (value << 4 | u64::from(nibble & 15), wrong | nibble)
    });
    (wrong < 16).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));
    const ID: ClientId = ClientId(SlabId {
        index: 7,
        generation: 9,
    });

    fn written(branch: Branch) -> Vec<u8> {
        let mut bytes = Vec::new();
        branch.write(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_branch_reads_back_as_written(index: u32, generation: u32, call_id: Vec<u8>, suffix: u64) {
            let id = ClientId(SlabId { index, generation });
            let branch = Branch::new(&HASHER, id, &call_id, suffix);
            prop_assert_eq!(Branch::parse(&written(branch)), Some(branch));
            prop_assert!(branch.is_genuine(&HASHER, &call_id));
            prop_assert_eq!((branch.place(), branch.suffix()), (id.0, suffix));
        }

        #[test]
        fn a_branch_carries_its_key(hash: u64, call_id: Vec<u8>, suffix: u64) {
            let key = ClientKey::new(hash);
            let branch = Branch::keyed(&HASHER, key, &call_id, suffix);
            prop_assert_eq!(Branch::parse(&written(branch)), Some(branch));
            prop_assert!(branch.is_genuine(&HASHER, &call_id));
            prop_assert_eq!((branch.key(), branch.suffix()), (key, suffix));
        }

        #[test]
        fn any_bytes_parse_or_do_not(bytes: Vec<u8>) {
            let _ = (Branch::parse(&bytes), leading_branch(&bytes));
        }

        #[test]
        fn one_wrong_octet_is_noticed(place in 0usize..LENGTH, octet: u8) {
            let branch = Branch::new(&HASHER, ID, b"call", 11);
            let mut bytes = written(branch);
            prop_assume!(bytes[place] != octet);
            bytes[place] = octet;
            let read = Branch::parse(&bytes).filter(|read| read.is_genuine(&HASHER, b"call"));
            prop_assert_eq!(read, None);
        }
    }

    #[test]
    fn a_seal_is_good_for_one_secret_one_transaction_one_call_and_one_suffix() {
        let branch = Branch::new(&HASHER, ID, b"call", 11);
        assert!(branch.is_genuine(&HASHER, b"call"));
        assert!(!branch.is_genuine(&HASHER, b"another"));
        assert!(!branch.is_genuine(&KeyHasher::new((1, 3)), b"call"));
        for moved in [
            Branch {
                name: branch.name + 1,
                ..branch
            },
            Branch {
                name: branch.name + (1 << 32),
                ..branch
            },
            Branch {
                suffix: 12,
                ..branch
            },
        ] {
            assert!(!moved.is_genuine(&HASHER, b"call"), "{moved:?}");
        }
    }

    #[test]
    fn leading_branch_is_seen_at_a_glance_or_left_to_the_parser() {
        let ours = Some(Branch {
            name: 0x1_0000_0002,
            seal: 0xdef,
            suffix: 0xabc,
        });
        let branch = "z9hG4bK00000001000000020000000000000def0000000000000abc";
        for (via, expected) in [
            (
                format!("SIP/2.0/UDP [2001:db8::1]:5060;branch={branch}"),
                ours,
            ),
            (
                format!("SIP/2.0/UDP a;branch={branch};rport=1;received=192.0.2.1"),
                ours,
            ),
            (
                format!("SIP/2.0/UDP a;branch={branch}, SIP/2.0/UDP b;branch=z9hG4bK1"),
                ours,
            ),
            (format!("SIP/2.0/UDP a;branch={branch},SIP/2.0/UDP b"), ours),
            (format!("SIP/2.0/UDP a;branch={branch}0"), None),
            (format!("SIP/2.0/UDP a;rport;branch={branch}"), None),
            (
                format!("SIP/2.0/UDP a, SIP/2.0/UDP b;branch={branch}"),
                None,
            ),
            ("SIP/2.0/UDP a;branch=z9hG4bK1".to_owned(), None),
            ("SIP/2.0/UDP a".to_owned(), None),
        ] {
            assert_eq!(leading_branch(via.as_bytes()), expected, "{via}");
        }
    }

    #[test]
    fn branches_of_others_are_not_ours() {
        for branch in [
            &b""[..],
            b"z9hG4bK",
            b"z9hG4bK776asdhds",
            b"z9hG4bK00000001000000020000000000000000000000000000003",
            b"z9hG4bK0000000100000002000000000000000000000000000000034",
            b"z9hG4bK000000010000000200000000000000000000000000000zz",
            b"z9hG4bK0000000A0000000200000000000000000000000000000003",
            b"z9hG4bk0000000100000002000000000000000000000000000000ff",
        ] {
            assert_eq!(
                Branch::parse(branch),
                None,
                "{}",
                String::from_utf8_lossy(branch)
            );
        }
    }
}
