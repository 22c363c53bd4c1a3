//! `name-addr / addr-spec` with parameters (RFC 3261 sections 20.10, 20.20, 20.30, 20.34, 20.39; RFC 3327).
use crate::grammar::{
    find, find2, is_lws, parse_u32, quoted_length, split_at, trim, trim_end, trim_start,
};
use crate::{Params, Uri};

/// One name-addr or addr-spec with parameters: `From`, `To`, `Contact`, `Route`, `Record-Route`, `Path` …
#[derive(Clone, Copy, Debug)]
pub struct NameAddr<'a> {
    /// The value as received.
    pub bytes: &'a [u8],
    /// The display name as received, with its quotes.
    pub display_name: Option<&'a [u8]>,
    /// The URI as received: between the angle brackets, or the bare addr-spec.
    pub uri_bytes: &'a [u8],
    /// Header parameters: after `>`, or after the first `;` of an addr-spec.
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Parses one value. `None` for an open quote or bracket, an unquoted display name with a comma, quote, bracket or backslash,
    /// a bare addr-spec with a comma or question mark (section 20.10), and the `*` of Contact. This does not check the URI;
    /// [`NameAddr::uri`] does.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = trim(bytes);
        if bytes.first() == Some(&b'"') {
            let (display_name, rest) = split_at(bytes, quoted_length(bytes)?);
            let inner = trim_start(rest).strip_prefix(b"<")?;
            return Self::from_bracket(bytes, Some(display_name), inner);
        }
        match find2(b'<', b';', bytes) {
            Some(at) if bytes.get(at) == Some(&b'<') => {
                let (before, rest) = split_at(bytes, at);
                let display_name = trim_end(before);
                // Names that are neither tokens nor quoted are common, and harmless as long as their end is clear.
                if display_name.iter().any(|&octet| ends_name(octet)) {
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
        let (uri_bytes, rest) = split_at(inner, find(b'>', inner)?);
        let params = trim_start(rest.get(1..)?);
        matches!(params.first(), None | Some(b';')).then_some(Self {
            bytes,
            display_name,
            uri_bytes,
            params: Params::new(params),
        })
    }

    /// The URI, parsed; `None` if it is malformed.
    pub fn uri(&self) -> Option<Uri<'a>> {
        Uri::parse(self.uri_bytes)
    }

    /// The tag parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"tag")
    }

    /// Whether there is no tag, or exactly one that is neither empty nor quoted.
    pub(crate) fn has_sound_tag(&self) -> bool {
        let mut tags = self
            .params
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"tag"))
            .map(|(_, value)| value);
        match (tags.next(), tags.next()) {
            (None, _) => true,
            (Some(Some(tag)), None) => !matches!(tag.first(), None | Some(b'"')),
            _ => false,
        }
    }

    /// q in thousandths (`q=0.7` is 700); `None` if absent, `Some(None)` if malformed.
    pub fn q(&self) -> Option<Option<u16>> {
        self.params
            .find(b"q")
            .map(|value| value.and_then(parse_qvalue))
    }

    /// The `expires` parameter; `None` if absent, `Some(None)` if malformed.
    pub fn expires(&self) -> Option<Option<u32>> {
        self.params
            .find(b"expires")
            .map(|value| value.and_then(parse_u32))
    }
}

