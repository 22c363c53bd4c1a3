//! Nonces that the server recognizes without a table.
//!
//! A nonce carries its time of issue, a number, and a keyed hash over both, the realm, and the source it was issued to.
//! So credentials that answer a nonce prove that their sender receives what the server sends to that source.
//!
//! The server only remembers how often a nonce has been used (RFC 7616 section 3.3: `nc`), beginning with its first use
//! with a right password. So a flood of requests that are only challenged costs nothing.
//!
//! ```text
//! nonce = base64url(seconds:4 number:6 mac:6), 22 characters
//! ```
//! The nonce is short because it is hashed with every request. With it, a usual request-digest takes two blocks of MD5,
//! not three.
//!
//! A MAC can be guessed in 2⁴⁸ requests, but that gains nothing: without the password, a nonce of the attacker's choice
//! is worth no more than ours.

use crate::bans::Source;
use sip_transport::Time;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The length of a nonce in characters.
pub(super) const NONCE_LENGTH: usize = 22;
const BYTES: usize = 16;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How long the same request is accepted again. This is as long as any transaction would retransmit it (64·T1, RFC 3261
/// section 17.1).
const RETRANSMISSION_SECONDS: u32 = 32;

/// Issues nonces and counts their uses.
pub struct Nonces {
    secret: (u64, u64),
    /// The number of nonces issued.
    issued: AtomicU64,
    /// The second from which on this process has issued nonces; 0 means none yet. Older nonces come from before a
    /// restart. Their uses are forgotten, so they are no longer accepted.
    since: AtomicU32,
    uses: Box<[Uses]>,
}

/// The uses of one nonce. Its slot is its number modulo the number of slots.
struct Uses {
    /// The generation (32 bits) and the highest nonce-count accepted (32 bits). The generation is the nonce's number
    /// divided by the number of slots, plus one; 0 means never used.
    count: AtomicU64,
    /// The fingerprint of the request with that nonce-count (40 bits), and the second in which it was received (24 bits).
    last: AtomicU64,
}

/// A nonce that this server issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonce {
    seconds: u32,
    number: u64,
}

/// The slot of a nonce and its content at the time of the lookup.
#[derive(Clone, Copy)]
pub(super) struct Used<'n> {
    nonce: Nonce,
    uses: &'n Uses,
    count: u64,
}

/// Why a nonce was not recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It has our format, but was issued to another source, for another realm, with another secret, or never.
    Foreign,
    /// It does not have our format.
    Misshapen,
}

/// The result of using a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A new use, or the same request again.
    Accepted,
    /// Another request has used this nonce-count or a higher one, or newer nonces have taken the slot.
    Spent,
}

impl Nonces {
    /// Remembers the counts of the last `slots` nonces in use. If the secret survives a restart, phones with an older
    /// nonce get `stale=true` and do not have to ask their user.
    pub fn new(secret: (u64, u64), slots: usize) -> Self {
        // The system provides zeroed memory only when it is first touched, so unused slots cost nothing.
        let uses = vec![[0_u64; 2]; slots.max(1)];
        let uses = uses.into_iter().map(|[count, last]| Uses {
            count: AtomicU64::new(count),
            last: AtomicU64::new(last),
        });
        Self {
            secret,
            issued: AtomicU64::new(0),
            since: AtomicU32::new(0),
            uses: uses.collect(),
        }
    }

