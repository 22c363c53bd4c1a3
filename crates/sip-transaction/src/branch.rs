//! Our branch (RFC 3261 section 8.1.1.7): it names the client transaction, so that a response finds it without a search.
//!
//! 39 octets: the magic cookie `z9hG4bK`, then in lower-case hex 8 digits of the transaction's place, 8 of its generation, and 16 that
//! are the transaction user's.

use crate::ClientId;

const COOKIE: &[u8; 7] = b"z9hG4bK";
const LENGTH: usize = 39;

/// Appends our branch: magic cookie, the client transaction, and 64 bits of the caller's (loop detection).
pub fn write_branch(into: &mut Vec<u8>, id: ClientId, suffix: u64) {
    let mut branch = [0; LENGTH];
    branch[..7].copy_from_slice(COOKIE);
    write_hex(&mut branch[7..15], id.index.into());
    write_hex(&mut branch[15..23], id.generation.into());
    write_hex(&mut branch[23..], suffix);
    into.extend_from_slice(&branch);
}

/// Reads a branch of ours back; `None` when it can't be one.
pub fn parse_branch(branch: &[u8]) -> Option<(ClientId, u64)> {
    let branch: &[u8; LENGTH] = branch.try_into().ok()?;
    let digits = branch.strip_prefix(COOKIE)?;
    let (index, digits) = digits.split_at_checked(8)?;
    let (generation, suffix) = digits.split_at_checked(8)?;
    let id = ClientId {
        index: parse_hex(index)? as u32,
        generation: parse_hex(generation)? as u32,
    };
    Some((id, parse_hex(suffix)?))
}

/// The same from the value of a Via header field, when our branch is the first parameter of its first value: that is how we write it,
/// and everybody copies it as it is. Says `None` wherever a look at the bytes does not settle it; a full parse may know more.
pub(crate) fn leading_branch(via: &[u8]) -> Option<(ClientId, u64)> {
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
    if ends { parse_branch(branch) } else { None }
}

fn write_hex(into: &mut [u8], value: u64) {
    for (place, digit) in into.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (4 * place)) as usize & 15];
    }
}

/// At most 16 lower-case digits. Wrong ones are only looked for at the end: the usual branch has none.
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

    proptest! {
        #[test]
        fn a_branch_reads_back_as_written(index: u32, generation: u32, suffix: u64) {
            let id = ClientId { index, generation };
            let mut branch = Vec::new();
            write_branch(&mut branch, id, suffix);
            prop_assert_eq!(parse_branch(&branch), Some((id, suffix)));
        }

        #[test]
        fn any_bytes_parse_or_do_not(bytes: Vec<u8>) {
            let _ = (parse_branch(&bytes), leading_branch(&bytes));
        }

        #[test]
        fn one_wrong_octet_is_noticed(place in 0usize..LENGTH, octet: u8) {
            let mut branch = Vec::new();
            write_branch(&mut branch, ClientId { index: 7, generation: 9 }, 11);
            prop_assume!(branch[place] != octet);
            branch[place] = octet;
            prop_assert_ne!(parse_branch(&branch), Some((ClientId { index: 7, generation: 9 }, 11)));
        }
    }

    #[test]
    fn leading_branch_is_seen_at_a_glance_or_left_to_the_parser() {
        let ours = Some((
            ClientId {
                index: 1,
                generation: 2,
            },
            0xabc,
        ));
        let branch = "z9hG4bK00000001000000020000000000000abc";
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
            b"z9hG4bK0000000100000002000000000000000",
            b"z9hG4bK000000010000000200000000000000034",
            b"z9hG4bK000000010000000200000000000000zz",
            b"z9hG4bK0000000A000000020000000000000003",
            b"z9hG4bk000000010000000200000000000000ff",
        ] {
            assert_eq!(
                parse_branch(branch),
                None,
                "{}",
                String::from_utf8_lossy(branch)
            );
        }
    }
}
