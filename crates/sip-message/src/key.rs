//! Keys: which transaction a message belongs to (RFC 3261 sections 17.1.3 and 17.2.3), which worker is its call's home.
use crate::{Host, Message, Method, Via};
use siphasher::sip::SipHasher13 as SipHasher;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher128};
use std::hash::Hasher;

/// Identifies a server transaction: a keyed 128-bit hash of branch, sent-by and method (ACK and CANCEL counted as INVITE where
/// asked), or of the RFC 2543 fields when the branch lacks the magic cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionKey(pub u128);

/// Computes keys with a secret, so that no peer can make collisions.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    secret: (u64, u64),
}

/// What a branch of RFC 3261 begins with (section 8.1.1.7).
const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl KeyHasher {
    /// With its secret.
    pub const fn new(secret: (u64, u64)) -> Self {
        Self { secret }
    }

    /// The key of the transaction that this request creates or retransmits. An ACK gets the key of its INVITE. A CANCEL gets
    /// its own key; see `cancelled_transaction`. `None` where Via, Call-ID or `CSeq` can't be read.
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

    /// A 64-bit keyed hash of parts, length-delimited (tags, loop detection, Record-Route cookies).
    pub fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.secret.0, self.secret.1);
        for part in parts {
            write_part(&mut hasher, part);
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

/// A branch identifies its transaction when it begins with the magic cookie and has something behind it; the bare cookie is
/// what RFC 4475 section 3.2.1 sends.
fn is_unique(branch: &[u8]) -> bool {
    branch
        .split_at_checked(MAGIC_COOKIE.len())
        .is_some_and(|(cookie, rest)| cookie.eq_ignore_ascii_case(MAGIC_COOKIE) && !rest.is_empty())
}

/// The fields of RFC 2543 (RFC 3261 section 17.2.3). To has no tag yet in an INVITE, but has one in its ACK; so the tag counts
/// for other methods only.
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

/// sent-by: the host without case, an address by value.
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

/// A part with its length, so that no two lists of parts run together.
#[inline]
fn write_part(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write_u32(length(part));
    hasher.write(part);
}

#[inline]
fn length(part: &[u8]) -> u32 {
    u32::try_from(part.len()).unwrap_or(u32::MAX).to_le()
}

/// Unkeyed, stable hash of a Call-ID that picks the call's home (worker, node): the same on every machine and version.
/// It is SipHash-1-3 with a key of zeros over the octets of the Call-ID, and must never change: nodes of different versions
/// would disagree about who owns a call.
pub fn home_hash(call_id: &[u8]) -> u64 {
    SipHasher::new_with_keys(0, 0).hash(call_id)
}
