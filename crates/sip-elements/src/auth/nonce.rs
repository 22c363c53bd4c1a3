//! Nonces that need no table to be recognised: each carries when it was issued, a number, and a keyed hash over both and the
//! realm. What must be remembered is only how often one has been used (RFC 7616 section 3.3: `nc`), and that from its first
//! use with a right password on: a flood of requests that are only challenged costs nothing.
//!
//! ```text
//! nonce = base64url(seconds:4 number:6 mac:8), 24 characters
//! ```
//! The nonce is short because it is hashed with every request: with it, a usual request-digest takes two blocks of MD5, not three.

use sip_transport::Time;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Characters of a nonce.
pub(super) const NONCE_LENGTH: usize = 24;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// For how long the same request may come again after it was accepted: as long as any transaction would retransmit it
/// (64·T1, RFC 3261 section 17.1).
const RETRANSMISSION_SECONDS: u32 = 32;

/// Issues nonces and counts their uses.
pub struct Nonces {
    secret: (u64, u64),
    /// Nonces issued so far.
    issued: AtomicU64,
    /// Second from which on this process has issued nonces; 0: none yet. Older ones come from before a restart: how often they
    /// were used is forgotten, so they are not accepted any more.
    since: AtomicU32,
    uses: Box<[Uses]>,
}

/// The uses of one nonce. Its place is its number modulo the number of places.
struct Uses {
    /// Generation (32 bits: the nonce's number divided by the number of places, plus one; 0: never used) and the highest
    /// nonce-count accepted (32 bits).
    count: AtomicU64,
    /// Fingerprint of the request that brought that nonce-count (40 bits) and the second it came in (24 bits).
    last: AtomicU64,
}

/// One of our nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonce {
    seconds: u32,
    number: u64,
}

/// What the use of a nonce amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A new use, or the same request again.
    Accepted,
    /// The nonce-count, or a higher one, has been used by another request; or newer nonces have taken the place.
    Spent,
}

impl Nonces {
    /// With its secret, remembering the counts of the last `slots` nonces in use. The secret may survive a restart: then phones
    /// with an older nonce are told `stale=true` and need not bother their user.
    pub fn new(secret: (u64, u64), slots: usize) -> Self {
        // Zeroed memory that nobody touches stays with the system; so the table costs what is used of it.
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

    /// A new nonce for a realm.
    pub(super) fn issue(&self, realm: &[u8], now: Time) -> [u8; NONCE_LENGTH] {
        let number = self.issued.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff_ffff;
        let now = seconds(now);
        let mut since = self.since.load(Ordering::Relaxed);
        if since == 0 {
            // The next second: nonces of the process before us may bear this one.
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
        )
    }

    fn write(&self, nonce: Nonce, realm: &[u8]) -> [u8; NONCE_LENGTH] {
        let mut bytes = [0; 18];
        let parts = nonce
            .seconds
            .to_be_bytes()
            .into_iter()
            .chain(nonce.number.to_be_bytes().into_iter().skip(2));
        let mac = self.mac(nonce, realm).to_be_bytes();
        bytes
            .iter_mut()
            .zip(parts.chain(mac))
            .for_each(|(byte, part)| *byte = part);
        encode(&bytes)
    }

    /// Reads a nonce; `None` when it is not one of ours for that realm.
    pub(super) fn read(&self, text: &[u8], realm: &[u8]) -> Option<Nonce> {
        let bytes = decode(text.try_into().ok()?)?;
        let (seconds, rest) = bytes.split_first_chunk::<4>()?;
        let (number, mac) = rest.split_first_chunk::<6>()?;
        let number = number
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        let nonce = Nonce {
            seconds: u32::from_be_bytes(*seconds),
            number,
        };
        (self.mac(nonce, realm).to_be_bytes() == *mac).then_some(nonce)
    }

    fn mac(&self, nonce: Nonce, realm: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        hasher.write_u32(nonce.seconds);
        hasher.write_u64(nonce.number);
        hasher.write(realm);
        hasher.finish()
    }

    /// Whether a nonce is too old, or older than this process.
    pub(super) fn is_stale(&self, nonce: Nonce, lifetime: u64, now: Time) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        let age = u64::from(seconds(now).saturating_sub(nonce.seconds));
        since == 0 || nonce.seconds < since || age > lifetime
    }

