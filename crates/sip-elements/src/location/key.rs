//! Under which key an address of record is found: a keyed 128-bit hash, so that no table holds a second copy of the address
//! and nobody outside can make two of them meet.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// Stands for an address of record in a table. Two addresses never meet in practice: among a million the chance is below
/// 10⁻²⁶.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressKey(u64, u64);

impl AddressKey {
    /// Before all others.
    pub(crate) const LEAST: Self = Self(0, 0);
    /// After all others.
    pub(crate) const GREATEST: Self = Self(u64::MAX, u64::MAX);
    /// One of sixteen parts that keys are spread over evenly.
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

    /// With a secret of this process.
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

    /// The same, of `user` and `domain`.
    pub(crate) fn key_of_user(&self, username: &[u8], domain: &[u8]) -> AddressKey {
        self.key_of_parts(&[username, b"@", domain])
    }

    /// The same, of any parts; where one ends and the next begins makes no difference.
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

/// Takes half of a key as its hash: it is one already.
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

/// A concurrent map from addresses of record.
pub(crate) type AddressMap<V> = papaya::HashMap<AddressKey, V, BuildHasherDefault<KeyIsHash>>;

/// An empty [`AddressMap`].
pub(crate) fn address_map<V>() -> AddressMap<V> {
    papaya::HashMap::builder()
        .hasher(BuildHasherDefault::default())
        .build()
}

/// Makes room for a quarter more, before a worker needs it. A map that grows under the hands of the workers is moved by them
/// piece by piece, and until the last piece every lookup goes through two tables; here it is moved at once. Off the call
/// path.
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