    /// Issues a new nonce for a realm, valid from this source only.
    pub(super) fn issue(&self, realm: &[u8], source: Source, now: Time) -> [u8; NONCE_LENGTH] {
        let number = self.issued.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff_ffff;
        let now = seconds(now);
        let mut since = self.since.load(Ordering::Relaxed);
        if since == 0 {
            // Begin with the next second: the previous process may have issued nonces in this one.
            let first = now.saturating_add(1);
            since =
                match self
                    .since
                    .compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed)
                {
                    Ok(_) => first,
                    Err(earlier) => earlier,
                };
        }
        self.write(
            Nonce {
                seconds: now.max(since),
                number,
            },
            realm,
            source,
        )
    }

    fn write(&self, nonce: Nonce, realm: &[u8], source: Source) -> [u8; NONCE_LENGTH] {
        let [_, _, number @ ..] = nonce.number.to_be_bytes();
        let mac = self.mac(nonce, realm, source);
        let mut bytes = [0; BYTES];
        let parts = nonce
            .seconds
            .to_be_bytes()
            .into_iter()
            .chain(number)
            .chain(mac);
        bytes
            .iter_mut()
            .zip(parts)
            .for_each(|(byte, part)| *byte = part);
        encode(u128::from_be_bytes(bytes))
    }

    /// Reads a nonce that was issued to this source for this realm.
    pub(super) fn read(&self, text: &[u8], realm: &[u8], source: Source) -> Result<Nonce, Unknown> {
        let (nonce, mac) = split(text).ok_or(Unknown::Misshapen)?;
        if self.mac(nonce, realm, source) == mac {
            Ok(nonce)
        } else {
            Err(Unknown::Foreign)
        }
    }

    fn mac(&self, nonce: Nonce, realm: &[u8], source: Source) -> [u8; 6] {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        hasher.write_u32(nonce.seconds);
        hasher.write_u64(nonce.number);
        hasher.write_u64(source.bits());
        hasher.write(realm);
        let [_, _, mac @ ..] = hasher.finish().to_be_bytes();
        mac
    }

    /// Whether a nonce is too old.
    pub(super) fn is_expired(nonce: Nonce, lifetime: u64, now: Time) -> bool {
        u64::from(seconds(now).saturating_sub(nonce.seconds)) > lifetime
    }

    /// Whether a nonce is older than this process, which does not know its uses.
    pub(super) fn is_of_another_process(&self, nonce: Nonce) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since == 0 || nonce.seconds < since
    }

    /// A keyed hash that identifies a request, for [`Nonces::spend`]. Each part has a number that tells its kind.
    pub(super) fn fingerprint<'p>(&self, parts: impl Iterator<Item = (u8, &'p [u8])>) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.secret.1, self.secret.0);
        for (kind, part) in parts {
            hasher.write_u64((part.len() as u64) << 8 | u64::from(kind));
            hasher.write(part);
        }
        hasher.finish()
    }

    /// Looks up the uses of a nonce. Call it early, so that the memory access overlaps with the computation of the digest.
    pub(super) fn used(&self, nonce: Nonce) -> Option<Used<'_>> {
        let place = (nonce.number % self.uses.len() as u64) as usize;
        let uses = self.uses.get(place)?;
        let count = uses.count.load(Ordering::Acquire);
        Some(Used { nonce, uses, count })
    }

    fn generation(&self, nonce: Nonce) -> u32 {
        ((nonce.number / self.uses.len() as u64) as u32)
            .wrapping_add(1)
            .max(1)
    }

    /// Uses a nonce with a nonce-count. The same request is accepted again within the time of retransmissions, because it
    /// may be answered without a transaction. Any other request needs a higher count than all before, or it is a replay.
    pub(super) fn spend(
        &self,
        used: Used<'_>,
        nonce_count: u32,
        fingerprint: u64,
        now: Time,
    ) -> Use {
        let Used {
            nonce,
            uses,
            count: mut current,
        } = used;
        let generation = self.generation(nonce);
        let last = fingerprint << 24 | u64::from(seconds(now) & 0xff_ffff);
        let wanted = u64::from(generation) << 32 | u64::from(nonce_count);
        loop {
            let used_by = (current >> 32) as u32;
            if used_by == generation && current as u32 >= nonce_count {
                let again =
                    current == wanted && is_retransmission(uses.last.load(Ordering::Acquire), last);
                return if again { Use::Accepted } else { Use::Spent };
            }
            if used_by > generation {
                return Use::Spent;
            }
            match uses.count.compare_exchange_weak(
                current,
                wanted,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(changed) => current = changed,
            }
        }
        uses.last.store(last, Ordering::Release);
        Use::Accepted
    }
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nonces")
            .field("issued", &self.issued)
            .field("places", &self.uses.len())
            .finish_non_exhaustive()
    }
}

/// Splits a nonce into its fields and its MAC.
fn split(text: &[u8]) -> Option<(Nonce, [u8; 6])> {
    let bytes = decode(text.try_into().ok()?)?.to_be_bytes();
    let (seconds, rest) = bytes.split_first_chunk::<4>()?;
    let (number, mac) = rest.split_first_chunk::<6>()?;
    let number = number
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    let nonce = Nonce {
        seconds: u32::from_be_bytes(*seconds),
        number,
    };
    Some((nonce, mac.try_into().ok()?))
}