    /// A keyed hash of what makes a request this request, for [`Nonces::spend`]: parts, each with what it is.
    pub(super) fn fingerprint<'p>(&self, parts: impl Iterator<Item = (u8, &'p [u8])>) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.secret.1, self.secret.0);
        for (kind, part) in parts {
            hasher.write_u64((part.len() as u64) << 8 | u64::from(kind));
            hasher.write(part);
        }
        hasher.finish()
    }

    /// Uses a nonce with a nonce-count. The same request again, within the time of retransmissions, is accepted again: it may
    /// be answered without a transaction. Any other request with a count that is not higher than all before is a replay.
    pub(super) fn spend(&self, nonce: Nonce, nonce_count: u32, fingerprint: u64, now: Time) -> Use {
        let places = self.uses.len() as u64;
        let Some(uses) = self.uses.get((nonce.number % places) as usize) else {
            return Use::Spent;
        };
        let generation = ((nonce.number / places) as u32).wrapping_add(1).max(1);
        let last = fingerprint << 24 | u64::from(seconds(now) & 0xff_ffff);
        let wanted = u64::from(generation) << 32 | u64::from(nonce_count);
        let mut current = uses.count.load(Ordering::Acquire);
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

fn seconds(now: Time) -> u32 {
    crate::location::unix_seconds(now)
}

/// Same fingerprint, and not long ago.
fn is_retransmission(before: u64, again: u64) -> bool {
    let age = (again.wrapping_sub(before)) & 0xff_ffff;
    before >> 24 == again >> 24 && age <= u64::from(RETRANSMISSION_SECONDS)
}

fn encode(bytes: &[u8; 18]) -> [u8; NONCE_LENGTH] {
    let mut text = [b'A'; NONCE_LENGTH];
    for (three, four) in bytes.chunks_exact(3).zip(text.chunks_exact_mut(4)) {
        let bits = three
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for (place, character) in four.iter_mut().enumerate() {
            let index = bits >> (18 - 6 * place) & 63;
            *character = ALPHABET.get(index as usize).copied().unwrap_or(b'A');
        }
    }
    text
}

/// The value of each character, 255 for all that are none.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut index = 0;
    while index < ALPHABET.len() {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values
};

fn decode(text: &[u8; NONCE_LENGTH]) -> Option<[u8; 18]> {
    let mut bytes = [0; 18];
    let mut seen = 0;
    for (four, three) in text.chunks_exact(4).zip(bytes.chunks_exact_mut(3)) {
        let mut bits = 0_u32;
        for character in four {
            let value = VALUES.get(usize::from(*character)).copied().unwrap_or(255);
            seen |= value;
            bits = bits << 6 | u32::from(value & 63);
        }
        let [_, a, b, c] = bits.to_be_bytes();
        three.copy_from_slice(&[a, b, c]);
    }
    (seen & 0b1100_0000 == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const REALM: &[u8] = b"example.org";

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    fn issued(nonces: &Nonces, now: u64) -> Nonce {
        nonces.read(&nonces.issue(REALM, at(now)), REALM).unwrap()
    }

    #[test]
    fn a_nonce_is_recognised_by_who_issued_it_for_its_realm_only() {
        let nonces = Nonces::new((1, 2), 8);
        let text = nonces.issue(REALM, at(1_000));
        assert!(nonces.read(&text, REALM).is_some());
        assert!(
            Nonces::new((1, 2), 4).read(&text, REALM).is_some(),
            "the same secret"
        );
        assert!(
            Nonces::new((1, 3), 8).read(&text, REALM).is_none(),
            "another secret"
        );
        assert!(
            nonces.read(&text, b"example.net").is_none(),
            "another realm"
        );
        assert_ne!(nonces.issue(REALM, at(1_000)), text);
    }

    #[test]
    fn no_changed_nonce_is_recognised() {
        let nonces = Nonces::new((1, 2), 8);
        let text = nonces.issue(REALM, at(1_000));
        for place in 0..text.len() {
            for character in (0..=255).filter(|character| *character != text[place]) {
                let mut changed = text;
                changed[place] = character;
                assert!(
                    nonces.read(&changed, REALM).is_none(),
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
            assert!(nonces.read(other, REALM).is_none());
        }
    }

    #[test]
    fn a_nonce_is_good_for_its_lifetime() {
        let nonces = Nonces::new((1, 2), 8);
        issued(&nonces, 0);
        let nonce = issued(&nonces, 1_000);
        assert!(!nonces.is_stale(nonce, 300, at(1_000)));
        assert!(!nonces.is_stale(nonce, 300, at(1_300)));
        assert!(nonces.is_stale(nonce, 300, at(1_301)));
    }

    #[test]
    fn nonces_of_the_process_before_are_recognised_but_stale() {
        let nonce = Nonces::new((1, 2), 8).issue(REALM, at(1_000));
        let restarted = Nonces::new((1, 2), 8);
        let nonce = restarted.read(&nonce, REALM).unwrap();
        assert!(restarted.is_stale(nonce, 300, at(1_000)), "none issued yet");
        let own = issued(&restarted, 1_002);
        assert!(restarted.is_stale(nonce, 300, at(1_002)));
        assert!(!restarted.is_stale(own, 300, at(1_002)));
        // Even one that was issued in the second of the restart.
        let other = Nonces::new((1, 2), 8);
        issued(&other, 1_000);
        let last = issued(&other, 1_002);
        assert!(restarted.is_stale(last, 300, at(1_002)));
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
                nonces.spend(nonce, count, request, at(now)),
                expected,
                "{count} {request} {now}"
            );
        }
    }

    #[test]
    fn a_newer_nonce_takes_the_place_of_an_older_one_and_never_gives_it_back() {
        let nonces = Nonces::new((1, 2), 4);
        let old = issued(&nonces, 1_000);
        assert_eq!(nonces.spend(old, 1, 1, at(1_000)), Use::Accepted);
        for _ in 0..3 {
            issued(&nonces, 1_000);
        }
        assert_eq!(
            nonces.spend(old, 2, 2, at(1_000)),
            Use::Accepted,
            "issued alone takes no place"
        );
        let new = issued(&nonces, 1_000);
        assert_eq!(nonces.spend(new, 1, 3, at(1_000)), Use::Accepted);
        assert_eq!(nonces.spend(old, 3, 4, at(1_000)), Use::Spent);
        assert_eq!(nonces.spend(old, 2, 2, at(1_000)), Use::Spent);
        assert_eq!(nonces.spend(new, 2, 5, at(1_000)), Use::Accepted);
    }

    #[test]
    fn of_many_that_use_a_count_at_once_one_is_accepted() {
        let nonces = Nonces::new((1, 2), 4);
        let nonce = issued(&nonces, 1_000);
        for count in 1..2_000 {
            let accepted = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for request in 0..2 {
                    let (nonces, accepted) = (&nonces, &accepted);
                    scope.spawn(move || {
                        if nonces.spend(nonce, count, request, at(1_000)) == Use::Accepted {
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
