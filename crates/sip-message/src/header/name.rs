//! Names of header fields.
use crate::grammar::is_token;

/// The header fields the stack knows by name; everything else is `Other` and stays byte for byte.
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
    /// Not known by name.
    Other,
    /// A line that is no header field (no colon, bad characters in the name).
    Invalid,
}

impl HeaderName {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Invalid as usize + 1;

    /// From the name as written: any case, compact forms.
    pub fn from_bytes(name: &[u8]) -> Self {
        Self::known(name).unwrap_or_else(|| {
            if is_token(name) {
                Self::Other
            } else {
                Self::Invalid
            }
        })
    }

    /// The known header field of that name. Length and one or two letters leave one candidate, which is then compared.
    pub(crate) fn known(name: &[u8]) -> Option<Self> {
        let candidate = match *name {
            [letter] => return Self::compact(letter),
            [first, second, .., last] => {
                Self::candidate(name.len(), first | 0x20, second | 0x20, last | 0x20)?
            }
            [first, second] => Self::candidate(2, first | 0x20, second | 0x20, second | 0x20)?,
            [] => return None,
        };
        name.eq_ignore_ascii_case(candidate.as_str().as_bytes())
            .then_some(candidate)
    }

    fn candidate(length: usize, first: u8, second: u8, last: u8) -> Option<Self> {
        Some(match (length, first) {
            (2, b't') => Self::To,
            (3, b'v') => Self::Via,
            (4, b'f') => Self::From,
            (4, b'c') => Self::CSeq,
            (4, b'p') => Self::Path,
            (4, b'd') => Self::Date,
            (5, b'r') => Self::Route,
            (5, b'e') => Self::Event,
            (5, b'a') => Self::Allow,
            (6, b's') => Self::Server,
            (6, b'm') => Self::MinSe,
            (6, b'a') => Self::Accept,
            (6, b'r') => Self::Reason,
            (7, b'c') if second == b'a' => Self::CallId,
            (7, b'c') => Self::Contact,
            (7, b'e') => Self::Expires,
            (7, b'r') => Self::Require,
            (7, b'w') => Self::Warning,
            (7, b's') => Self::Subject,
            (8, b'r') if last == b'o' => Self::ReferTo,
            (8, b'r') => Self::Replaces,
            (9, b's') => Self::Supported,
            (9, b't') => Self::Timestamp,
            (10, b'u') => Self::UserAgent,
            (11, b'm') => Self::MinExpires,
            (11, b'u') => Self::Unsupported,
            (11, b'r') if last == b'r' => Self::RetryAfter,
            (11, b'r') => Self::ReferredBy,
            (12, b'r') => Self::RecordRoute,
            (12, b'm') => Self::MaxForwards,
            (12, b'c') => Self::ContentType,
            (13, b'a') => Self::Authorization,
            (13, b'p') => Self::ProxyRequire,
            (13, b's') => Self::ServiceRoute,
            (14, b'c') => Self::ContentLength,
            (15, b's') => Self::SessionExpires,
            (16, b'w') => Self::WwwAuthenticate,
            (18, b'p') => Self::ProxyAuthenticate,
            (19, b'p') => Self::ProxyAuthorization,
            (19, b'a') => Self::AuthenticationInfo,
            _ => return None,
        })
    }

    /// Compact forms (RFC 3261 section 7.3.3 and the IANA registry), those of header fields known here.
    fn compact(letter: u8) -> Option<Self> {
        Some(match letter | 0x20 {
            b'v' => Self::Via,
            b'f' => Self::From,
            b't' => Self::To,
            b'i' => Self::CallId,
            b'm' => Self::Contact,
            b'l' => Self::ContentLength,
            b'c' => Self::ContentType,
            b'k' => Self::Supported,
            b's' => Self::Subject,
            b'o' => Self::Event,
            b'r' => Self::ReferTo,
            b'b' => Self::ReferredBy,
            b'x' => Self::SessionExpires,
            _ => return None,
        })
    }

    /// The canonical long name (`Call-ID`, `CSeq`, `WWW-Authenticate` …); empty for `Other` and `Invalid`.
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
            Self::Other | Self::Invalid => "",
        }
    }

    /// Whether several values may share a line, separated by commas.
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
        )
    }
}
