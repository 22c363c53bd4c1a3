//! URIs (RFC 3261 section 19.1).
use crate::grammar::{is_uri_char, parse_u16, split_at};
use crate::{Host, Params};

/// The scheme of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the schemes")]
pub enum Scheme<'a> {
    Sip,
    Sips,
    Tel,
    Other(&'a [u8]),
}

/// A parsed URI, borrowing from its bytes. For schemes other than sip and sips only `scheme` and `bytes` mean anything
/// (and `user` holds a tel URI's number).
#[derive(Clone, Copy, Debug)]
pub struct Uri<'a> {
    /// The whole URI as written.
    pub bytes: &'a [u8],
    /// Scheme.
    pub scheme: Scheme<'a>,
    /// User part as written (escapes kept), without password.
    pub user: Option<&'a [u8]>,
    /// Password, as written.
    pub password: Option<&'a [u8]>,
    /// Host.
    pub host: Host<'a>,
    /// Host as written (with brackets).
    pub host_bytes: &'a [u8],
    /// Port, where written.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params<'a>,
    /// The part after `?`.
    pub headers: Option<&'a [u8]>,
}

impl<'a> Uri<'a> {
    /// Parses a whole URI; `None` when it is not one (white space, bad port, unbalanced brackets, bare IPv6 …).
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = split_scheme(bytes)?;
        if !rest.iter().all(|&octet| is_uri_char(octet)) {
            return None;
        }
        let uri = Self {
            bytes,
            scheme,
            user: None,
            password: None,
            host: Host::Name(b""),
            host_bytes: b"",
            port: None,
            params: Params::default(),
            headers: None,
        };
        match scheme {
            Scheme::Sip | Scheme::Sips => uri.with_sip_parts(rest),
            Scheme::Tel => uri.with_number(rest),
            Scheme::Other(_) => Some(uri),
        }
    }

    fn with_number(self, rest: &'a [u8]) -> Option<Self> {
        let (number, params) = split_before(rest, |octet| octet == b';');
        (!number.is_empty()).then_some(Self {
            user: Some(number),
            params: Params::new(params),
            ..self
        })
    }

    /// `[userinfo@]hostport[;params][?headers]`. A user part may contain `;`, `?` and `/`, so the `@` is looked for first; it
    /// can't appear unescaped anywhere else.
    fn with_sip_parts(mut self, rest: &'a [u8]) -> Option<Self> {
        let mut rest = rest;
        if let Some(at) = memchr::memchr(b'@', rest) {
            let (userinfo, behind) = split_at(rest, at);
            rest = behind.get(1..)?;
            if memchr::memchr(b'@', rest).is_some() || !escapes_are_sound(userinfo) {
                return None;
            }
            let (user, password) = split_before(userinfo, |octet| octet == b':');
            if user.is_empty() {
                return None;
            }
            self.user = Some(user);
            self.password = password.get(1..);
        }
        let (hostport, behind) = split_before(rest, |octet| matches!(octet, b';' | b'?'));
        let (host, port) = split_port(hostport)?;
        self.host = Host::parse(host)?;
        self.host_bytes = host;
        self.port = match port {
            Some(digits) => Some(parse_u16(digits)?),
            None => None,
        };
        let (params, headers) = split_before(behind, |octet| octet == b'?');
        self.params = Params::new(params);
        self.headers = headers.get(1..);
        (escapes_are_sound(behind) && self.params.is_well_formed()).then_some(self)
    }
}

/// `scheme ":"`, and what is behind.
fn split_scheme(bytes: &[u8]) -> Option<(Scheme<'_>, &[u8])> {
    let (scheme, rest) = split_at(bytes, memchr::memchr(b':', bytes)?);
    let rest = rest.get(1..)?;
    let known = match scheme.len() {
        3 if scheme.eq_ignore_ascii_case(b"sip") => Scheme::Sip,
        4 if scheme.eq_ignore_ascii_case(b"sips") => Scheme::Sips,
        3 if scheme.eq_ignore_ascii_case(b"tel") => Scheme::Tel,
        _ => {
            let (first, others) = scheme.split_first()?;
            let sound =
                |&octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'-' | b'.');
            if !first.is_ascii_alphabetic() || !others.iter().all(sound) {
                return None;
            }
            Scheme::Other(scheme)
        }
    };
    (!rest.is_empty()).then_some((known, rest))
}

/// Splits before the first octet that satisfies `test`.
fn split_before(bytes: &[u8], test: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    crate::grammar::take_while(bytes, |octet| !test(octet))
}

/// Host, and the digits behind the colon where there is one.
fn split_port(hostport: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let host_length = match hostport.first() {
        Some(b'[') => memchr::memchr(b']', hostport)? + 1,
        _ => hostport
            .iter()
            .position(|&octet| octet == b':')
            .unwrap_or(hostport.len()),
    };
    match split_at(hostport, host_length) {
        (host, []) => Some((host, None)),
        (host, [b':', digits @ ..]) => Some((host, Some(digits))),
        _ => None,
    }
}

/// Every `%` is followed by two hex digits.
fn escapes_are_sound(mut bytes: &[u8]) -> bool {
    while let Some(percent) = memchr::memchr(b'%', bytes) {
        match split_at(bytes, percent).1 {
            [_, high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes = rest
            }
            _ => return false,
        }
    }
    true
}
