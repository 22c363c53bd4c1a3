//! What a row of `subscriber` says about a password.
//!
//! Kamailio's own columns hold the password in clear, H(username:domain:password) as `ha1`, or both. `ha1b` is the hash for phones that send
//! `user@domain` as username; Tandem does not need it, because it removes the domain.

use super::reader::SubscriberRow;
use crate::subscriber::StoredCredentials;
use sip_message::digest::{ha1_md5, ha1_sha256};
use std::borrow::Cow;

/// How rows are read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'o> {
    pub(super) default_domain: &'o str,
    /// Only `password` counts.
    pub(super) calculate_ha1: bool,
    /// Stands for hashes that can't be computed.
    pub(super) no_hash: &'o StoredCredentials,
}

/// Credentials, and what to tell about them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) credentials: StoredCredentials,
    pub(super) note: Note,
}

/// What is odd about credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Nothing,
    OnlyMd5,
    OnlySha256,
    /// Only a hash, in a row whose domain has upper-case letters. Phones hash the domain in lower case.
    OtherCase,
    /// `password` and `ha1` belong to different passwords, and `ha1` counts.
    Contradiction,
}

/// Why a row says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    NoPassword,
    BadHash,
}

/// The hash of one algorithm.
#[derive(Clone, Copy)]
enum Hash {
    Md5([u8; 16]),
    Sha256([u8; 32]),
}

impl Reading<'_> {
    /// The domain of a row in canonical form.
    pub(super) fn domain<'r>(&'r self, row: &SubscriberRow<'r>) -> Cow<'r, str> {
        canonical(row.domain, self.default_domain)
    }

    /// The credentials of a row.
    pub(super) fn credentials(&self, row: &SubscriberRow<'_>) -> Result<Usable, Unusable> {
        let realm = self.domain(row);
        if self.calculate_ha1 || row.ha1.is_empty() {
            if row.password.is_empty() {
                return Err(Unusable::NoPassword);
            }
            return Ok(of_password(row, &realm));
        }
        let hash = Hash::parse(row.ha1).ok_or(Unusable::BadHash)?;
        let realms = [&*realm, row.domain];
        if !row.password.is_empty() && realms.iter().any(|realm| hash.is_of(row, realm)) {
            return Ok(of_password(row, &realm));
        }
        let unknown = *self.no_hash;
        let (credentials, only) = match hash {
            Hash::Md5(ha1_md5) => (StoredCredentials { ha1_md5, ..unknown }, Note::OnlyMd5),
            Hash::Sha256(ha1_sha256) => (
                StoredCredentials {
                    ha1_sha256,
                    ..unknown
                },
                Note::OnlySha256,
            ),
        };
        let note = if !row.password.is_empty() {
            Note::Contradiction
        } else if !row.domain.is_empty() && *realm != *row.domain {
            Note::OtherCase
        } else {
            only
        };
        Ok(Usable { credentials, note })
    }
}

/// A domain in lower case; the default for a row without one, as Kamailio writes with `use_domain = 0`.
pub(super) fn canonical<'d>(domain: &'d str, default: &'d str) -> Cow<'d, str> {
    if domain.is_empty() {
        return Cow::Borrowed(default);
    }
    if domain.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(domain.to_ascii_lowercase());
    }
    Cow::Borrowed(domain)
}

fn of_password(row: &SubscriberRow<'_>, realm: &str) -> Usable {
    let [user, realm, password] = [row.username, realm, row.password].map(str::as_bytes);
    Usable {
        credentials: StoredCredentials {
            ha1_md5: ha1_md5(user, realm, password),
            ha1_sha256: ha1_sha256(user, realm, password),
        },
        note: Note::Nothing,
    }
}

impl Hash {
    /// Reads 32 or 64 hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        hexadecimal(text)
            .map(Self::Md5)
            .or_else(|| hexadecimal(text).map(Self::Sha256))
    }

    fn is_of(self, row: &SubscriberRow<'_>, realm: &str) -> bool {
        let [user, realm, password] = [row.username, realm, row.password].map(str::as_bytes);
        match self {
            Self::Md5(hash) => ha1_md5(user, realm, password) == hash,
            Self::Sha256(hash) => ha1_sha256(user, realm, password) == hash,
        }
    }
}

