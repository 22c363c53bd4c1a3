//! Names of header fields, in all their spellings.

use sip_message::{Header, HeaderName, Message};

/// Header fields with a compact form that `sip-message` does not know (RFC 3261 section 7.3.3, RFC 3841, RFC 4474, RFC 6665).
const COMPACT: [(&str, &str); 7] = [
    ("Accept-Contact", "a"),
    ("Allow-Events", "u"),
    ("Content-Encoding", "e"),
    ("Identity", "y"),
    ("Identity-Info", "n"),
    ("Reject-Contact", "j"),
    ("Request-Disposition", "d"),
];

/// The name of a header field.
#[derive(Clone, Debug)]
pub struct FieldName {
    known: HeaderName,
    /// The long form.
    long: Box<str>,
    compact: Option<&'static str>,
}

impl PartialEq for FieldName {
    fn eq(&self, other: &Self) -> bool {
        self.long.eq_ignore_ascii_case(&other.long)
    }
}

impl Eq for FieldName {}

impl FieldName {
    /// The name in any spelling; `None` if it is not a token.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let known = HeaderName::from_bytes(name.as_bytes());
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let compact = COMPACT
            .iter()
            .find(|(long, compact)| is(long) || is(compact));
        let long = match known {
            HeaderName::Invalid => return None,
            HeaderName::Other => compact.map_or(name, |(long, _)| *long),
            known => known.as_str(),
        };
        Some(Self {
            known,
            long: long.into(),
            compact: compact.map(|(_, compact)| *compact),
        })
    }

    /// The name as `sip-message` knows it; `Other` if it does not.
    pub(super) const fn known(&self) -> HeaderName {
        self.known
    }

    /// The long form.
    pub fn as_str(&self) -> &str {
        &self.long
    }

    /// Whether this is the name of a header field.
    pub(super) fn is_of(&self, header: &Header<'_>) -> bool {
        header.name == self.known
            && (self.known != HeaderName::Other || self.is_written(header.name_bytes))
    }

    /// Whether this is the name as written, long or compact, of a header field that `sip-message` does not know.
    pub(super) fn is_written(&self, written: &[u8]) -> bool {
        let is = |name: &str| written.eq_ignore_ascii_case(name.as_bytes());
        is(&self.long) || self.compact.is_some_and(is)
    }

    /// Whether a message has a header field with this name.
    pub(super) fn is_in(&self, message: &Message<'_>) -> bool {
        if self.known == HeaderName::Other {
            message.headers().any(|header| self.is_of(&header))
        } else {
            message.header(self.known).is_some()
        }
    }

    /// All values in a message. Each value of a comma list counts on its own.
    pub(super) fn values<'r, 'm>(
        &'r self,
        message: &'r Message<'m>,
    ) -> impl Iterator<Item = &'m [u8]> + 'r {
        // The message knows where the lines of known names are.
        let (known, others) = if self.known == HeaderName::Other {
            (None, Some(message.headers()))
        } else {
            (Some(message.values(self.known)), None)
        };
        let others = others.into_iter().flatten();
        let others = others
            .filter(|header| self.is_of(header))
            .map(|header| header.value);
        known.into_iter().flatten().chain(others)
    }
}
