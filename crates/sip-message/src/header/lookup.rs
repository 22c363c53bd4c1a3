//! Looks up header field names without branches on their letters, because every message has a dozen of them.
use super::HeaderName;

/// A lower-case name of up to 15 bytes as two little-endian words. The last byte holds the length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64, u64);

/// Names and compact forms of up to 15 bytes.
const NAMES: [(&[u8], HeaderName); 54] = [
    (b"via", HeaderName::Via),
    (b"from", HeaderName::From),
    (b"to", HeaderName::To),
    (b"call-id", HeaderName::CallId),
    (b"cseq", HeaderName::CSeq),
    (b"contact", HeaderName::Contact),
    (b"route", HeaderName::Route),
    (b"record-route", HeaderName::RecordRoute),
    (b"max-forwards", HeaderName::MaxForwards),
    (b"expires", HeaderName::Expires),
    (b"min-expires", HeaderName::MinExpires),
    (b"authorization", HeaderName::Authorization),
    (b"supported", HeaderName::Supported),
    (b"require", HeaderName::Require),
    (b"proxy-require", HeaderName::ProxyRequire),
    (b"unsupported", HeaderName::Unsupported),
    (b"path", HeaderName::Path),
    (b"service-route", HeaderName::ServiceRoute),
    (b"content-length", HeaderName::ContentLength),
    (b"content-type", HeaderName::ContentType),
    (b"event", HeaderName::Event),
    (b"allow", HeaderName::Allow),
    (b"user-agent", HeaderName::UserAgent),
    (b"server", HeaderName::Server),
    (b"date", HeaderName::Date),
    (b"retry-after", HeaderName::RetryAfter),
    (b"session-expires", HeaderName::SessionExpires),
    (b"min-se", HeaderName::MinSe),
    (b"warning", HeaderName::Warning),
    (b"subject", HeaderName::Subject),
    (b"refer-to", HeaderName::ReferTo),
    (b"referred-by", HeaderName::ReferredBy),
    (b"replaces", HeaderName::Replaces),
    (b"accept", HeaderName::Accept),
    (b"timestamp", HeaderName::Timestamp),
    (b"reason", HeaderName::Reason),
    (b"max-breadth", HeaderName::MaxBreadth),
    (b"remote-party-id", HeaderName::RemotePartyId),
    (b"diversion", HeaderName::Diversion),
    (b"history-info", HeaderName::HistoryInfo),
    (b"privacy", HeaderName::Privacy),
    // Compact forms (RFC 3261 section 7.3.3, RFC 3515, 3892, 4028, 6665).
    (b"v", HeaderName::Via),
    (b"f", HeaderName::From),
    (b"t", HeaderName::To),
    (b"i", HeaderName::CallId),
    (b"m", HeaderName::Contact),
    (b"l", HeaderName::ContentLength),
    (b"c", HeaderName::ContentType),
    (b"k", HeaderName::Supported),
    (b"s", HeaderName::Subject),
    (b"o", HeaderName::Event),
    (b"r", HeaderName::ReferTo),
    (b"b", HeaderName::ReferredBy),
    (b"x", HeaderName::SessionExpires),
];

/// Names of 16 bytes and more. They are too rare to be worth a table.
const LONG_NAMES: [HeaderName; 6] = [
    HeaderName::WwwAuthenticate,
    HeaderName::ProxyAuthenticate,
    HeaderName::ProxyAuthorization,
    HeaderName::AuthenticationInfo,
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
];

/// Found by trial and error: gives every name a slot of its own.
const MULTIPLIER: u64 = 0xe81d_070d_8617_3a33;
const SLOTS: usize = 128;

/// A key with a length that no name has.
const VACANT: Key = Key(0, u64::MAX);

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const TABLE: [(Key, HeaderName); SLOTS] = {
    let mut table = [(VACANT, HeaderName::Other); SLOTS];
    let mut index = 0;
    while index < NAMES.len() {
        let (name, header) = NAMES[index];
        let key = Key::of_short(name);
        assert!(
            table[key.slot()].0.1 == VACANT.1,
            "two names in one slot: look for another multiplier"
        );
        table[key.slot()] = (key, header);
        index += 1;
    }
    table
};

