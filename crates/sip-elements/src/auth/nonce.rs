//! Nonces that the server recognizes without a table.
//!
//! A nonce carries its time of issue, a number, and a keyed hash over both, the realm, and the source it was issued to.
//! So credentials that answer a nonce prove that their sender receives what the server sends to that source.
//!
//! The server only remembers how often a nonce has been used (RFC 7616 section 3.3: `nc`), beginning with its first use
//! with a right password. So a flood of requests that are only challenged costs nothing.
//!
//! ```text
//! nonce = base64url(seconds:4 issuer:2 number:5 mac:5), 22 characters
//! ```
//! The nonce is short because it is hashed with every request. With it, a usual request-digest takes two blocks of MD5,
//! not three.
//!
//! A MAC can be guessed in 2⁴⁰ requests, but that gains nothing: without the password, a nonce of the attacker's choice
//! is worth no more than ours.
//!
//! In a fleet, each process has an issuer number, and nodes tell each other the uses ([`Nonces::join`]). Alone, it is 0.

use super::shared_uses::{NonceUse, OfIssuer, SharedUses};
use super::uses::{Use, UseTable};
use crate::bans::Source;
use sip_transport::Time;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The length of a nonce in characters.
pub(super) const NONCE_LENGTH: usize = 22;
const BYTES: usize = 16;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Issues nonces and counts their uses.
pub struct Nonces {
    secret: (u64, u64),
    /// The number of nonces issued.
    issued: AtomicU64,
    /// The second from which on this process has issued nonces; 0 means none yet. Older nonces come from before a
    /// restart. Their uses are forgotten, so they are no longer accepted.
    since: AtomicU32,
    /// The uses of the nonces of this process.
    uses: UseTable,
    /// What is shared with the other nodes of a fleet.
    shared: OnceLock<SharedUses>,
}

/// A nonce that this server issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonce {
    seconds: u32,
    issuer: u16,
    number: u64,
}

/// The slot of a nonce and its content at the time of the lookup.
pub(super) struct Used<'n> {
    nonce: Nonce,
    table: Table<'n>,
    count: u64,
}

enum Table<'n> {
    Own(&'n UseTable),
    Other(Arc<OfIssuer>),
}

impl Table<'_> {
    fn uses(&self) -> &UseTable {
        match self {
            Self::Own(uses) => uses,
            Self::Other(other) => &other.uses,
        }
    }
}

/// Why a nonce was not recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It has our format, but was issued to another source, for another realm, with another secret, or never.
    Foreign,
    /// It does not have our format.
    Misshapen,
}

impl Nonces {
    /// Remembers the counts of the last `slots` nonces in use. If the secret survives a restart, phones with an older
    /// nonce get `stale=true` and do not have to ask their user.
    pub fn new(secret: (u64, u64), slots: usize) -> Self {
        Self {
            secret,
            issued: AtomicU64::new(0),
            since: AtomicU32::new(0),
            uses: UseTable::new(slots),
            shared: OnceLock::new(),
        }
    }

    /// Joins the fleet, before the first nonce is issued. No other process of the fleet may have this issuer number, which is not 0. From then
    /// on nonces of the other processes are accepted, uses are kept for [`Nonces::take_uses`], and those of others must be given to
    /// [`Nonces::note_use`]. Returns the issuer number in force, which is that of the first call.
    pub fn join(&self, issuer: u16) -> u16 {
        self.shared.get_or_init(|| SharedUses::new(issuer)).issuer
    }

    /// The oldest uses that other nodes have not been told, at most so many. If nobody takes them, 65,536 wait, and further ones are lost.
    pub fn take_uses(&self, most: usize) -> Vec<NonceUse> {
        self.shared
            .get()
            .map(|shared| shared.take(most))
            .unwrap_or_default()
    }

    /// The number of uses that were lost because too many waited.
    pub fn lost_uses(&self) -> u64 {
        self.shared.get().map_or(0, SharedUses::lost)
    }

    /// Notes a use that another node has accepted.
    pub fn note_use(&self, used: NonceUse) {
        let Some(table) = self.table(used.issuer) else {
            return;
        };
        let uses = table.uses();
        let request = (used.nonce_count, used.last);
        uses.spend(used.number, uses.count(used.number), request);
    }

