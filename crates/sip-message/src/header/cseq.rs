//! `CSeq` (RFC 3261 section 20.16).
use crate::Method;
use crate::grammar::{is_lws, is_token, parse_u32, take_while, trim};

/// The value of `CSeq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Sequence number.
    pub number: u32,
    /// Method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses a header value. `None` if the number is missing or above 2^32-1, or if the method is not a token.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (digits, rest) = take_while(trim(value), |octet| !is_lws(octet));
        let number = parse_u32(digits)?;
        let method = trim(rest);
        is_token(method).then(|| Self {
            number,
            method: Method::from_bytes(method),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_method_are_read() {
        assert_eq!(
            CSeq::parse(b"0009\r\n  INVITE"),
            Some(CSeq {
                number: 9,
                method: Method::Invite
            })
        );
        assert_eq!(
            CSeq::parse(b"4294967295 x"),
            Some(CSeq {
                number: u32::MAX,
                method: Method::Other(b"x")
            })
        );
    }

    #[test]
    fn what_is_no_cseq_is_refused() {
        for value in [
            "",
            "1",
            "INVITE",
            "1 ",
            "4294967296 INVITE",
            "-1 INVITE",
            "1 INVITE x",
            "1 IN,VITE",
            "1INVITE",
        ] {
            assert_eq!(CSeq::parse(value.as_bytes()), None, "{value:?}");
        }
    }
}
