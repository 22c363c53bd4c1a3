//! A call to make, as the program describes it.

use super::call::Field;
use super::event::Session;
use sip_message::HeaderName;
use std::fmt;

/// A call to make.
#[derive(Clone, Debug)]
pub struct Invitation {
    pub(super) uri: String,
    pub(super) session: Session,
    pub(super) fields: Vec<Field>,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSent {
    /// Not a SIP or SIPS URI.
    BadUri,
    /// The name of an additional header field is not a token, or is that of a header field that the user agent writes.
    BadField,
    /// The bound on calls is reached ([`Bounds::calls`](crate::Bounds::calls)).
    TooMany,
    /// No listener speaks the transport of the URI, or its name cannot be resolved: there is no resolver, or too many lookups are in progress.
    NoRoute,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadUri => "not a URI like sip:bob@example.org",
            Self::BadField => "an additional header field has a bad name, or one that the user agent uses itself",
            Self::TooMany => "too many calls or transactions exist already",
            Self::NoRoute => {
                "no listener reaches the URI's transport and address, or no resolver is free for its name"
            }
        })
    }
}

impl std::error::Error for NotSent {}

impl Invitation {
    /// A call to this URI, without a session description.
    pub fn new(uri: &str) -> Self {
        Self {
            uri: uri.to_owned(),
            session: Session::none(),
            fields: Vec::new(),
        }
    }

    /// Sets the session description: the offer.
    #[must_use]
    pub fn session(mut self, session: impl Into<Session>) -> Self {
        self.session = session.into();
        self
    }

    /// Adds a header field to the INVITE. Line ends in the value become spaces. The user agent's own header fields (From, Contact and so
    /// on) cannot be added.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }
}

/// Whether a program may add a header field with this name.
pub(super) fn may_be_added(name: &str) -> bool {
    use HeaderName as Name;
    let own = [
        Name::Via,
        Name::From,
        Name::To,
        Name::CallId,
        Name::CSeq,
        Name::Contact,
        Name::MaxForwards,
        Name::Route,
        Name::RecordRoute,
        Name::Authorization,
        Name::ProxyAuthorization,
        Name::Allow,
        Name::ContentType,
        Name::ContentLength,
        Name::Invalid,
    ];
    !own.contains(&Name::from_bytes(name.as_bytes()))
}
