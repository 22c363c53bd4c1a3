//! Digest credentials and challenges (RFC 3261 section 22, RFC 7616, RFC 8760).
use crate::grammar::{
    is_lws, is_token_char, quoted_length, split_at, take_while, trim, trim_start,
};

/// The value of `Authorization` or `Proxy-Authorization` with scheme Digest (RFC 3261 section 22, RFC 7616, RFC 8760). Quotes are
/// removed. Backslash escapes inside them are kept, because senders hash them as they are.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are the parameters")]
pub struct Credentials<'a> {
    pub username: &'a [u8],
    pub realm: &'a [u8],
    pub nonce: &'a [u8],
    pub uri: &'a [u8],
    pub response: &'a [u8],
    pub algorithm: Option<&'a [u8]>,
    pub cnonce: Option<&'a [u8]>,
    pub opaque: Option<&'a [u8]>,
    pub qop: Option<&'a [u8]>,
    /// nc, parsed from up to eight hex digits; `None` if absent or malformed.
    pub nc: Option<u32>,
    /// nc as received.
    pub nc_bytes: Option<&'a [u8]>,
}

impl<'a> Credentials<'a> {
    /// Parses a header value. `None` if the scheme is not Digest, a mandatory parameter is missing, a parameter is repeated, or
    /// the list is malformed.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (mut username, mut realm, mut nonce, mut uri, mut response) =
            (None, None, None, None, None);
        let mut credentials = Self::default();
        for_each_param(value, |name, value| {
            let slot = match name.len() {
                2 if name.eq_ignore_ascii_case(b"nc") => &mut credentials.nc_bytes,
                3 if name.eq_ignore_ascii_case(b"uri") => &mut uri,
                3 if name.eq_ignore_ascii_case(b"qop") => &mut credentials.qop,
                5 if name.eq_ignore_ascii_case(b"realm") => &mut realm,
                5 if name.eq_ignore_ascii_case(b"nonce") => &mut nonce,
                6 if name.eq_ignore_ascii_case(b"cnonce") => &mut credentials.cnonce,
                6 if name.eq_ignore_ascii_case(b"opaque") => &mut credentials.opaque,
                8 if name.eq_ignore_ascii_case(b"username") => &mut username,
                8 if name.eq_ignore_ascii_case(b"response") => &mut response,
                9 if name.eq_ignore_ascii_case(b"algorithm") => &mut credentials.algorithm,
                _ => return true,
            };
            slot.replace(value).is_none()
        })?;
        credentials.nc = credentials.nc_bytes.and_then(parse_nc);
        Some(Self {
            username: username?,
            realm: realm?,
            nonce: nonce?,
            uri: uri?,
            response: response?,
            ..credentials
        })
    }
}

/// The value of `WWW-Authenticate` or `Proxy-Authenticate` with scheme Digest, for user agents.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are the parameters")]
pub struct Challenge<'a> {
    pub realm: &'a [u8],
    pub nonce: &'a [u8],
    pub algorithm: Option<&'a [u8]>,
    pub qop: Option<&'a [u8]>,
    pub opaque: Option<&'a [u8]>,
    pub stale: bool,
}

impl<'a> Challenge<'a> {
    /// Parses a header value. `None` as for [`Credentials::parse`]; realm and nonce are mandatory.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (mut realm, mut nonce, mut stale) = (None, None, None);
        let mut challenge = Self::default();
        for_each_param(value, |name, value| {
            let slot = match name.len() {
                3 if name.eq_ignore_ascii_case(b"qop") => &mut challenge.qop,
                5 if name.eq_ignore_ascii_case(b"realm") => &mut realm,
                5 if name.eq_ignore_ascii_case(b"nonce") => &mut nonce,
                5 if name.eq_ignore_ascii_case(b"stale") => &mut stale,
                6 if name.eq_ignore_ascii_case(b"opaque") => &mut challenge.opaque,
                9 if name.eq_ignore_ascii_case(b"algorithm") => &mut challenge.algorithm,
                _ => return true,
            };
            slot.replace(value).is_none()
        })?;
        let stale = stale.is_some_and(|stale: &[u8]| stale.eq_ignore_ascii_case(b"true"));
        Some(Self {
            realm: realm?,
            nonce: nonce?,
            stale,
            ..challenge
        })
    }
}

/// Calls `take` with each parameter of a Digest value, without quotes, until it returns false.
fn for_each_param<'a>(
    value: &'a [u8],
    mut take: impl FnMut(&'a [u8], &'a [u8]) -> bool,
) -> Option<()> {
    let (scheme, list) = take_while(trim(value), is_token_char);
    if !scheme.eq_ignore_ascii_case(b"Digest") || !list.first().is_some_and(|&octet| is_lws(octet))
    {
        return None;
    }
    let mut rest = list;
    loop {
        // Empty elements are skipped.
        (_, rest) = take_while(rest, |octet| octet == b',' || is_lws(octet));
        if rest.is_empty() {
            return Some(());
        }
        let (name, behind) = take_while(rest, is_token_char);
        let behind = trim_start(trim_start(behind).strip_prefix(b"=")?);
        let (value, behind) = split_value(behind)?;
        rest = trim_start(behind);
        if name.is_empty() || !matches!(rest.first(), None | Some(b',')) || !take(name, value) {
            return None;
        }
    }
}

