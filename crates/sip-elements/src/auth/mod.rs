//! Digest authentication (RFC 3261 section 22, RFC 7616, RFC 8760): nonces that carry their own time and MAC, replay
//! protection by nonce count, cached credentials, and the check of the claimed identity.

mod cache;
mod challenge;
mod nonce;
mod shared_uses;
mod uses;
mod verify;

pub use cache::{Asking, Cached, CredentialCache};
pub use challenge::{Challenge, add_challenges};
pub use nonce::Nonces;
pub use shared_uses::NonceUse;
pub use verify::{Subject, Verdict, verify};

/// A password as the store keeps it: H(user:realm:password) for both algorithms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredCredentials {
    /// The MD5 hash.
    pub ha1_md5: [u8; 16],
    /// The SHA-256 hash.
    pub ha1_sha256: [u8; 32],
}

impl std::fmt::Debug for StoredCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredCredentials") // Not in logs: these are enough to log in.
    }
}

/// The role that asks for credentials: 401 with WWW-Authenticate, or 407 with Proxy-Authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by who they are")]
pub enum Challenger {
    Registrar,
    Proxy,
}
