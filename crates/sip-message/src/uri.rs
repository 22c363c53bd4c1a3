//! URIs (RFC 3261 section 19.1).
use crate::grammar::{
    any, equal, find, is_plain_in_user, parse_u16, split_at, take_while, unfit_for_uri,
};
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

/// A parsed URI that borrows its bytes. For schemes other than sip and sips, only `scheme` and `bytes` are meaningful. For tel
/// URIs, `user` is the number, and `params` are its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Uri<'a> {
    /// The whole URI as received.
    pub bytes: &'a [u8],
    /// Scheme.
    pub scheme: Scheme<'a>,
    /// User part as received, without the password. Escapes are kept.
    pub user: Option<&'a [u8]>,
    /// Password as received.
    pub password: Option<&'a [u8]>,
    /// Host.
    pub host: Host<'a>,
    /// Host as received, with brackets.
    pub host_bytes: &'a [u8],
    /// Port, if present.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params<'a>,
    /// The part after `?`.
    pub headers: Option<&'a [u8]>,
}

impl<'a> Uri<'a> {
    /// Parses a whole URI. `None` if it is malformed (white space, bad port, unbalanced brackets, bare IPv6, a percent sign that
    /// escapes nothing …). A user part may contain bytes that should have been escaped, because phones send `#` and UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = split_scheme(bytes)?;
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
            _ if any(rest, unfit_for_uri) => None,
            Scheme::Tel => uri.with_number(rest),
            Scheme::Other(_) => Some(uri),
        }
    }

    fn with_number(self, rest: &'a [u8]) -> Option<Self> {
        let (number, params) = take_while(rest, |octet| octet != b';');
        (!number.is_empty()).then_some(Self {
            user: Some(number),
            params: Params::new(params),
            ..self
        })
    }

    /// Parses `[userinfo@]hostport[;params][?headers]`. A user part may contain `;`, `?` and `/`. So this looks for the `@`
    /// first, which cannot be unescaped anywhere else.
    fn with_sip_parts(mut self, rest: &'a [u8]) -> Option<Self> {
        let mut rest = rest;
        if let Some(at) = find(b'@', rest) {
            let (userinfo, behind) = split_at(rest, at);
            let (user, password) = split_userinfo(userinfo)?;
            self.user = Some(user);
            self.password = password;
            rest = behind.get(1..)?;
        }
        (self.host, self.host_bytes, rest) = Host::split(rest)?;
        if let [b':', behind @ ..] = rest {
            let (digits, behind) = take_while(behind, |octet| octet.is_ascii_digit());
            self.port = Some(parse_u16(digits)?);
            rest = behind;
        }
        match rest.first() {
            None => Some(self),
            Some(b';' | b'?') => self.with_params_and_headers(rest),
            Some(_) => None,
        }
    }

    fn with_params_and_headers(mut self, rest: &'a [u8]) -> Option<Self> {
        if any(rest, |octet| unfit_for_uri(octet) | equal(octet, b'@')) || !escapes_are_sound(rest)
        {
            return None;
        }
        let (params, headers) = take_while(rest, |octet| octet != b'?');
        self.params = Params::new(params);
        self.headers = headers.get(1..);
        self.params.is_well_formed().then_some(self)
    }
}

/// `scheme ":"`, and the rest, which must not be empty.
fn split_scheme(bytes: &[u8]) -> Option<(Scheme<'_>, &[u8])> {
    let (scheme, rest) = match bytes {
        [b's' | b'S', b'i' | b'I', b'p' | b'P', b':', rest @ ..] => (Scheme::Sip, rest),
        [
            b's' | b'S',
            b'i' | b'I',
            b'p' | b'P',
            b's' | b'S',
            b':',
            rest @ ..,
        ] => (Scheme::Sips, rest),
        [b't' | b'T', b'e' | b'E', b'l' | b'L', b':', rest @ ..] => (Scheme::Tel, rest),
        _ => {
            let (scheme, rest) = take_while(bytes, |octet| octet != b':');
            let (first, others) = scheme.split_first()?;
            let sound =
                |&octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'-' | b'.');
            if !first.is_ascii_alphabetic() || !others.iter().all(sound) {
                return None;
            }
            (Scheme::Other(scheme), rest.get(1..)?)
        }
    };
    (!rest.is_empty()).then_some((scheme, rest))
}

