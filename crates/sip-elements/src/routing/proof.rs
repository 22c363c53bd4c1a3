//! The proof in our Record-Route values: a cookie with a keyed hash. It says which dialog a value belongs to, and where
//! requests that bring it back may go.
//!
//! A proof is the value of the URI parameter `ck`: one letter for the [`Side`] and [`DIGITS`] hexadecimal digits. The
//! last 16 digits are a keyed hash over the other digits, the Call-ID, the tags and the flow token of the value.

use crate::own_response::hex;
use sip_message::{KeyHasher, Message, NameAddr, Uri, digest};
use sip_transport::Time;
use smallvec::SmallVec;
use std::time::Duration;

/// Name of the URI parameter that carries the proof.
pub(crate) const PARAMETER: &[u8] = b"ck";
/// Bytes of the fields: flags, expiry, call, speaker, other speaker, target, route set.
const FIELDS: usize = 1 + 4 + 4 + 4 + 4 + 8 + 4;
/// Hexadecimal digits after the letter: the fields and the keyed hash.
const DIGITS: usize = 2 * (FIELDS + 8);
/// Resolution of the expiry, in seconds.
const STEP: u64 = 60;

/// Direction that a value leads in, and what it may become in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The only value of ours in a request. It leads to the caller. In the response it becomes [`Side::Callee`].
    Sole,
    /// The value that leads to the caller, where a request has two values of ours (RFC 5658).
    Caller,
    /// The value that will lead to the callee, where a request has two values of ours. It proves nothing until it
    /// becomes [`Side::Callee`] in the response.
    Unanswered,
    /// The value in a response that leads to the callee.
    Callee,
}

impl Side {
    const ALL: [(Self, u8); 4] = [
        (Self::Sole, b's'),
        (Self::Caller, b'r'),
        (Self::Unanswered, b'u'),
        (Self::Callee, b'e'),
    ];

    fn letter(self) -> u8 {
        let found = Self::ALL.iter().find(|(side, _)| *side == self);
        found.map_or(b'u', |(_, letter)| *letter)
    }

    fn of_letter(letter: u8) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, other)| *other == letter);
        found.map(|(side, _)| *side)
    }
}

/// Parties that were on loopback or link-local addresses when the dialog was created. The dialog may continue with them
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Near {
    pub(crate) caller: bool,
    pub(crate) callee: bool,
}

/// Content of one of our values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) side: Side,
    pub(crate) near: Near,
    /// Whether an INVITE created the dialog.
    pub(crate) is_call: bool,
    /// When the proof expires, in minutes since the Unix epoch.
    pub(crate) expiry: u32,
    /// The number of the call (`sip_dialog::Dialog::number`); 0 if no INVITE created the dialog. The parties choose all other identifiers
    /// of a dialog, so two calls may have the same ones.
    pub(crate) call: u32,
    /// Sender of requests with this value: a keyed hash of its address of record.
    pub(crate) speaker: u32,
    /// Sender of requests in the other direction: the same hash.
    pub(crate) other: u32,
    /// Destination of requests with this value: a keyed hash of the remote target.
    pub(crate) target: u64,
    /// Keyed hash of the Route values that remain after ours; 0 if there are none.
    pub(crate) routes: u32,
}

/// Identifiers of a dialog that a proof is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialog<'d> {
    pub(crate) call_id: &'d [u8],
    /// Tag of the party that sent the request in which the value was created.
    pub(crate) caller_tag: &'d [u8],
    /// Tag of the other party; empty where the proof is not bound to it.
    pub(crate) callee_tag: &'d [u8],
}

impl Proof {
    /// Returns the expiry of a proof that is created now.
    pub(crate) fn expiry_after(now: Time, lifetime: Duration) -> u32 {
        let minutes = (now + lifetime).unix_seconds().div_ceil(STEP);
        u32::try_from(minutes).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_expired(&self, now: Time) -> bool {
        now.unix_seconds() >= u64::from(self.expiry) * STEP
    }

    /// Appends the value of the parameter.
    pub(crate) fn write(
        &self,
        into: &mut Vec<u8>,
        dialog: &Dialog<'_>,
        token: &[u8],
        hasher: &KeyHasher,
    ) {
        let fields = self.fields();
        let keyed_hash = self.keyed_hash(&fields, dialog, token, hasher);
        into.push(self.side.letter());
        into.extend_from_slice(&digest::hex::<FIELDS, { 2 * FIELDS }>(&fields));
        into.extend_from_slice(&hex(keyed_hash));
    }

    /// Reads the value of the parameter. Returns `None` if it is not one of ours for this dialog and flow token. Which
    /// tags count depends on the side.
    pub(crate) fn read<'d>(
        text: &[u8],
        token: &[u8],
        hasher: &KeyHasher,
        dialog: impl FnOnce(Side) -> Option<Dialog<'d>>,
    ) -> Option<Self> {
        let (letter, digits) = text.split_first()?;
        let side = Side::of_letter(*letter)?;
        let octets = octets_of(digits)?;
        let mut rest = octets.as_slice();
        let fields = take(&mut rest)?;
        let given = u64::from_be_bytes(take(&mut rest)?);
        let proof = Self::of_fields(side, fields)?;
        let expected = proof.keyed_hash(&fields, &dialog(side)?, token, hasher);
        (given == expected).then_some(proof)
    }

