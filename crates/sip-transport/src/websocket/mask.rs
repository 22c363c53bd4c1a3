//! Masking (RFC 6455 section 5.3). Masking and unmasking are the same operation.

/// Applies a masking key from the beginning of the payload.
pub(super) fn apply(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let key = [a, b, c, d, a, b, c, d];
    let word = u64::from_ne_bytes(key);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for octets in words {
        *octets = (u64::from_ne_bytes(*octets) ^ word).to_ne_bytes();
    }
    for (octet, key) in rest.iter_mut().zip(key) {
        *octet ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_octet_is_masked_by_the_key_octet_of_its_place(
            payload in proptest::collection::vec(any::<u8>(), 0..100), key: [u8; 4]
        ) {
            let mut masked = payload.clone();
            apply(&mut masked, key);
            let expected: Vec<u8> = payload.iter().enumerate().map(|(i, octet)| octet ^ key[i % 4]).collect();
            prop_assert_eq!(masked, expected);
        }
    }
}
