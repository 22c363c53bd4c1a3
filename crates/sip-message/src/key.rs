//! Keys: the transaction of a message (RFC 3261 sections 17.1.3 and 17.2.3), and the home of a call.
use crate::{Host, Message, Method, Via};
use siphasher::sip::SipHasher13 as SipHasher;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher128};
use std::hash::Hasher;

/// Identifies a server transaction: a keyed 128-bit hash of branch, sent-by and method. If the branch lacks the magic cookie, it
/// is a hash of the RFC 2543 fields. ACK counts as INVITE. So does CANCEL in [`KeyHasher::cancelled_transaction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionKey(pub u128);

/// Computes keys with a secret, so that peers cannot cause collisions.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    secret: (u64, u64),
}

/// The prefix of branches of RFC 3261 (section 8.1.1.7).
const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl KeyHasher {
    /// Creates a hasher with its secret.
    pub const fn new(secret: (u64, u64)) -> Self {
        Self { secret }
    }

    /// The key of the transaction that this request creates or retransmits. An ACK gets the key of its INVITE. A CANCEL gets its
    /// own key; see `cancelled_transaction`. `None` if Via, Call-ID or `CSeq` cannot be parsed.
    pub fn server_transaction(&self, request: &Message<'_>) -> Option<TransactionKey> {
        let method = match request.method() {
            Method::Ack => Method::Invite,
            method => method,
        };
        self.transaction(request, method)
    }

    /// The key of the INVITE that this CANCEL cancels.
    pub fn cancelled_transaction(&self, cancel: &Message<'_>) -> Option<TransactionKey> {
        self.transaction(cancel, Method::Invite)
    }

    /// A 64-bit keyed hash of length-delimited parts, for tags, loop detection and proofs in Record-Route.
    #[inline]
    pub fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.secret.0, self.secret.1);
        let mut gathered = [0; 256];
        match gather(parts, &mut gathered) {
            Some(octets) => hasher.write(octets),
            None => parts.iter().for_each(|part| write_part(&mut hasher, part)),
        }
        hasher.finish()
    }

    fn transaction(&self, request: &Message<'_>, method: Method<'_>) -> Option<TransactionKey> {
        let via = request.top_via()?;
        let mut hasher = SipHasher128::new_with_keys(self.secret.0, self.secret.1);
        match via.branch() {
            Some(branch) if is_unique(branch) => {
                write_part(&mut hasher, branch);
                write_sent_by(&mut hasher, &via);
                write_part(&mut hasher, method.as_bytes());
            }
            _ => write_rfc2543(&mut hasher, request, &via, method)?,
        }
        Some(TransactionKey(hasher.finish128().as_u128()))
    }
}

/// Whether a branch identifies its transaction: it begins with the magic cookie, and more follows. RFC 4475 section 3.2.1 sends
/// the cookie alone.
fn is_unique(branch: &[u8]) -> bool {
    branch
        .split_at_checked(MAGIC_COOKIE.len())
        .is_some_and(|(cookie, rest)| cookie.eq_ignore_ascii_case(MAGIC_COOKIE) && !rest.is_empty())
}

/// Hashes the fields of RFC 2543 (RFC 3261 section 17.2.3). To has no tag in an INVITE, but has one in its ACK. Therefore the tag
/// counts only for other methods.
fn write_rfc2543(
    hasher: &mut impl Hasher,
    request: &Message<'_>,
    via: &Via<'_>,
    method: Method<'_>,
) -> Option<()> {
    hasher.write_u8(b'2');
    write_part(hasher, request.request_uri());
    write_part(
        hasher,
        request
            .from()
            .and_then(|from| from.tag())
            .unwrap_or_default(),
    );
    write_part(hasher, request.call_id()?);
    hasher.write_u32(request.cseq()?.number.to_le());
    write_part(hasher, via.bytes);
    write_part(hasher, method.as_bytes());
    if !matches!(
        request.method(),
        Method::Invite | Method::Ack | Method::Cancel
    ) {
        write_part(
            hasher,
            request.to().and_then(|to| to.tag()).unwrap_or_default(),
        );
    }
    Some(())
}

/// Hashes sent-by: the host ignoring case, an address by value.
fn write_sent_by(hasher: &mut impl Hasher, via: &Via<'_>) {
    match via.host {
        Host::Address(std::net::IpAddr::V4(address)) => write_part(hasher, &address.octets()),
        Host::Address(std::net::IpAddr::V6(address)) => write_part(hasher, &address.octets()),
        Host::Name(name) => {
            hasher.write_u32(length(name));
            let mut chunk = [0; 32];
            for part in name.chunks(chunk.len()) {
                if let Some(lower) = chunk.get_mut(..part.len()) {
                    lower.copy_from_slice(part);
                    lower.make_ascii_lowercase();
                    hasher.write(lower);
                }
            }
        }
    }
    hasher.write_u32(via.port.map_or(u32::MAX, u32::from).to_le());
}

/// Hashes a part with its length, so that different lists of parts cannot produce the same bytes.
#[inline]
fn write_part(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write_u32(length(part));
    hasher.write(part);
}

/// Writes the bytes that [`write_part`] produces for all parts into `room`, if they fit. Hashing them in one call is faster.
#[inline]
fn gather<'a>(parts: &[&[u8]], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut used = 0;
    for part in parts {
        let (size, rest) = room.get_mut(used..)?.split_first_chunk_mut()?;
        *size = length(part).to_ne_bytes();
        rest.get_mut(..part.len())?.copy_from_slice(part);
        used += size.len() + part.len();
    }
    room.get(..used)
}

#[inline]
fn length(part: &[u8]) -> u32 {
    u32::try_from(part.len()).unwrap_or(u32::MAX).to_le()
}