fn hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|it| u8::try_from(it).ok())
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HASH: StoredCredentials = StoredCredentials {
        ha1_md5: [7; 16],
        ha1_sha256: [7; 32],
    };

    fn read(columns: [&str; 4], calculate_ha1: bool) -> Result<Usable, Unusable> {
        let [username, domain, password, ha1] = columns;
        let reading = Reading {
            default_domain: "example.org",
            calculate_ha1,
            no_hash: &NO_HASH,
        };
        reading.credentials(&SubscriberRow {
            username,
            domain,
            password,
            ha1,
        })
    }

    fn hex(bytes: &[u8]) -> String {
        bytes
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    fn of(realm: &[u8], password: &[u8]) -> StoredCredentials {
        StoredCredentials {
            ha1_md5: ha1_md5(b"alice", realm, password),
            ha1_sha256: ha1_sha256(b"alice", realm, password),
        }
    }

    #[test]
    fn a_password_gives_both_hashes_with_the_canonical_domain_as_realm() {
        let ha1 = hex(&ha1_md5(b"alice", b"example.org", b"secret"));
        let of_other_case = hex(&ha1_md5(b"alice", b"Example.ORG", b"secret"));
        for (domain, ha1) in [
            ("example.org", ""),
            ("", ""),
            ("example.org", &*ha1),
            ("", &*ha1.to_uppercase()),
            ("Example.ORG", &*of_other_case),
        ] {
            let usable = read(["alice", domain, "secret", ha1], false).expect("usable");
            assert_eq!(usable.note, Note::Nothing, "{domain} {ha1}");
            assert!(
                usable.credentials == of(b"example.org", b"secret"),
                "{domain} {ha1}"
            );
        }
    }

    #[test]
    fn a_hash_alone_serves_its_algorithm_only() {
        let both = of(b"example.org", b"secret");
        let md5 = read(["alice", "example.org", "", &hex(&both.ha1_md5)], false);
        let md5 = md5.expect("usable");
        assert_eq!(md5.note, Note::OnlyMd5);
        assert_eq!(md5.credentials.ha1_md5, both.ha1_md5);
        assert_eq!(md5.credentials.ha1_sha256, [7; 32]);
        let sha256 = read(["alice", "example.org", "", &hex(&both.ha1_sha256)], false);
        let sha256 = sha256.expect("usable");
        assert_eq!(sha256.note, Note::OnlySha256);
        assert_eq!(sha256.credentials.ha1_sha256, both.ha1_sha256);
        assert_eq!(sha256.credentials.ha1_md5, [7; 16]);
    }

    #[test]
    fn a_hash_alone_is_odd_if_its_domain_has_upper_case_letters() {
        let ha1 = "0".repeat(32);
        for (domain, password, expected) in [
            ("Example.ORG", "", Note::OtherCase),
            ("", "", Note::OnlyMd5),
            ("Example.ORG", "secret", Note::Contradiction),
        ] {
            let usable = read(["alice", domain, password, &ha1], false).expect("usable");
            assert_eq!(usable.note, expected, "{domain}");
        }
    }

    #[test]
    fn of_a_password_and_a_hash_that_contradict_each_other_the_configured_one_counts() {
        let ha1 = hex(&of(b"example.org", b"new").ha1_md5);
        let columns = ["alice", "example.org", "old", &*ha1];
        let usable = read(columns, false).expect("usable");
        assert_eq!(usable.note, Note::Contradiction);
        assert_eq!(
            usable.credentials.ha1_md5,
            of(b"example.org", b"new").ha1_md5
        );
        let usable = read(columns, true).expect("usable");
        assert!(usable.credentials == of(b"example.org", b"old"));
    }

    #[test]
    fn a_row_without_anything_usable_says_why() {
        let ha1 = "0".repeat(32);
        for (password, ha1, calculate_ha1, expected) in [
            ("", "", false, Unusable::NoPassword),
            ("", &*ha1, true, Unusable::NoPassword),
            ("", "not a hash", false, Unusable::BadHash),
            ("secret", &ha1[1..], false, Unusable::BadHash),
            (
                "",
                "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
                false,
                Unusable::BadHash,
            ),
        ] {
            let read = read(["alice", "example.org", password, ha1], calculate_ha1);
            assert_eq!(read, Err(expected), "{password} {ha1}");
        }
    }
}