fn seconds(now: Time) -> u32 {
    crate::location::unix_seconds(now)
}

/// Whether the fingerprints are equal and the time between them is short.
fn is_retransmission(before: u64, again: u64) -> bool {
    let age = (again.wrapping_sub(before)) & 0xff_ffff;
    before >> 24 == again >> 24 && age <= u64::from(RETRANSMISSION_SECONDS)
}

/// Encodes six bits per character. The last character has two bits and four zeros.
fn encode(bits: u128) -> [u8; NONCE_LENGTH] {
    let mut text = [b'A'; NONCE_LENGTH];
    let mut rest = bits;
    for character in &mut text {
        let index = (rest >> 122) as usize;
        *character = ALPHABET.get(index).copied().unwrap_or(b'A');
        rest <<= 6;
    }
    text
}

/// The value of each character, or 255 if it is not in the alphabet.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut index = 0;
    while index < ALPHABET.len() {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values
};

fn decode(text: &[u8; NONCE_LENGTH]) -> Option<u128> {
    let (last, others) = text.split_last()?;
    let mut bits = 0_u128;
    let mut seen = 0;
    for character in others {
        let value = VALUES.get(usize::from(*character)).copied()?;
        seen |= value;
        bits = bits << 6 | u128::from(value);
    }
    let value = VALUES.get(usize::from(*last)).copied()?;
    bits = bits << 2 | u128::from(value >> 4);
    // Fails on a value above 63, or if bits are set after the end.
    (seen < 64 && value < 64 && value.trailing_zeros() >= 4).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const REALM: &[u8] = b"example.org";
    const HERE: Source = Source::TRUSTED;

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    fn issued(nonces: &Nonces, now: u64) -> Nonce {
        nonces
            .read(&nonces.issue(REALM, HERE, at(now)), REALM, HERE)
            .unwrap()
    }

    fn spend(nonces: &Nonces, nonce: Nonce, count: u32, request: u64, now: u64) -> Use {
        nonces.spend(nonces.used(nonce).unwrap(), count, request, at(now))
    }

    #[test]
    fn a_nonce_is_recognised_by_who_issued_it_for_its_realm_only() {
        let nonces = Nonces::new((1, 2), 8);
        let text = nonces.issue(REALM, HERE, at(1_000));
        assert!(nonces.read(&text, REALM, HERE).is_ok());
        assert!(
            Nonces::new((1, 2), 4).read(&text, REALM, HERE).is_ok(),
            "the same secret"
        );
        assert!(
            Nonces::new((1, 3), 8).read(&text, REALM, HERE).is_err(),
            "another secret"
        );
        assert!(
            nonces.read(&text, b"example.net", HERE).is_err(),
            "another realm"
        );
        assert_ne!(nonces.issue(REALM, HERE, at(1_000)), text);
    }

    #[test]
    fn a_nonce_is_good_for_the_source_it_was_issued_to_only() {
        let nonces = Nonces::new((1, 2), 8);
        let source = |address: &str| Source::of(address.parse().unwrap());
        let text = nonces.issue(REALM, source("192.0.2.1"), at(1_000));
        assert!(nonces.read(&text, REALM, source("192.0.2.1")).is_ok());
        assert_eq!(
            nonces.read(&text, REALM, source("192.0.2.2")),
            Err(Unknown::Foreign)
        );
        assert_eq!(nonces.read(b"mine", REALM, HERE), Err(Unknown::Misshapen));
    }

    #[test]
    fn no_changed_nonce_is_recognised() {
        let nonces = Nonces::new((1, 2), 8);
        let text = nonces.issue(REALM, HERE, at(1_000));
        for place in 0..text.len() {
            for character in (0..=255).filter(|character| *character != text[place]) {
                let mut changed = text;
                changed[place] = character;
                assert!(
                    nonces.read(&changed, REALM, HERE).is_err(),
                    "{character} at {place}"
                );
            }
        }
        for other in [
            &b""[..],
            b"A",
            &text[1..],
            &[text.as_slice(), b"A"].concat(),
        ] {
            assert!(nonces.read(other, REALM, HERE).is_err());
        }
    }

    #[test]
    fn a_nonce_is_good_for_its_lifetime() {
        let nonces = Nonces::new((1, 2), 8);
        issued(&nonces, 0);
        let nonce = issued(&nonces, 1_000);
        assert!(!Nonces::is_expired(nonce, 300, at(1_000)));
        assert!(!Nonces::is_expired(nonce, 300, at(1_300)));
        assert!(Nonces::is_expired(nonce, 300, at(1_301)));
    }

    #[test]
    fn nonces_of_the_process_before_are_recognised_as_such() {
        let nonce = Nonces::new((1, 2), 8).issue(REALM, HERE, at(1_000));
        let restarted = Nonces::new((1, 2), 8);
        let nonce = restarted.read(&nonce, REALM, HERE).unwrap();
        assert!(restarted.is_of_another_process(nonce), "none issued yet");
        let own = issued(&restarted, 1_002);
        assert!(restarted.is_of_another_process(nonce));
        assert!(!restarted.is_of_another_process(own));
        // This includes one that was issued in the second of the restart.
        let other = Nonces::new((1, 2), 8);
        issued(&other, 1_000);
        let last = issued(&other, 1_002);
        assert!(restarted.is_of_another_process(last));
    }

    #[test]
    fn each_count_is_good_for_one_request_and_its_retransmissions() {
        let nonces = Nonces::new((1, 2), 8);
        let nonce = issued(&nonces, 1_000);
        for (count, request, now, expected) in [
            (1, 10, 1_000, Use::Accepted),
            (1, 10, 1_032, Use::Accepted),
            (1, 10, 1_033, Use::Spent),
            (1, 11, 1_000, Use::Spent),
            (5, 12, 1_001, Use::Accepted),
            (4, 13, 1_001, Use::Spent),
            (1, 10, 1_001, Use::Spent),
            (5, 12, 1_001, Use::Accepted),
            (6, 12, 1_001, Use::Accepted),
            (5, 12, 1_001, Use::Spent),
            (u32::MAX, 14, 1_001, Use::Accepted),
            (u32::MAX, 14, 1_001, Use::Accepted),
            (u32::MAX, 15, 1_001, Use::Spent),
        ] {
            assert_eq!(
                spend(&nonces, nonce, count, request, now),
                expected,
                "{count} {request} {now}"
            );
        }
    }

    #[test]
    fn a_newer_nonce_takes_the_place_of_an_older_one_and_never_gives_it_back() {
        let nonces = Nonces::new((1, 2), 4);
        let old = issued(&nonces, 1_000);
        assert_eq!(spend(&nonces, old, 1, 1, 1_000), Use::Accepted);
        for _ in 0..3 {
            issued(&nonces, 1_000);
        }
        assert_eq!(
            spend(&nonces, old, 2, 2, 1_000),
            Use::Accepted,
            "issued alone takes no place"
        );
        let new = issued(&nonces, 1_000);
        assert_eq!(spend(&nonces, new, 1, 3, 1_000), Use::Accepted);
        assert_eq!(spend(&nonces, old, 3, 4, 1_000), Use::Spent);
        assert_eq!(spend(&nonces, old, 2, 2, 1_000), Use::Spent);
        assert_eq!(spend(&nonces, new, 2, 5, 1_000), Use::Accepted);
    }

    #[test]
    fn of_many_that_use_a_count_at_once_one_is_accepted() {
        let nonces = Nonces::new((1, 2), 4);
        let nonce = issued(&nonces, 1_000);
        for count in 1..2_000 {
            let accepted = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for request in 0..2 {
                    // Each request differs: a repeated one would count as a retransmission.
                    let request = u64::from(count) * 2 + request;
                    let (nonces, accepted) = (&nonces, &accepted);
                    scope.spawn(move || {
                        if spend(nonces, nonce, count, request, 1_000) == Use::Accepted {
                            accepted.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(accepted.into_inner(), 1);
        }
    }

    #[test]
    fn the_fingerprint_tells_apart_what_runs_together() {
        let nonces = Nonces::new((1, 2), 4);
        let of = |parts: &[(u8, &'static [u8])]| nonces.fingerprint(parts.iter().copied());
        assert_eq!(of(&[(1, b"ab"), (2, b"c")]), of(&[(1, b"ab"), (2, b"c")]));
        assert_ne!(of(&[(1, b"ab"), (2, b"c")]), of(&[(1, b"a"), (2, b"bc")]));
        assert_ne!(of(&[(1, b"ab")]), of(&[(2, b"ab")]));
    }
}