    fn fields(&self) -> [u8; FIELDS] {
        let near = u8::from(self.near.caller) | u8::from(self.near.callee) << 1;
        let mut fields = [0; FIELDS];
        let rest = put(&mut fields, [near | u8::from(self.is_call) << 2]);
        let rest = put(rest, self.expiry.to_be_bytes());
        let rest = put(rest, self.call.to_be_bytes());
        let rest = put(rest, self.speaker.to_be_bytes());
        let rest = put(rest, self.other.to_be_bytes());
        let rest = put(rest, self.target.to_be_bytes());
        put(rest, self.routes.to_be_bytes());
        fields
    }

    fn of_fields(side: Side, fields: [u8; FIELDS]) -> Option<Self> {
        let mut rest = fields.as_slice();
        let [flags] = take(&mut rest)?;
        Some(Self {
            side,
            near: Near {
                caller: flags & 1 != 0,
                callee: flags & 2 != 0,
            },
            is_call: flags & 4 != 0,
            expiry: u32::from_be_bytes(take(&mut rest)?),
            call: u32::from_be_bytes(take(&mut rest)?),
            speaker: u32::from_be_bytes(take(&mut rest)?),
            other: u32::from_be_bytes(take(&mut rest)?),
            target: u64::from_be_bytes(take(&mut rest)?),
            routes: u32::from_be_bytes(take(&mut rest)?),
        })
    }

    fn keyed_hash(
        &self,
        fields: &[u8; FIELDS],
        dialog: &Dialog<'_>,
        token: &[u8],
        hasher: &KeyHasher,
    ) -> u64 {
        hasher.hash(&[
            b"dialog",
            &[self.side.letter()],
            fields,
            dialog.call_id,
            dialog.caller_tag,
            dialog.callee_tag,
            token,
        ])
    }
}

/// Key of a remote target in the tables of dialogs and of refreshed targets: the number of the call ([`Proof::call`]), its Call-ID, the
/// tag of the party that is the target, and the tag of the other party.
pub(crate) fn target_key(
    call: u32,
    call_id: &[u8],
    (target, other): (&[u8], &[u8]),
    hasher: &KeyHasher,
) -> u64 {
    hasher.hash(&[b"target of", &call.to_be_bytes(), call_id, target, other])
}

/// Keyed hash of a remote target. It covers what decides where the target leads, in one spelling (section 19.1.4).
/// Never 0.
pub(crate) fn target_hash(uri: &[u8], hasher: &KeyHasher) -> u64 {
    let mut canonical = Vec::with_capacity(uri.len() + 8);
    match Uri::parse(uri) {
        Some(parsed) => parsed.write_target(&mut canonical),
        None => canonical.extend_from_slice(uri),
    }
    hasher.hash(&[b"target", &canonical]).max(1)
}

/// Returns the [`target_hash`] of the first Contact. Without a Contact, it is the hash of an empty URI.
pub(crate) fn contact_hash(message: &Message<'_>, hasher: &KeyHasher) -> u64 {
    let contact = message
        .values(sip_message::HeaderName::Contact)
        .next()
        .and_then(NameAddr::parse);
    target_hash(contact.map_or(b"", |contact| contact.uri_bytes), hasher)
}

/// Keyed hash of Route or Record-Route values in the order in which a request will follow them; 0 if there are none.
pub(crate) fn routes_hash<'v>(values: impl Iterator<Item = &'v [u8]>, hasher: &KeyHasher) -> u32 {
    let mut gathered = SmallVec::<[u8; 256]>::new();
    for value in values {
        // No URI contains this bracket, so values cannot run together.
        gathered.extend_from_slice(NameAddr::parse(value).map_or(value, |route| route.uri_bytes));
        gathered.push(b'>');
    }
    if gathered.is_empty() {
        return 0;
    }
    (hasher.hash(&[b"routes", &gathered]) as u32).max(1)
}

/// Keyed hash of an address of record.
pub(crate) fn speaker_hash(uri: Option<&Uri<'_>>, hasher: &KeyHasher) -> u32 {
    let mut address = Vec::with_capacity(64);
    if let Some(uri) = uri {
        uri.write_address_of_record(&mut address);
    }
    hasher.hash(&[b"speaker", &address]) as u32
}

/// Decodes [`DIGITS`] hexadecimal digits to bytes.
fn octets_of(digits: &[u8]) -> Option<[u8; FIELDS + 8]> {
    let digits: &[u8; DIGITS] = digits.try_into().ok()?;
    let mut octets = [0; FIELDS + 8];
    let mut seen = 0;
    for (octet, [high, low]) in octets.iter_mut().zip(digits.as_chunks().0) {
        let (high, low) = (value_of(*high), value_of(*low));
        seen |= high | low;
        *octet = high << 4 | low;
    }
    (seen < 16).then_some(octets)
}