/// Whether a byte must not be in an unquoted display name, because other parsers may end the name or the value there.
fn ends_name(octet: u8) -> bool {
    matches!(octet, b',' | b'"' | b'\\' | b'>' | 0x7f) || (octet < b' ' && !is_lws(octet))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Display name, URI, parameters.
    fn parts(value: &'static str) -> Option<(Option<&'static str>, &'static str, &'static str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        NameAddr::parse(value.as_bytes()).map(|address| {
            (
                address.display_name.map(text),
                text(address.uri_bytes),
                text(address.params.as_bytes()),
            )
        })
    }

    #[test]
    fn values_are_taken_apart() {
        for (value, expected) in [
            ("<sip:a@b>", (None, "sip:a@b", "")),
            (
                "  Alice  Bee <sip:a@b> ;tag=1 ",
                (Some("Alice  Bee"), "sip:a@b", ";tag=1"),
            ),
            (
                "caller<sip:a@b>;tag=1",
                (Some("caller"), "sip:a@b", ";tag=1"),
            ),
            (
                r#""A. \"<B>\", C" <sip:a@b;lr>;x"#,
                (Some(r#""A. \"<B>\", C""#), "sip:a@b;lr", ";x"),
            ),
            ("\"\"<sip:a@b>", (Some("\"\""), "sip:a@b", "")),
            (
                "\"A\"\r\n <sip:a@b>\r\n ;tag=1",
                (Some("\"A\""), "sip:a@b", ";tag=1"),
            ),
            (
                "J\u{fc}rgen <sip:a@b>",
                (Some("J\u{fc}rgen"), "sip:a@b", ""),
            ),
            // Without angle brackets, all parameters belong to the header field (section 20.10).
            ("sip:a@b;user=phone", (None, "sip:a@b", ";user=phone")),
            ("sip:a@b ; tag=1", (None, "sip:a@b", "; tag=1")),
            ("tel:+123", (None, "tel:+123", "")),
            ("<sip:a@b?x=y>", (None, "sip:a@b?x=y", "")),
        ] {
            assert_eq!(parts(value), Some(expected), "{value:?}");
        }
    }

    #[test]
    fn what_is_neither_form_is_refused() {
        for value in [
            "",
            "*",
            ";tag=1",
            "\"A <sip:a@b>",
            "\"A\" sip:a@b",
            "<sip:a@b",
            "sip:a@b>",
            "Bell, Alexander <sip:a@b>",
            "a\\b <sip:a@b>",
            "sip:a@b?x=y",
            "sip:a@b,c",
            "<sip:a@b>x",
            "<sip:a@b> <sip:c@d>",
            "A \"B\" <sip:a@b>",
        ] {
            assert_eq!(parts(value), None, "{value:?}");
        }
    }

    #[test]
    fn a_name_without_quotes_may_hold_more_than_tokens() {
        for name in ["a@b", "Alice (Sales)", "A: [1/2] = {x}", "M\u{fc}ller"] {
            let value = format!("{name} <sip:a@b>;tag=1");
            let address = NameAddr::parse(value.as_bytes()).expect("an address");
            assert_eq!(address.display_name, Some(name.as_bytes()));
            assert_eq!(
                (address.uri_bytes, address.tag()),
                (&b"sip:a@b"[..], Some(&b"1"[..]))
            );
        }
    }

    #[test]
    fn the_uri_must_stand_alone_between_the_brackets() {
        assert!(NameAddr::parse(b"< sip:a@b >").unwrap().uri().is_none());
        assert!(NameAddr::parse(b"<>").unwrap().uri().is_none());
    }

    #[test]
    fn q_is_read_in_thousandths() {
        let q = |value: &str| {
            NameAddr::parse(format!("<sip:a@b>;q{value}").as_bytes())
                .unwrap()
                .q()
        };
        for (value, expected) in [
            ("=1", Some(1000)),
            ("=1.000", Some(1000)),
            ("=0", Some(0)),
            ("=0.", Some(0)),
            ("=0.7", Some(700)),
            ("=0.07", Some(70)),
            ("=0.123", Some(123)),
            ("=1.001", None),
            ("=0.1234", None),
            ("=2", None),
            ("=.5", None),
            ("=0,5", None),
            ("=-1", None),
            ("", None),
        ] {
            assert_eq!(q(value), Some(expected), "{value}");
        }
        assert_eq!(NameAddr::parse(b"<sip:a@b>").unwrap().q(), None);
    }

    #[test]
    fn expires_and_tag_are_parameters_of_the_header_field() {
        let address = NameAddr::parse(b"<sip:a@b;tag=no;expires=1>;Expires=3600;tag=yes").unwrap();
        assert_eq!(
            (address.expires(), address.tag()),
            (Some(Some(3600)), Some(&b"yes"[..]))
        );
        assert_eq!(
            NameAddr::parse(b"<sip:a@b>;expires=280297596632815")
                .unwrap()
                .expires(),
            Some(None)
        );
        assert_eq!(NameAddr::parse(b"<sip:a@b>").unwrap().expires(), None);
    }
}
