//! The texts of a dialog, in one allocation.

use crate::party::Party;

/// What a text is, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Text {
    /// The Call-ID.
    CallId,
    /// The tag in From of the INVITE.
    CallerTag,
    /// The tag in To of the 2xx.
    CalleeTag,
    /// The remote target of requests to the caller: the URI in its Contact.
    CallerTarget,
    /// The remote target of requests to the callee.
    CalleeTarget,
    /// The Route values of requests to the caller, after those of this server, separated by commas.
    CallerRoute,
    /// The Route values of requests to the callee, after those of this server.
    CalleeRoute,
    /// The URI in From of the INVITE.
    From,
    /// The URI in To of the INVITE.
    To,
    /// The Request-URI of the INVITE as received. Requests to the parties do not need this text and those after it.
    RequestUri,
    /// The subscriber that authenticated, `user@domain`.
    Identity,
    /// The Reason of the CANCEL (RFC 3326).
    Reason,
    /// The name of the gateway that the call went to. This text and the next ones are for a restart: see [`Held`](crate::Held).
    Gateway,
    /// The name of the limit of the rule that decided about the call.
    Limit,
    /// The subscribers that have diverted the call: a line each, `user@domain`, a tab, and the name of the limit of their rule.
    Diverters,
}

impl Text {
    /// All texts, in their order.
    pub(crate) const ALL: [Self; COUNT] = [
        Self::CallId,
        Self::CallerTag,
        Self::CalleeTag,
        Self::CallerTarget,
        Self::CalleeTarget,
        Self::CallerRoute,
        Self::CalleeRoute,
        Self::From,
        Self::To,
        Self::RequestUri,
        Self::Identity,
        Self::Reason,
        Self::Gateway,
        Self::Limit,
        Self::Diverters,
    ];

    /// Whether requests to the parties need it. The others are for records and for a restart only.
    pub(crate) const fn is_for_requests(self) -> bool {
        (self as usize) < Self::RequestUri as usize
    }

    /// The remote target of requests to this party.
    pub const fn target_of(party: Party) -> Self {
        match party {
            Party::Caller => Self::CallerTarget,
            Party::Callee => Self::CalleeTarget,
        }
    }
}

/// The number of texts.
const COUNT: usize = 15;

/// The maximum number of bytes of all texts of a dialog. A text that does not fit is left out.
pub const MAX_BYTES: usize = 8 << 10;

/// The texts of one dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    bytes: Box<[u8]>,
    /// Where each text ends. It begins where the one before ends.
    ends: [u16; COUNT],
}

impl Texts {
    /// Packs texts. Those that are not named stay as in `before`. The result also says whether all of them fit that requests need.
    pub(crate) fn pack(before: Option<&Self>, named: &[(Text, &[u8])]) -> (Self, bool) {
        let mut texts = [&b""[..]; COUNT];
        if let Some(before) = before {
            for (text, place) in texts.iter_mut().zip(0..) {
                *text = before.at(place);
            }
        }
        for (name, value) in named {
            if let Some(text) = texts.get_mut(*name as usize) {
                *text = value;
            }
        }
        let mut length = 0;
        let mut is_whole = true;
        for (place, text) in texts.iter_mut().enumerate() {
            if length + text.len() > MAX_BYTES {
                *text = b"";
                is_whole &= place >= Text::RequestUri as usize;
            }
            length += text.len();
        }
        let mut bytes = Vec::with_capacity(length);
        let mut ends = [0; COUNT];
        for (text, end) in texts.iter().zip(&mut ends) {
            // Most dialogs have no route, no reason and no gateway. Copying nothing takes a call.
            if !text.is_empty() {
                bytes.extend_from_slice(text);
            }
            *end = bytes.len() as u16;
        }
        let bytes = bytes.into_boxed_slice();
        (Self { bytes, ends }, is_whole)
    }

    pub(crate) fn get(&self, text: Text) -> &[u8] {
        self.at(text as usize)
    }

    /// The number of bytes of all texts.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    fn at(&self, place: usize) -> &[u8] {
        let end = |place: usize| self.ends.get(place).copied().map_or(0, usize::from);
        let begin = place.checked_sub(1).map_or(0, end);
        self.bytes.get(begin..end(place)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_were_written() {
        let (texts, is_whole) =
            Texts::pack(None, &[(Text::Identity, b"alice"), (Text::CallId, b"c")]);
        assert!(is_whole);
        assert_eq!(texts.get(Text::CallId), b"c");
        assert_eq!(texts.get(Text::Identity), b"alice");
        assert_eq!(texts.get(Text::CalleeTag), b"");
        let (texts, _) = Texts::pack(Some(&texts), &[(Text::CalleeTag, b"b1")]);
        assert_eq!(texts.get(Text::CallId), b"c");
        assert_eq!(texts.get(Text::CalleeTag), b"b1");
        assert_eq!(texts.get(Text::Identity), b"alice");
        assert_eq!(texts.len(), 8);
    }

    #[test]
    fn a_text_for_records_that_does_not_fit_leaves_the_rest_whole() {
        let long = vec![b'x'; MAX_BYTES];
        let (texts, is_whole) =
            Texts::pack(None, &[(Text::CallId, b"c"), (Text::RequestUri, &long)]);
        assert!(is_whole);
        assert_eq!(texts.get(Text::CallId), b"c");
        assert_eq!(texts.get(Text::RequestUri), b"");
    }

    #[test]
    fn a_text_that_does_not_fit_is_left_out() {
        let long = vec![b'x'; MAX_BYTES];
        let (texts, is_whole) = Texts::pack(
            None,
            &[
                (Text::CallId, b"c"),
                (Text::CallerRoute, &long),
                (Text::To, b"t"),
            ],
        );
        assert!(!is_whole);
        assert_eq!(texts.get(Text::CallId), b"c");
        assert_eq!(texts.get(Text::CallerRoute), b"");
        assert_eq!(texts.get(Text::To), b"t");
    }
}