/// Unkeyed, stable hash of a Call-ID that picks the call's home (worker, node). It is the same on every machine and in every
/// version: SipHash-1-3 with a key of zeros over the bytes of the Call-ID. It must never change, or nodes of different versions
/// would disagree about which one owns a call.
pub fn home_hash(call_id: &[u8]) -> u64 {
    SipHasher::new_with_keys(0, 0).hash(call_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));

    fn request(method: &str, via: &str, rest: &str) -> Vec<u8> {
        format!(
            "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nFrom: <sip:a@b>;tag=f\r\nCall-ID: c\r\n\
             {rest}CSeq: 7 {method}\r\n\r\n"
        )
        .into_bytes()
    }

    fn key(bytes: &[u8]) -> TransactionKey {
        HASHER
            .server_transaction(&Message::parse(bytes).unwrap())
            .unwrap()
    }

    fn cancelled(bytes: &[u8]) -> TransactionKey {
        HASHER
            .cancelled_transaction(&Message::parse(bytes).unwrap())
            .unwrap()
    }

    #[test]
    fn parts_gathered_or_not_hash_alike() {
        let long = [b'x'; 300];
        for parts in [
            &[b"".as_slice()][..],
            &[b"call", b"\x07\0\0\0", b"INVITE", b"z9hG4bK"],
            &[&long[..252]],
            &[&long[..253]],
            &[b"a", &long, b""],
        ] {
            let mut one_by_one = SipHasher::new_with_keys(1, 2);
            for part in parts {
                write_part(&mut one_by_one, part);
            }
            assert_eq!(HASHER.hash(parts), one_by_one.finish());
        }
    }

    #[test]
    fn branch_sent_by_and_method_make_the_key() {
        let invite = key(&request("INVITE", "h;branch=z9hG4bKa", ""));
        assert_eq!(
            invite,
            key(&request(
                "INVITE",
                "H;rport;branch=z9hG4bKa;x",
                "To: <sip:x@y>;tag=t\r\n"
            ))
        );
        for other in [
            request("INVITE", "h;branch=z9hG4bKb", ""),
            request("INVITE", "h2;branch=z9hG4bKa", ""),
            request("INVITE", "h:5061;branch=z9hG4bKa", ""),
            request("BYE", "h;branch=z9hG4bKa", ""),
            request("CANCEL", "h;branch=z9hG4bKa", ""),
        ] {
            assert_ne!(invite, key(&other), "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn ack_and_cancel_find_their_invite() {
        for branch in ["z9hG4bKa", "1", "z9hG4bK"] {
            let via = format!("h;branch={branch}");
            let invite = key(&request("INVITE", &via, "To: <sip:x@y>\r\n"));
            assert_eq!(
                invite,
                key(&request("ACK", &via, "To: <sip:x@y>;tag=t\r\n")),
                "{branch}"
            );
            assert_eq!(
                invite,
                cancelled(&request("CANCEL", &via, "To: <sip:x@y>\r\n")),
                "{branch}"
            );
        }
    }

    #[test]
    fn without_the_cookie_the_fields_of_rfc_2543_make_the_key() {
        for branch in ["", ";branch=1", ";branch=z9hG4bK"] {
            let via = format!("h{branch}");
            let bye = request("BYE", &via, "To: <sip:x@y>;tag=t\r\n");
            assert_eq!(key(&bye), key(&bye.clone()));
            let text = String::from_utf8(bye.clone()).unwrap();
            for (from, to) in [
                ("bob@", "carol@"),
                ("tag=f", "tag=g"),
                ("Call-ID: c", "Call-ID: d"),
                ("CSeq: 7", "CSeq: 8"),
                ("UDP h", "UDP h2"),
                ("tag=t", "tag=u"),
            ] {
                assert_ne!(
                    key(&bye),
                    key(text.replace(from, to).as_bytes()),
                    "{from} {branch}"
                );
            }
        }
    }

    #[test]
    fn a_broken_request_has_no_key() {
        let bytes = b"INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP\r\n\r\n";
        assert_eq!(
            HASHER.server_transaction(&Message::parse(bytes).unwrap()),
            None
        );
        let bytes = b"INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nCall-ID: x\r\n\r\n";
        assert_eq!(
            HASHER.server_transaction(&Message::parse(bytes).unwrap()),
            None
        );
    }

    #[test]
    fn keys_depend_on_the_secret() {
        let bytes = request("INVITE", "h;branch=z9hG4bKa", "");
        let message = Message::parse(&bytes).unwrap();
        assert_ne!(
            KeyHasher::new((1, 3)).server_transaction(&message),
            HASHER.server_transaction(&message)
        );
        assert_ne!(KeyHasher::new((1, 3)).hash(&[b"x"]), HASHER.hash(&[b"x"]));
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(HASHER.hash(&[b"ab", b"c"]), HASHER.hash(&[b"a", b"bc"]));
        assert_ne!(HASHER.hash(&[b"a"]), HASHER.hash(&[b"a", b""]));
        assert_eq!(HASHER.hash(&[b"ab", b"c"]), HASHER.hash(&[b"ab", b"c"]));
    }

    /// Never change these values: nodes of different versions must agree.
    #[test]
    fn the_home_of_a_call_stays_the_same_for_ever() {
        for (call_id, hash) in [
            (&b""[..], 15_130_871_412_783_076_140),
            (
                b"a84b4c76e66710@pc33.atlanta.com",
                3_125_169_732_805_283_821,
            ),
            (
                b"3848276298220188511@alice-phone.example.org",
                9_496_430_071_125_674_836,
            ),
        ] {
            assert_eq!(
                home_hash(call_id),
                hash,
                "{}",
                String::from_utf8_lossy(call_id)
            );
        }
    }
}
