//! `Sec-WebSocket-Key` and `Sec-WebSocket-Accept` (RFC 6455 section 1.3).
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha1::{Digest, Sha1};

/// Allows trailing bits: the RFC's own example of a key (section 4.1) has bits set after its last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a key is sixteen bytes in base64.
pub(super) fn is_key(key: &[u8]) -> bool {
    let mut octets = [0; 18];
    key.len() == 24 && BASE64.decode_slice(key, &mut octets) == Ok(16)
}

/// Encodes sixteen bytes as a key.
pub(super) fn encode_key(nonce: [u8; 16]) -> [u8; 24] {
    let mut key = [0; 24];
    let written = BASE64.encode_slice(nonce, &mut key);
    debug_assert_eq!(written, Ok(24));
    key
}

/// The value of `Sec-WebSocket-Accept`, which proves that the server has read the key.
pub(super) fn accept(key: &[u8]) -> [u8; 28] {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut accept = [0; 28];
    let written = BASE64.encode_slice(digest, &mut accept);
    debug_assert_eq!(written, Ok(28));
    accept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        assert!(is_key(b"dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(
            &accept(b"dGhlIHNhbXBsZSBub25jZQ=="),
            b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert!(is_key(b"AQIDBAUGBwgJCgsMDQ4PEC=="));
        assert_eq!(
            &encode_key(*b"the sample nonce"),
            b"dGhlIHNhbXBsZSBub25jZQ=="
        );
    }

    #[test]
    fn a_key_is_sixteen_octets_in_base64() {
        for key in [
            "",
            "dGhlIHNhbXBsZSBub25jZQ",
            "dGhlIHNhbXBsZSBub25jZQ=",
            "dGhlIHNhbXBsZSBub25j",
            "dGhlIHNhbXBsZSBub25jZSEh",
            "dGhlIHNhbXBsZSBub25jZSE=",
            "dGhl!HNhbXBsZSBub25jZQ==",
        ] {
            assert!(!is_key(key.as_bytes()), "{key}");
        }
    }
}
