//! Subscribers, and what can happen to them.

use std::fmt;

/// What the store keeps of a password: H(username:domain:password), with the domain as realm (RFC 7616 section 3.4.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredCredentials {
    /// HA1 with MD5.
    pub ha1_md5: [u8; 16],
    /// HA1 with SHA-256.
    pub ha1_sha256: [u8; 32],
}

/// Prints no hashes: for digest, an HA1 is as good as the password.
impl fmt::Debug for StoredCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("StoredCredentials")
    }
}

/// One subscriber. The store keeps names as given: the caller passes the canonical form (domain in lower case).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// User part of the address of record.
    pub username: String,
    /// Domain of the address of record, which is also the digest realm.
    pub domain: String,
    /// The hashes kept instead of the password.
    pub credentials: StoredCredentials,
}

/// What happens to a subscriber's registrations when the password changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registrations {
    /// They end, so that devices with the old password receive no more calls.
    End,
    /// They stay until they expire.
    Keep,
}

/// What happens to subscribers that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They stay as they are.
    Keep,
    /// They get the new password. If a batch has two entries for one name, the later one counts.
    Replace,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// New subscribers.
    pub added: u64,
    /// Subscribers that got another password.
    pub replaced: u64,
    /// Positions in the batch of subscribers that existed and were kept.
    pub kept: Vec<usize>,
}

/// Which subscribers changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// These (username, domain) were added, removed, or got another password. The oldest change comes first; a name may
    /// appear twice.
    Named(Vec<(String, String)>),
    /// More changes than are remembered: any cached entry may be wrong.
    Anything,
}

/// The changes since a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberChanges {
    /// The current version, for the next call of [`Subscribers::changes_since`](crate::Subscribers::changes_since).
    pub version: u64,
    /// The changes up to that version.
    pub changed: Changed,
}
