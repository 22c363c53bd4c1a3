//! Digits that a rule removes from the called number and puts in front of it.

use super::text::Text;
use sip_message::{Scheme, Uri};

/// The maximum length of what is put in front of a number.
const MAX_PREFIX: usize = 32;

/// A change of the user of the Request-URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberEdit {
    strip: u8,
    prefix: Box<str>,
}

impl NumberEdit {
    pub(crate) const fn new(strip: u8, prefix: Box<str>) -> Self {
        Self { strip, prefix }
    }

    /// How many characters are removed at the beginning. An escape is one character. What rules do not compare, such as visual separators
    /// of a number, does not count.
    pub const fn strip(&self) -> u8 {
        self.strip
    }

    /// What is put in front of the rest.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Appends the changed URI to `into`. Returns whether it did: a URI without user stays as it is, and so does one whose user is
    /// shorter than what is to be removed or would be empty. All other parts of the URI are copied unchanged.
    pub fn write(&self, uri: &Uri<'_>, into: &mut Vec<u8>) -> bool {
        if matches!(uri.scheme, Scheme::Other(_)) {
            return false;
        }
        let Some(user) = uri.user else {
            return false;
        };
        let Some(kept) = self.stripped(user) else {
            return false;
        };
        let Some((before, behind)) = around_user(uri) else {
            return false;
        };
        for part in [before, self.prefix.as_bytes(), kept, behind] {
            into.extend_from_slice(part);
        }
        true
    }

    /// The user without its first characters. The parameters of a number are no characters.
    fn stripped<'a>(&self, user: &'a [u8]) -> Option<&'a [u8]> {
        let end = user.iter().position(|octet| *octet == b';');
        let (characters, parameters) = user.split_at_checked(end.unwrap_or(user.len()))?;
        let mut left = characters.len();
        if self.strip > 0 {
            let text = Text::user(characters);
            let mut characters = text.bytes();
            for _ in 0..self.strip {
                characters.next()?;
            }
            left = characters.into_rest().len();
        }
        let is_empty = left == 0 && self.prefix.is_empty();
        let kept = left + parameters.len();
        (!is_empty).then(|| user.get(user.len() - kept..))?
    }
}

/// What is before and behind the user of a URI that has one.
pub(crate) fn around_user<'a>(uri: &Uri<'a>) -> Option<(&'a [u8], &'a [u8])> {
    // The user directly follows the scheme.
    let scheme = uri.bytes.iter().take_while(|octet| **octet != b':').count() + 1;
    let before = uri.bytes.get(..scheme)?;
    Some((before, uri.bytes.get(scheme + uri.user?.len()..)?))
}

/// Whether this may be put in front of a number: 1 to 32 letters, digits, `+` and `*`.
pub(crate) fn is_prefix(text: &str) -> bool {
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'*');
    matches!(text.len(), 1..=MAX_PREFIX) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(strip: u8, prefix: &str, uri: &str) -> Option<String> {
        let mut into = Vec::new();
        let uri = Uri::parse(uri.as_bytes()).unwrap();
        let is_edited = NumberEdit::new(strip, prefix.into()).write(&uri, &mut into);
        assert!(is_edited || into.is_empty());
        is_edited.then(|| String::from_utf8(into).unwrap())
    }

    #[test]
    fn only_the_beginning_of_the_user_changes() {
        for (strip, prefix, uri, expected) in [
            (2, "", "sip:0049891@h", "sip:49891@h"),
            (
                2,
                "+",
                "sip:0049891:pw@h:5061;a=b?c=d",
                "sip:+49891:pw@h:5061;a=b?c=d",
            ),
            (0, "D021", "sip:49891@h", "sip:D02149891@h"),
            (4, "", "sips:D02149891@h", "sips:49891@h"),
            (3, "0", "TEL:+49-89-1;ext=2", "TEL:089-1;ext=2"),
            (1, "", "sip:%2B4989@h", "sip:4989@h"),
            (2, "110", "sip:00@h", "sip:110@h"),
            (1, "", "sip:x-b@h", "sip:-b@h"),
            (3, "0", "sip:+49%2D89%2D1@h", "sip:089%2D1@h"),
            (3, "0", "sip:++49+89;a=b@h", "sip:089;a=b@h"),
            (3, "", "sip:1-2-3-x@h", "sip:-x@h"),
        ] {
            assert_eq!(
                edited(strip, prefix, uri).as_deref(),
                Some(expected),
                "{uri}"
            );
        }
    }

    #[test]
    fn a_user_that_is_too_short_stays() {
        for (strip, prefix, uri) in [
            (3, "1", "sip:00@h"),
            (2, "", "sip:00@h"),
            (2, "", "sip:00;a=b@h"),
            (3, "9", "tel:00;a=b"),
            (1, "1", "sip:h"),
            (1, "1", "urn:service:sos"),
        ] {
            assert_eq!(edited(strip, prefix, uri), None, "{uri}");
        }
    }
}
