//! Reasons to reject a REGISTER, and their responses.

use crate::location::NotChanged;
use sip_message::{HeaderName, ResponseWriter};

/// Why a REGISTER is rejected. No binding has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RegisterError {
    /// 400, with a reason phrase that names the header field.
    Malformed(&'static str),
    /// 403: more contacts than an address of record may have.
    TooManyContacts,
    /// 403: a contact is not sips although its address of record is (RFC 5630 section 5.1).
    NotSecure,
    /// 420, with the option tags that the registrar does not support.
    BadExtension(Vec<u8>),
    /// 423, with the shortest lifetime that the registrar accepts, in seconds.
    TooBrief(u32),
    /// 500: the request is older than a binding that it would change (section 10.3 steps 6 and 7).
    OutOfOrder,
    /// 503: the location service is full.
    Full,
}

impl From<NotChanged<Self>> for RegisterError {
    fn from(not_changed: NotChanged<Self>) -> Self {
        match not_changed {
            NotChanged::Refused(refusal) => refusal,
            NotChanged::Full => Self::Full,
            NotChanged::TooLong => Self::Malformed("Contact too long"),
        }
    }
}

impl RegisterError {
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyContacts | Self::NotSecure => 403,
            Self::BadExtension(_) => 420,
            Self::TooBrief(_) => 423,
            Self::OutOfOrder => 500,
            Self::Full => 503,
        }
    }

    /// The reason phrase. Empty means the standard one.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(reason) => reason,
            Self::TooManyContacts => "Too many contacts",
            Self::NotSecure => "Contact must be sips as To is",
            Self::OutOfOrder => "CSeq is not higher than before",
            Self::Full => "Too many registrations",
            Self::BadExtension(_) | Self::TooBrief(_) => "",
        }
    }

    /// Adds the header fields that the status requires.
    pub(super) fn explain<'o>(
        &self,
        response: ResponseWriter<'o>,
        retry_after: u32,
    ) -> ResponseWriter<'o> {
        match self {
            Self::BadExtension(tags) => response.header(HeaderName::Unsupported, tags),
            Self::TooBrief(shortest) => response.header_with(HeaderName::MinExpires, |into| {
                super::push_number(into, *shortest);
            }),
            Self::Full => response.header_with(HeaderName::RetryAfter, |into| {
                super::push_number(into, retry_after);
            }),
            Self::Malformed(_) | Self::TooManyContacts | Self::NotSecure | Self::OutOfOrder => {
                response
            }
        }
    }
}
