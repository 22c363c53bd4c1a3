//! Hashes passwords for storage. The realm is the domain.

use sip_message::digest::{ha1_md5, ha1_sha256};
use tandem_store::{StoredCredentials, Subscriber};

/// Builds a subscriber from a password.
pub(crate) fn subscriber(username: String, domain: String, password: &str) -> Subscriber {
    let (user, realm, secret) = (username.as_bytes(), domain.as_bytes(), password.as_bytes());
    let credentials = StoredCredentials {
        ha1_md5: ha1_md5(user, realm, secret),
        ha1_sha256: ha1_sha256(user, realm, secret),
    };
    Subscriber {
        username,
        domain,
        credentials,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf 'alice:example.org:secret' | md5sum` and `sha256sum`.
    #[test]
    fn the_realm_of_the_hashes_is_the_domain() {
        let made = subscriber("alice".into(), "example.org".into(), "secret");
        assert_eq!(u128::from_be_bytes(made.credentials.ha1_md5), MD5);
        assert_eq!(made.credentials.ha1_sha256, SHA256);
    }

    const MD5: u128 = 0x543e_1aec_5d36_14f0_3141_652d_6ada_51b2;
    const SHA256: [u8; 32] = [
        0xd1, 0x65, 0x9f, 0xff, 0x7a, 0x50, 0x1b, 0xe1, 0x59, 0x62, 0xad, 0xc3, 0x55, 0x14, 0xca,
        0x6a, 0x58, 0x68, 0x90, 0x56, 0x95, 0xf2, 0xdd, 0x10, 0x93, 0x74, 0x1f, 0x93, 0x1e, 0x00,
        0x0a, 0x1f,
    ];
}
