//! The key of an address of record: a keyed 128-bit hash. So no table needs a second copy of the address, and an attacker
//! cannot cause collisions.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// Represents an address of record in a table. Collisions do not occur in practice: among a million addresses the
/// probability is below 10⁻²⁶.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressKey(u64, u64);

impl AddressKey {
    /// The lowest key.
    pub(crate) const LEAST: Self = Self(0, 0);
    /// The highest key.
    pub(crate) const GREATEST: Self = Self(u64::MAX, u64::MAX);
    /// The index, below 16, of the part that this key belongs to. Keys are spread evenly over the parts.
    pub(crate) const fn sixteenth(self) -> usize {
        (self.1 & 15) as usize
    }
}

impl Hash for AddressKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Computes keys with a secret.
#[derive(Clone, Copy)]
pub(crate) struct AddressHasher {
    secret: (u64, u64),
}

impl AddressHasher {
    pub(crate) const fn new(secret: (u64, u64)) -> Self {
        Self { secret }
    }

    /// Creates a hasher with a random secret.
    pub(crate) fn random() -> Self {
        Self::new((
            RandomState::new().hash_one(0),
            RandomState::new().hash_one(1),
        ))
    }

    /// The key of `user@domain`.
    pub(crate) fn key(&self, address: &[u8]) -> AddressKey {
        self.key_of_parts(&[address])
    }

    /// The same key, from `user` and `domain`.
    pub(crate) fn key_of_user(&self, username: &[u8], domain: &[u8]) -> AddressKey {
        self.key_of_parts(&[username, b"@", domain])
    }

    /// The same key, from any parts. The boundaries between the parts make no difference.
    pub(crate) fn key_of_parts(&self, parts: &[&[u8]]) -> AddressKey {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        for part in parts {
            hasher.write(part);
        }
        let hash = hasher.finish128();
        AddressKey(hash.h1, hash.h2)
    }
}

impl std::fmt::Debug for AddressHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AddressHasher") // The secret stays out of logs.
    }
}

/// Uses half of a key as its hash, because a key is already a hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyIsHash(u64);

impl Hasher for KeyIsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// A concurrent map with addresses of record as keys.
pub(crate) type AddressMap<V> = papaya::HashMap<AddressKey, V, BuildHasherDefault<KeyIsHash>>;

pub(crate) fn address_map<V>() -> AddressMap<V> {
    papaya::HashMap::builder()
        .hasher(BuildHasherDefault::default())
        .build()
}

/// Reserves room for a quarter more entries, outside the call path.
///
/// If a map must grow while workers use it, they move it piece by piece. Until the last piece every lookup goes through
/// two tables. Here the map is moved at once.
pub(crate) fn make_room<V>(map: &AddressMap<V>) {
    let map = map.pin();
    map.reserve(map.len() / 4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_address_hash_as_the_whole() {
        let hasher = AddressHasher::new((1, 2));
        assert_eq!(
            hasher.key(b"alice@example.org"),
            hasher.key_of_user(b"alice", b"example.org")
        );
        assert_ne!(
            hasher.key(b"alice@example.org"),
            hasher.key_of_user(b"alic", b"eexample.org")
        );
        assert_ne!(
            hasher.key(b"alice@example.org"),
            AddressHasher::new((1, 3)).key(b"alice@example.org")
        );
    }
}
