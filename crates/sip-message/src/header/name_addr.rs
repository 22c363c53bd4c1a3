//! `name-addr / addr-spec` with parameters (RFC 3261 sections 20.10, 20.20, 20.30, 20.34, 20.39; RFC 3327).
use crate::grammar::{
    is_lws, is_token_char, parse_u32, quoted_length, split_at, trim, trim_end, trim_start,
};
use crate::{Params, Uri};

/// `From`, `To`, `Contact`, `Route`, `Record-Route`, `Path` …: one name-addr or addr-spec with parameters.
#[derive(Clone, Copy, Debug)]
pub struct NameAddr<'a> {
    /// The value as written.
    pub bytes: &'a [u8],
    /// Display name as written (quotes kept).
    pub display_name: Option<&'a [u8]>,
    /// The URI, between the angle brackets or the bare addr-spec, as written.
    pub uri_bytes: &'a [u8],
    /// Header parameters (behind `>` or, for an addr-spec, behind the first `;`).
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Parses one value. `None` for an open quote or bracket, a display name that is neither quoted nor made of tokens, a
    /// bare addr-spec with a comma or question mark (section 20.10), and the `*` of Contact. The URI itself is judged by
    /// [`NameAddr::uri`].
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = trim(bytes);
        if bytes.first() == Some(&b'"') {
            let (display_name, rest) = split_at(bytes, quoted_length(bytes)?);
            let inner = trim_start(rest).strip_prefix(b"<")?;
            return Self::from_bracket(bytes, Some(display_name), inner);
        }
        match memchr::memchr2(b'<', b';', bytes) {
            Some(at) if bytes.get(at) == Some(&b'<') => {
                let (before, rest) = split_at(bytes, at);
                let display_name = trim_end(before);
                // UTF-8 without quotes is no token, yet harmless and common.
                if !display_name
                    .iter()
                    .all(|&octet| is_token_char(octet) || is_lws(octet) || octet >= 0x80)
                {
                    return None;
                }
                Self::from_bracket(
                    bytes,
                    Some(display_name).filter(|name| !name.is_empty()),
                    rest.get(1..)?,
                )
            }
            at => {
                let (uri, params) = split_at(bytes, at.unwrap_or(bytes.len()));
                let uri_bytes = trim_end(uri);
                if matches!(uri_bytes, [] | b"*")
                    || uri_bytes
                        .iter()
                        .any(|&octet| matches!(octet, b',' | b'?' | b'>'))
                {
                    return None;
                }
                Some(Self {
                    bytes,
                    display_name: None,
                    uri_bytes,
                    params: Params::new(params),
                })
            }
        }
    }

    fn from_bracket(
        bytes: &'a [u8],
        display_name: Option<&'a [u8]>,
        inner: &'a [u8],
    ) -> Option<Self> {
        let (uri_bytes, rest) = split_at(inner, memchr::memchr(b'>', inner)?);
        let params = trim_start(rest.get(1..)?);
        matches!(params.first(), None | Some(b';')).then_some(Self {
            bytes,
            display_name,
            uri_bytes,
            params: Params::new(params),
        })
    }

    /// Its URI, parsed.
    pub fn uri(&self) -> Option<Uri<'a>> {
        Uri::parse(self.uri_bytes)
    }

    /// The tag parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"tag")
    }

    /// q in thousandths (`q=0.7` is 700); `None` absent, `Some(None)` malformed.
    pub fn q(&self) -> Option<Option<u16>> {
        self.params
            .find(b"q")
            .map(|value| value.and_then(parse_qvalue))
    }

    /// `expires` parameter; `None` absent, `Some(None)` malformed.
    pub fn expires(&self) -> Option<Option<u32>> {
        self.params
            .find(b"expires")
            .map(|value| value.and_then(parse_u32))
    }
}

/// `qvalue`: `0[.ddd]` or `1[.000]`, in thousandths.
fn parse_qvalue(bytes: &[u8]) -> Option<u16> {
    let (whole, fraction) = match bytes {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * 1000;
    let mut weight = 100;
    for &digit in fraction {
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths += u16::from(digit - b'0') * weight;
        weight /= 10;
    }
    (thousandths <= 1000).then_some(thousandths)
}
