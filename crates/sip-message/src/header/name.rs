//! Names of header fields.
use super::lookup;
use crate::grammar::is_token;

/// The header fields that this crate knows by name. All others are `Other` and are kept byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the header fields")]
#[repr(u8)]
pub enum HeaderName {
    Via,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    Route,
    RecordRoute,
    MaxForwards,
    Expires,
    MinExpires,
    Authorization,
    WwwAuthenticate,
    ProxyAuthorization,
    ProxyAuthenticate,
    AuthenticationInfo,
    Supported,
    Require,
    ProxyRequire,
    Unsupported,
    Path,
    ServiceRoute,
    ContentLength,
    ContentType,
    Event,
    Allow,
    UserAgent,
    Server,
    Date,
    RetryAfter,
    SessionExpires,
    MinSe,
    Warning,
    Subject,
    ReferTo,
    ReferredBy,
    Replaces,
    Accept,
    Timestamp,
    Reason,
    MaxBreadth,
    PAssertedIdentity,
    PPreferredIdentity,
    RemotePartyId,
    Diversion,
    HistoryInfo,
    Privacy,
    /// A name that this crate does not know.
    Other,
    /// A line that is not a header field (no colon, or bad characters in the name).
    Invalid,
}

impl HeaderName {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Invalid as usize + 1;

    /// Looks up a name as received: any case, compact forms.
    pub fn from_bytes(name: &[u8]) -> Self {
        lookup::known(name).unwrap_or_else(|| {
            if is_token(name) {
                Self::Other
            } else {
                Self::Invalid
            }
        })
    }

    /// The canonical long name (`Call-ID`, `CSeq`, `WWW-Authenticate` …). Empty for `Other` and `Invalid`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Via => "Via",
            Self::From => "From",
            Self::To => "To",
            Self::CallId => "Call-ID",
            Self::CSeq => "CSeq",
            Self::Contact => "Contact",
            Self::Route => "Route",
            Self::RecordRoute => "Record-Route",
            Self::MaxForwards => "Max-Forwards",
            Self::Expires => "Expires",
            Self::MinExpires => "Min-Expires",
            Self::Authorization => "Authorization",
            Self::WwwAuthenticate => "WWW-Authenticate",
            Self::ProxyAuthorization => "Proxy-Authorization",
            Self::ProxyAuthenticate => "Proxy-Authenticate",
            Self::AuthenticationInfo => "Authentication-Info",
            Self::Supported => "Supported",
            Self::Require => "Require",
            Self::ProxyRequire => "Proxy-Require",
            Self::Unsupported => "Unsupported",
            Self::Path => "Path",
            Self::ServiceRoute => "Service-Route",
            Self::ContentLength => "Content-Length",
            Self::ContentType => "Content-Type",
            Self::Event => "Event",
            Self::Allow => "Allow",
            Self::UserAgent => "User-Agent",
            Self::Server => "Server",
            Self::Date => "Date",
            Self::RetryAfter => "Retry-After",
            Self::SessionExpires => "Session-Expires",
            Self::MinSe => "Min-SE",
            Self::Warning => "Warning",
            Self::Subject => "Subject",
            Self::ReferTo => "Refer-To",
            Self::ReferredBy => "Referred-By",
            Self::Replaces => "Replaces",
            Self::Accept => "Accept",
            Self::Timestamp => "Timestamp",
            Self::Reason => "Reason",
            Self::MaxBreadth => "Max-Breadth",
            Self::PAssertedIdentity => "P-Asserted-Identity",
            Self::PPreferredIdentity => "P-Preferred-Identity",
            Self::RemotePartyId => "Remote-Party-ID",
            Self::Diversion => "Diversion",
            Self::HistoryInfo => "History-Info",
            Self::Privacy => "Privacy",
            Self::Other | Self::Invalid => "",
        }
    }

    /// Whether one line may have several values, separated by commas.
    pub const fn is_comma_list(self) -> bool {
        matches!(
            self,
            Self::Via
                | Self::Contact
                | Self::Route
                | Self::RecordRoute
                | Self::Supported
                | Self::Require
                | Self::ProxyRequire
                | Self::Unsupported
                | Self::Path
                | Self::ServiceRoute
                | Self::Allow
                | Self::Warning
                | Self::Accept
                | Self::Reason
                | Self::PAssertedIdentity
                | Self::PPreferredIdentity
                | Self::RemotePartyId
                | Self::Diversion
                | Self::HistoryInfo
        )
    }
}

#[cfg(test)]
mod tests {
    use super::HeaderName;

    #[test]
    fn long_names_and_compact_forms_are_known() {
        for (name, expected) in [
            ("Via", HeaderName::Via),
            ("v", HeaderName::Via),
            ("CALL-ID", HeaderName::CallId),
            ("I", HeaderName::CallId),
            ("www-authenticate", HeaderName::WwwAuthenticate),
            ("Proxy-Authorization", HeaderName::ProxyAuthorization),
            ("x", HeaderName::SessionExpires),
            ("L", HeaderName::ContentLength),
            // Content-Encoding, Allow-Events, Reject-Contact: unknown here, and must not be mistaken for others.
            ("e", HeaderName::Other),
            ("u", HeaderName::Other),
            ("j", HeaderName::Other),
            ("X-Custom!", HeaderName::Other),
            ("", HeaderName::Invalid),
            ("To ", HeaderName::Invalid),
            ("T(o", HeaderName::Invalid),
        ] {
            assert_eq!(
                HeaderName::from_bytes(name.as_bytes()),
                expected,
                "{name:?}"
            );
        }
    }

    #[test]
    fn canonical_names_lead_back() {
        for name in [
            HeaderName::CSeq,
            HeaderName::MinSe,
            HeaderName::ServiceRoute,
            HeaderName::AuthenticationInfo,
            HeaderName::Reason,
        ] {
            assert_eq!(HeaderName::from_bytes(name.as_str().as_bytes()), name);
        }
        assert_eq!(
            (HeaderName::Other.as_str(), HeaderName::Invalid.as_str()),
            ("", "")
        );
    }
}