    /// Whether uses are shared with other nodes.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    fn issuer(&self) -> u16 {
        self.shared.get().map_or(0, |shared| shared.issuer)
    }

    /// The uses of the nonces of a process. `None` if they are not known.
    fn table(&self, issuer: u16) -> Option<Table<'_>> {
        match self.shared.get() {
            Some(shared) if shared.issuer != issuer => {
                Some(Table::Other(shared.of(issuer, self.uses.slots())?))
            }
            _ => Some(Table::Own(&self.uses)),
        }
    }

    /// Issues a new nonce for a realm, valid from this source only.
    pub(super) fn issue(&self, realm: &[u8], source: Source, now: Time) -> [u8; NONCE_LENGTH] {
        let number = self.issued.fetch_add(1, Ordering::Relaxed) & 0xff_ffff_ffff;
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
                issuer: self.issuer(),
                number,
            },
            realm,
            source,
        )
    }

    fn write(&self, nonce: Nonce, realm: &[u8], source: Source) -> [u8; NONCE_LENGTH] {
        let [_, _, _, number @ ..] = nonce.number.to_be_bytes();
        let mac = self.mac(nonce, realm, source);
        let mut bytes = [0; BYTES];
        let parts = nonce
            .seconds
            .to_be_bytes()
            .into_iter()
            .chain(nonce.issuer.to_be_bytes())
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

    fn mac(&self, nonce: Nonce, realm: &[u8], source: Source) -> [u8; 5] {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        hasher.write_u32(nonce.seconds);
        hasher.write_u64(u64::from(nonce.issuer) << 48 | nonce.number);
        hasher.write_u64(source.bits());
        hasher.write(realm);
        let [_, _, _, mac @ ..] = hasher.finish().to_be_bytes();
        mac
    }

    /// Whether a nonce is too old.
    pub(super) fn is_expired(nonce: Nonce, lifetime: u64, now: Time) -> bool {
        u64::from(seconds(now).saturating_sub(nonce.seconds)) > lifetime
    }

    /// Whether a nonce is older than this process, which does not know its uses.
    pub(super) fn is_of_another_process(&self, nonce: Nonce) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since == 0 || nonce.seconds < since || nonce.issuer != self.issuer()
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

    /// Looks up the uses of a nonce; `None` if they are forgotten. Call it early, so that the memory access overlaps with the computation of
    /// the digest.
    pub(super) fn used(&self, nonce: Nonce) -> Option<Used<'_>> {
        let table = self.table(nonce.issuer)?;
        let count = table.uses().count(nonce.number);
        Some(Used {
            nonce,
            table,
            count,
        })
    }

    /// Uses a nonce with a nonce-count, for a request with this fingerprint. Returns whether that is allowed.
    pub(super) fn spend(
        &self,
        used: &Used<'_>,
        nonce_count: u32,
        fingerprint: u64,
        now: Time,
    ) -> bool {
        let Nonce { issuer, number, .. } = used.nonce;
        let last = fingerprint << 24 | u64::from(seconds(now) & 0xff_ffff);
        let result = used
            .table
            .uses()
            .spend(number, used.count, (nonce_count, last));
        if let (Use::New, Some(shared)) = (result, self.shared.get()) {
            shared.offer(NonceUse {
                issuer,
                number,
                nonce_count,
                last,
            });
        }
        result != Use::Spent
    }
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nonces")
            .field("issued", &self.issued)
            .field("places", &self.uses.slots())
            .finish_non_exhaustive()
    }
}

/// Splits a nonce into its fields and its MAC.
fn split(text: &[u8]) -> Option<(Nonce, [u8; 5])> {
    let bytes = decode(text.try_into().ok()?)?.to_be_bytes();
    let (seconds, rest) = bytes.split_first_chunk::<4>()?;
    let (issuer, rest) = rest.split_first_chunk::<2>()?;
    let (number, mac) = rest.split_first_chunk::<5>()?;
    let number = number
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    let nonce = Nonce {
        seconds: u32::from_be_bytes(*seconds),
        issuer: u16::from_be_bytes(*issuer),
        number,
    };
    Some((nonce, mac.try_into().ok()?))
}

