//! Why a REGISTER fails, and how that is said.

use crate::location::NotChanged;
use sip_message::{HeaderName, ResponseWriter};

/// Why a REGISTER fails. Nothing has been changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 400 with a reason phrase that names the header field.
    Malformed(&'static str),
    /// 403: more contacts than an address of record may have.
    TooManyContacts,
    /// 403: a contact that is not sips for an address of record that is (RFC 5630 section 5.1).
    NotSecure,
    /// 420: the option tags that we lack.
    BadExtension(Vec<u8>),
    /// 423: the shortest lifetime we take, in seconds.
    TooBrief(u32),
    /// 500: it is older than what it wants to change (section 10.3 steps 6 and 7).
    OutOfOrder,
    /// 503: the location service is full.
    Full,
}

impl From<NotChanged<Self>> for Refusal {
    fn from(not_changed: NotChanged<Self>) -> Self {
        match not_changed {
            NotChanged::Refused(refusal) => refusal,
            NotChanged::Full => Self::Full,
            NotChanged::TooLong => Self::Malformed("Contact too long"),
        }
    }
}

impl Refusal {
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

    /// The reason phrase; empty: the standard one.
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

    /// Adds the header fields that the status asks for.
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