/// User, and the password after the first colon.
fn split_userinfo(userinfo: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (user, rest) = take_while(userinfo, is_plain_in_user);
    match rest {
        // Only letters, digits and the like, which is nearly always true.
        [] if !user.is_empty() => Some((user, None)),
        _ => {
            let (user, password) = take_while(userinfo, |octet| octet != b':');
            let sound =
                !user.is_empty() && !any(userinfo, unfit_for_uri) && escapes_are_sound(userinfo);
            sound.then_some((user, password.get(1..)))
        }
    }
}

/// Whether two hex digits follow every `%`.
fn escapes_are_sound(mut bytes: &[u8]) -> bool {
    while let Some(percent) = find(b'%', bytes) {
        match split_at(bytes, percent).1 {
            [_, high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes = rest;
            }
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_taken_apart() {
        let uri = Uri::parse(
            b"SIPS:alice;x=1:secret@[2001:db8::9]:5071;transport=TCP;lr?Subject=a%20b&x=y",
        )
        .unwrap();
        assert_eq!(uri.scheme, Scheme::Sips);
        assert_eq!(uri.user, Some(&b"alice;x=1"[..]));
        assert_eq!(uri.password, Some(&b"secret"[..]));
        assert_eq!(uri.host, Host::Address("2001:db8::9".parse().unwrap()));
        assert_eq!(uri.host_bytes, b"[2001:db8::9]");
        assert_eq!(uri.port, Some(5071));
        assert_eq!(uri.params.value(b"Transport"), Some(&b"TCP"[..]));
        assert!(uri.params.contains(b"lr"));
        assert_eq!(uri.headers, Some(&b"Subject=a%20b&x=y"[..]));
    }

    #[test]
    fn parts_that_are_not_there_are_none() {
        let uri = Uri::parse(b"sip:example.org").unwrap();
        assert_eq!(
            (uri.user, uri.password, uri.port, uri.headers),
            (None, None, None, None)
        );
        assert_eq!(
            (uri.host, uri.params.as_bytes()),
            (Host::Name(b"example.org"), &b""[..])
        );
    }

    #[test]
    fn semicolons_and_question_marks_before_the_at_sign_belong_to_the_user() {
        let uri = Uri::parse(b"sip:user;par=u?x/y@example.net;lr").unwrap();
        assert_eq!(uri.user, Some(&b"user;par=u?x/y"[..]));
        assert_eq!(uri.host, Host::Name(b"example.net"));
        assert_eq!(
            Uri::parse(b"sip:host;a@b").unwrap().user,
            Some(&b"host;a"[..])
        );
    }

    #[test]
    fn other_schemes_are_kept_whole() {
        let tel = Uri::parse(b"tel:+1-201-555-0123;phone-context=x").unwrap();
        assert_eq!(
            (tel.scheme, tel.user),
            (Scheme::Tel, Some(&b"+1-201-555-0123"[..]))
        );
        assert_eq!(tel.params.value(b"phone-context"), Some(&b"x"[..]));
        assert_eq!(
            Uri::parse(b"urn:service:sos").unwrap().scheme,
            Scheme::Other(b"urn")
        );
    }

    #[test]
    fn what_is_no_uri_is_refused() {
        for text in [
            "",
            "sip",
            "sip:",
            ":",
            "sip:@host",
            "sip: host",
            "sip:a b@host",
            "sip:host name",
            "sip:a@b@c",
            "sip:user@",
            "sip:host:",
            "sip:host:65536",
            "sip:host:x",
            "sip:host:5060x",
            "sip:2001:db8::1",
            "sip:[2001:db8::1",
            "sip:[2001:db8::1]x",
            "sip:%4@host",
            "sip:%zz@host",
            "sip:host;",
            "sip:host;;lr",
            "sip:host;a=;b",
            "sip:host;a=%z",
            "<sip:host>",
            "sip:a<b@host",
            "sip:a\"b@host",
            "sip:host/x",
            "1x:y",
            "s p:x",
            "tel:",
            "tel:1 2",
            "sip::pw@host",
            "sip:a\0b@host",
        ] {
            assert!(Uri::parse(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