impl Key {
    /// The key of a lower-case name of at most 15 bytes.
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
    const fn of_short(name: &[u8]) -> Self {
        let mut words = [0_u64; 2];
        let mut index = 0;
        while index < name.len() {
            words[index / 8] |= (name[index] as u64) << (index % 8 * 8);
            index += 1;
        }
        Self(words[0], words[1] | (name.len() as u64) << 56)
    }

    /// The key of the first `length` bytes of two words, at most 15.
    #[inline]
    fn of_words(low: u64, high: u64, length: usize) -> Self {
        let low_kept = low & mask(length);
        let high_kept = high & mask(length.saturating_sub(8));
        Self(
            to_lower(low_kept),
            to_lower(high_kept) | (length as u64) << 56,
        )
    }

    #[inline]
    const fn slot(self) -> usize {
        ((self.0 ^ self.1).wrapping_mul(MULTIPLIER) >> 57) as usize
    }

    #[inline]
    fn find(self) -> Option<HeaderName> {
        TABLE
            .get(self.slot())
            .and_then(|(key, name)| (*key == self).then_some(*name))
    }
}

/// A mask for the first `octets` bytes of a word.
#[inline]
fn mask(octets: usize) -> u64 {
    if octets >= 8 {
        u64::MAX
    } else {
        (1 << (octets * 8)) - 1
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Converts eight bytes to lower case at once. It also changes bytes after the letters, but never into a byte that a name
/// contains.
#[inline]
const fn to_lower(word: u64) -> u64 {
    let at_least_a = (word & !HIGH_BITS) + (0x80 - b'A' as u64) * ONES;
    let upper = at_least_a & !word & HIGH_BITS;
    word | upper >> 2
}

/// Sets the high bit of every byte that is a colon. Bits above the first colon may be wrong.
#[inline]
const fn colons(word: u64) -> u64 {
    let difference = word ^ (b':' as u64 * ONES);
    difference.wrapping_sub(ONES) & !difference & HIGH_BITS
}

/// The known header field with this name, in any case or compact form.
pub(super) fn known(name: &[u8]) -> Option<HeaderName> {
    if name.len() > 15 {
        return LONG_NAMES
            .into_iter()
            .find(|long| name.eq_ignore_ascii_case(long.as_str().as_bytes()));
    }
    let mut octets = [0; 16];
    octets.get_mut(..name.len())?.copy_from_slice(name);
    let (low, high) = words(&octets);
    Key::of_words(low, high, name.len()).find()
}

/// The known header field at the beginning of a line, and the length of its name. Works only if the colon follows the name
/// directly and the name has at most 15 bytes, which is nearly always true. Otherwise `None`, even for a known name.
#[inline]
pub(crate) fn known_at_start(line: &[u8]) -> Option<(HeaderName, usize)> {
    let (low, high) = words(line.first_chunk()?);
    let (in_low, in_high) = (colons(low), colons(high));
    let length = if in_low != 0 {
        in_low.trailing_zeros() / 8
    } else {
        8 + in_high.trailing_zeros() / 8
    } as usize;
    // Without a colon, the length is 16.
    if length > 15 {
        return None;
    }
    Key::of_words(low, high, length)
        .find()
        .map(|name| (name, length))
}

#[inline]
fn words(octets: &[u8; 16]) -> (u64, u64) {
    let word = u128::from_le_bytes(*octets);
    (word as u64, (word >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case_and_with_its_colon() {
        for (name, header) in NAMES {
            let upper = name.to_ascii_uppercase();
            assert_eq!(known(name), Some(header));
            assert_eq!(known(&upper), Some(header));
            let line = [&upper[..], b": value that goes on"].concat();
            assert_eq!(known_at_start(&line), Some((header, name.len())));
        }
        for header in LONG_NAMES {
            assert_eq!(
                known(header.as_str().to_lowercase().as_bytes()),
                Some(header)
            );
        }
    }

    #[test]
    fn names_that_only_look_alike_are_not_known() {
        for name in [
            "",
            "vi",
            "viaa",
            "to\0",
            "\0",
            "call\rid",
            "call_id",
            "\u{5b}o",
            "T@",
            "\u{f6}o",
            "from ",
            "t\u{f4}",
            "\u{c6}",
            "content-lengthh",
        ] {
            assert_eq!(known(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(known_at_start(b"To\0:             "), None);
        assert_eq!(known_at_start(b":                "), None);
        assert_eq!(known_at_start(b"no colon in these octets"), None);
    }
}
