//! Digest calculations (RFC 7616, RFC 8760): pure functions without policy, and the client's side.
mod client;
mod wallet;

pub use client::{Account, ClientNonce};
pub use wallet::{Credential, Line, Wallet};

use md5::Md5;
use sha2::{Digest, Sha256};

/// The supported algorithms of RFC 8760, the weaker one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-256.
    Sha256,
}

impl Algorithm {
    /// Parses the `algorithm` parameter, ignoring case. If it is absent, the algorithm is MD5.
    pub fn from_token(token: Option<&[u8]>) -> Option<Self> {
        match token {
            None => Some(Self::Md5),
            Some(token) if token.eq_ignore_ascii_case(b"MD5") => Some(Self::Md5),
            Some(token) if token.eq_ignore_ascii_case(b"SHA-256") => Some(Self::Sha256),
            Some(_) => None,
        }
    }

    /// The token in a challenge.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }
}

/// H(username:realm:password) with MD5, binary.
pub fn ha1_md5(username: &[u8], realm: &[u8], password: &[u8]) -> [u8; 16] {
    joined::<Md5>(&[username, realm, password]).into()
}

/// H(username:realm:password) with SHA-256, binary.
pub fn ha1_sha256(username: &[u8], realm: &[u8], password: &[u8]) -> [u8; 32] {
    joined::<Sha256>(&[username, realm, password]).into()
}

/// The inputs of a request-digest besides HA1.
#[derive(Clone, Copy, Debug)]
pub struct DigestInput<'a> {
    /// Method token.
    pub method: &'a [u8],
    /// The digest-uri as received.
    pub uri: &'a [u8],
    /// The nonce as received.
    pub nonce: &'a [u8],
    /// With qop=auth: nc as received (8 hex digits) and cnonce. `None` for RFC 2069 clients.
    pub qop_auth: Option<(&'a [u8], &'a [u8])>,
}

/// The request-digest in lower-case hex, 32 bytes.
pub fn response_md5(ha1: &[u8; 16], input: &DigestInput<'_>) -> [u8; 32] {
    let ha2: [u8; 16] = joined::<Md5>(&[input.method, input.uri]).into();
    let digest: [u8; 16] =
        request_digest::<Md5>(&hex::<16, 32>(ha1), input, &hex::<16, 32>(&ha2)).into();
    hex(&digest)
}

/// The request-digest in lower-case hex, 64 bytes.
pub fn response_sha256(ha1: &[u8; 32], input: &DigestInput<'_>) -> [u8; 64] {
    let ha2: [u8; 32] = joined::<Sha256>(&[input.method, input.uri]).into();
    let digest: [u8; 32] =
        request_digest::<Sha256>(&hex::<32, 64>(ha1), input, &hex::<32, 64>(&ha2)).into();
    hex(&digest)
}

/// Compares hex digests in constant time, ignoring the case of letters.
pub fn equal_hex(ours: &[u8], theirs: &[u8]) -> bool {
    // The length is not a secret.
    if ours.len() != theirs.len() {
        return false;
    }
    let difference = ours
        .iter()
        .zip(theirs)
        .fold(0, |difference, (ours, theirs)| {
            difference | (ours.to_ascii_lowercase() ^ theirs.to_ascii_lowercase())
        });
    std::hint::black_box(difference) == 0
}

/// RFC 7616 section 3.4.1; without qop, RFC 2069.
fn request_digest<D: Digest>(
    ha1: &[u8],
    input: &DigestInput<'_>,
    ha2: &[u8],
) -> sha2::digest::Output<D> {
    match input.qop_auth {
        Some((nc, cnonce)) => joined::<D>(&[ha1, input.nonce, nc, cnonce, b"auth", ha2]),
        None => joined::<D>(&[ha1, input.nonce, ha2]),
    }
}

/// H(parts joined by colons).
fn joined<D: Digest>(parts: &[&[u8]]) -> sha2::digest::Output<D> {
    let mut hasher = D::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    hasher.finalize()
}

/// Encodes bytes in lower-case hex. `M` must be twice `N`.
pub fn hex<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u8; M] {
    let mut digits = [0; M];
    for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    digits
}

/// A lower-case hex digit. It has no branch, so that the compiler can vectorize the loop.
fn digit(nibble: u8) -> u8 {
    b'0' + nibble + u8::from(nibble > 9) * (b'a' - b'9' - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7616 section 3.9.1.
    const RFC_7616: DigestInput<'_> = DigestInput {
        method: b"GET",
        uri: b"/dir/index.html",
        nonce: b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        qop_auth: Some((b"00000001", b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")),
    };

    #[test]
    fn md5_gives_the_response_of_rfc_7616() {
        let ha1 = ha1_md5(b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        assert_eq!(
            &response_md5(&ha1, &RFC_7616),
            b"8ca523f5e9506fed4657c9700eebdbec"
        );
    }

    #[test]
    fn sha_256_gives_the_response_of_rfc_7616() {
        let ha1 = ha1_sha256(b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        let expected = b"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
        assert_eq!(&response_sha256(&ha1, &RFC_7616), expected);
    }

    #[test]
    fn without_qop_the_response_is_that_of_rfc_2069_as_corrected() {
        let ha1 = ha1_md5(b"Mufasa", b"testrealm@host.com", b"CircleOfLife");
        let nonce = b"dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let input = DigestInput {
            method: b"GET",
            uri: b"/dir/index.html",
            nonce,
            qop_auth: None,
        };
        assert_eq!(
            &response_md5(&ha1, &input),
            b"1949323746fe6a43ef61f9606e7febea"
        );
    }

    #[test]
    fn hex_digests_are_equal_in_either_case_and_only_as_a_whole() {
        assert!(equal_hex(b"8ca523f5", b"8CA523f5"));
        assert!(!equal_hex(b"8ca523f5", b"8ca523f6"));
        assert!(!equal_hex(b"8ca523f5", b"8ca523f"));
        assert!(!equal_hex(b"8ca523f5", b""));
    }

    #[test]
    fn an_absent_algorithm_is_md5_and_an_unknown_one_none() {
        assert_eq!(Algorithm::from_token(None), Some(Algorithm::Md5));
        for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
            assert_eq!(
                Algorithm::from_token(Some(algorithm.token().to_lowercase().as_bytes())),
                Some(algorithm)
            );
        }
        assert_eq!(Algorithm::from_token(Some(b"MD5-sess")), None);
        assert_eq!(Algorithm::from_token(Some(b"")), None);
    }
}