/// The value of a hexadecimal digit; 16 or more for another byte. It has no branch, so that the compiler can vectorize the loop.
fn value_of(digit: u8) -> u8 {
    let number = digit.wrapping_sub(b'0');
    let letter = (digit | 0x20).wrapping_sub(b'a');
    let of_letter = if letter < 6 { letter + 10 } else { u8::MAX };
    if number < 10 { number } else { of_letter }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*octets)
}

/// The reverse of [`take`]. Returns the room behind what it has written.
fn put<const N: usize>(into: &mut [u8], octets: [u8; N]) -> &mut [u8] {
    let Some((room, rest)) = into.split_first_chunk_mut() else {
        return &mut [];
    };
    *room = octets;
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));
    const DIALOG: Dialog<'_> = Dialog {
        call_id: b"call",
        caller_tag: b"a",
        callee_tag: b"b",
    };
    const PROOF: Proof = Proof {
        side: Side::Callee,
        near: Near {
            caller: false,
            callee: true,
        },
        is_call: true,
        expiry: 29_000_000,
        call: 11,
        speaker: 7,
        other: 9,
        target: u64::MAX - 1,
        routes: 0,
    };

    fn written() -> Vec<u8> {
        let mut text = Vec::new();
        PROOF.write(&mut text, &DIALOG, b"00ff", &HASHER);
        text
    }

    fn read(text: &[u8], token: &[u8], dialog: Dialog<'_>) -> Option<Proof> {
        Proof::read(text, token, &HASHER, |_| Some(dialog))
    }

    #[test]
    fn a_proof_is_read_as_it_was_written() {
        assert_eq!(read(&written(), b"00ff", DIALOG), Some(PROOF));
    }

    #[test]
    fn every_octet_and_everything_bound_counts() {
        let text = written();
        for place in 0..text.len() {
            for other in *b"0f9srue\xff" {
                let mut altered = text.clone();
                altered[place] = other;
                if altered != text {
                    assert_eq!(read(&altered, b"00ff", DIALOG), None, "{place} {other}");
                }
            }
            assert_eq!(read(&text[..place], b"00ff", DIALOG), None, "{place}");
        }
        assert_eq!(read(&[&text[..], b"0"].concat(), b"00ff", DIALOG), None);
        assert_eq!(read(&text, b"00fe", DIALOG), None);
        assert_eq!(read(&text, b"", DIALOG), None);
        for other in [
            Dialog {
                call_id: b"cal",
                ..DIALOG
            },
            Dialog {
                caller_tag: b"b",
                ..DIALOG
            },
            Dialog {
                callee_tag: b"",
                ..DIALOG
            },
        ] {
            assert_eq!(read(&text, b"00ff", other), None, "{other:?}");
        }
    }

    #[test]
    fn it_expires() {
        let now = Time::from_unix_seconds(1_800_000_000);
        let hour = Duration::from_secs(3600);
        let proof = Proof {
            expiry: Proof::expiry_after(now, hour),
            ..PROOF
        };
        assert!(!proof.is_expired(now + Duration::from_secs(3599)));
        assert!(proof.is_expired(now + hour + Duration::from_secs(STEP)));
    }

    #[test]
    fn spellings_of_a_target_hash_alike_and_targets_that_differ_do_not() {
        let hash = |uri: &str| target_hash(uri.as_bytes(), &HASHER);
        for (one, other) in [
            ("sip:bob@Example.org", "sip:bob@example.ORG"),
            ("sip:b%6fb@192.0.2.1", "sip:bob@192.0.2.1:5060"),
            (
                "sip:192.0.2.1;transport=tls",
                "sip:192.0.2.1:5061;transport=TLS",
            ),
            ("sips:192.0.2.1", "sips:192.0.2.1:5061"),
            (
                "sip:bob@192.0.2.1;transport=UDP",
                "sip:bob@192.0.2.1;user=phone;ob",
            ),
        ] {
            assert_eq!(hash(one), hash(other), "{one} {other}");
        }
        for (one, other) in [
            ("sip:bob@example.org", "sip:bob@example.org:5060"),
            ("sip:bob@example.org", "sip:bob@example.net"),
            ("sip:bob@192.0.2.1", "sip:bob@192.0.2.1:5061"),
            ("sip:bob@192.0.2.1", "sip:bob@192.0.2.1;transport=tcp"),
            ("sip:bob@192.0.2.1", "sip:bob@192.0.2.1;maddr=192.0.2.2"),
            ("sip:bob@192.0.2.1", "sips:bob@192.0.2.1"),
            ("sip:bob@192.0.2.1", "sip:bobby@192.0.2.1"),
            ("sip:bob@192.0.2.1", "sip:192.0.2.1"),
            (
                "sip:192.0.2.1;transport=tls",
                "sip:192.0.2.1:5060;transport=tls",
            ),
            (
                "sip:192.0.2.1;transport=ws",
                "sip:192.0.2.1:5060;transport=ws",
            ),
            (
                "sips:192.0.2.1;transport=ws",
                "sips:192.0.2.1:5061;transport=ws",
            ),
        ] {
            assert_ne!(hash(one), hash(other), "{one} {other}");
        }
    }
}