/// The content of the quoted string at the beginning, or the bytes up to a comma or white space, and the rest.
fn split_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.first() == Some(&b'"') {
        let (quoted, behind) = split_at(bytes, quoted_length(bytes)?);
        return match quoted {
            [b'"', inner @ .., b'"'] => Some((inner, behind)),
            _ => None,
        };
    }
    let (value, behind) = take_while(bytes, |octet| octet != b',' && !is_lws(octet));
    (!value.contains(&b'"')).then_some((value, behind))
}

/// `8LHEX` in either case. Leading zeros may be missing.
fn parse_nc(bytes: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&bytes.len()) {
        return None;
    }
    bytes.iter().try_fold(0, |number, &octet| {
        Some(number << 4 | char::from(octet).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_with_quotes_removed() {
        let credentials = Credentials::parse(
            b"digest  username=\"a,\\\"b\" , realm = \"x y\",nonce=\"n=,\",\r\n uri=\"sip:a;b@c\", response=\"0123\", \
              algorithm=MD5, cnonce=\"\", qop=auth,nc=0000001F, opaque=\"o\", other=\"x\"",
        )
        .unwrap();
        assert_eq!(credentials.username, b"a,\\\"b");
        assert_eq!(
            (credentials.realm, credentials.nonce),
            (&b"x y"[..], &b"n=,"[..])
        );
        assert_eq!(
            (credentials.uri, credentials.response),
            (&b"sip:a;b@c"[..], &b"0123"[..])
        );
        assert_eq!(
            (credentials.algorithm, credentials.cnonce),
            (Some(&b"MD5"[..]), Some(&b""[..]))
        );
        assert_eq!(
            (credentials.qop, credentials.opaque),
            (Some(&b"auth"[..]), Some(&b"o"[..]))
        );
        assert_eq!(
            (credentials.nc, credentials.nc_bytes),
            (Some(31), Some(&b"0000001F"[..]))
        );
    }

    #[test]
    fn credentials_that_can_not_be_checked_are_refused() {
        const SOUND: &str = r#"Digest username="u", realm="r", nonce="n", uri="x", response="0""#;
        assert!(Credentials::parse(SOUND.as_bytes()).is_some());
        for missing in [
            "username=\"u\", ",
            "realm=\"r\", ",
            "nonce=\"n\", ",
            "uri=\"x\", ",
            ", response=\"0\"",
        ] {
            assert!(
                Credentials::parse(SOUND.replace(missing, "").as_bytes()).is_none(),
                "without {missing}"
            );
        }
        for broken in [
            SOUND.replace("Digest", "Basic"),
            SOUND.replace("Digest ", "Digest"),
            format!("{SOUND}, realm=\"other\""),
            format!("{SOUND}, opaque=\"open"),
            format!("{SOUND}, opaque"),
            format!("{SOUND}, opaque=a b"),
            format!("{SOUND}, opaque=\"a\"b"),
            format!("{SOUND}, =x"),
            "NoOneKnowsThisScheme opaque-data=here".to_owned(),
            String::new(),
        ] {
            assert!(Credentials::parse(broken.as_bytes()).is_none(), "{broken}");
        }
    }

    #[test]
    fn a_nonce_count_has_at_most_eight_hex_digits() {
        for (bytes, expected) in [
            ("00000001", Some(1)),
            ("ffffFFFF", Some(u32::MAX)),
            ("1", Some(1)),
            ("00a", Some(10)),
            ("", None),
            ("0000000g", None),
            ("000000001", None),
        ] {
            assert_eq!(parse_nc(bytes.as_bytes()), expected, "{bytes}");
        }
    }

    #[test]
    fn a_challenge_is_read() {
        let challenge =
            Challenge::parse(b"Digest realm=\"example.org\", qop=\"auth,auth-int\", nonce=\"abc\", stale=TRUE, algorithm=SHA-256").unwrap();
        assert_eq!(
            (challenge.realm, challenge.nonce, challenge.stale),
            (&b"example.org"[..], &b"abc"[..], true)
        );
        assert_eq!(
            (challenge.qop, challenge.algorithm),
            (Some(&b"auth,auth-int"[..]), Some(&b"SHA-256"[..]))
        );
        assert_eq!(challenge.opaque, None);
        assert!(
            !Challenge::parse(b"Digest realm=\"r\", nonce=\"n\", stale=no")
                .unwrap()
                .stale
        );
        assert!(Challenge::parse(b"Digest realm=\"r\"").is_none());
    }
}