fn seconds(now: Time) -> u32 {
    crate::location::unix_seconds(now)
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

    fn spend(nonces: &Nonces, nonce: Nonce, count: u32, request: u64, now: u64) -> bool {
        nonces.spend(&nonces.used(nonce).unwrap(), count, request, at(now))
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
            (1, 10, 1_000, true),
            (1, 10, 1_032, true),
            (1, 10, 1_033, false),
            (1, 11, 1_000, false),
            (5, 12, 1_001, true),
            (4, 13, 1_001, false),
            (1, 10, 1_001, false),
            (5, 12, 1_001, true),
            (6, 12, 1_001, true),
            (5, 12, 1_001, false),
            (u32::MAX, 14, 1_001, true),
            (u32::MAX, 14, 1_001, true),
            (u32::MAX, 15, 1_001, false),
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
        assert!(spend(&nonces, old, 1, 1, 1_000));
        for _ in 0..3 {
            issued(&nonces, 1_000);
        }
        assert!(
            spend(&nonces, old, 2, 2, 1_000),
            "issued alone takes no place"
        );
        let new = issued(&nonces, 1_000);
        assert!(spend(&nonces, new, 1, 3, 1_000));
        assert!(!spend(&nonces, old, 3, 4, 1_000));
        assert!(!spend(&nonces, old, 2, 2, 1_000));
        assert!(spend(&nonces, new, 2, 5, 1_000));
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
                        if spend(nonces, nonce, count, request, 1_000) {
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

    /// Two nodes of a fleet, and a nonce of the first one.
    fn fleet() -> ([Nonces; 2], Nonce) {
        let nodes = [1, 2].map(|issuer| {
            let nonces = Nonces::new((1, 2), 8);
            nonces.join(issuer);
            nonces
        });
        let nonce = issued(&nodes[0], 1_000);
        (nodes, nonce)
    }

    fn tell(from: &Nonces, to: &Nonces) -> usize {
        let uses = from.take_uses(100);
        for used in &uses {
            let mut bytes = Vec::new();
            used.write(&mut bytes);
            assert_eq!(bytes.len(), NonceUse::LENGTH);
            to.note_use(NonceUse::read(&bytes).expect("a use"));
        }
        uses.len()
    }

    #[test]
    fn a_use_at_one_node_of_a_fleet_counts_at_the_other() {
        let ([first, second], nonce) = fleet();
        assert!(first.is_shared() && second.is_of_another_process(nonce));
        assert!(spend(&first, nonce, 1, 10, 1_000));
        assert_eq!(tell(&first, &second), 1);
        assert!(!spend(&second, nonce, 1, 11, 1_001), "a replay");
        assert!(spend(&second, nonce, 1, 10, 1_001), "a retransmission");
        assert!(spend(&second, nonce, 2, 12, 1_001));
        assert_eq!(tell(&second, &first), 1, "a retransmission is no use");
        assert!(
            !spend(&first, nonce, 2, 13, 1_002),
            "a replay at the issuer"
        );
        assert!(spend(&first, nonce, 3, 14, 1_002));
    }

    #[test]
    fn nonces_of_two_nodes_with_one_number_have_uses_of_their_own() {
        let ([first, second], nonce) = fleet();
        let other = issued(&second, 1_000);
        assert_eq!(nonce.number, other.number);
        assert!(spend(&second, nonce, 1, 10, 1_000));
        assert!(spend(&second, other, 1, 11, 1_000));
        assert_eq!(tell(&second, &first), 2);
        assert!(!spend(&first, nonce, 1, 12, 1_000));
        assert!(!spend(&first, other, 1, 12, 1_000));
    }

    #[test]
    fn the_table_of_a_process_ends_when_a_later_one_takes_its_place() {
        let ([first, _], nonce) = fleet();
        let of = |issuer| Nonce { issuer, ..nonce };
        assert!(first.used(of(2)).is_some());
        assert!(first.used(of(2 + 256)).is_some());
        assert!(first.used(of(2)).is_none());
    }

    #[test]
    fn uses_that_nobody_takes_are_bounded() {
        let ([first, _], nonce) = fleet();
        for count in 1..=65_540 {
            assert!(spend(&first, nonce, count, 1, 1_000));
        }
        assert_eq!(first.lost_uses(), 4);
        assert_eq!(first.take_uses(100_000).len(), 65_536);
    }
}
