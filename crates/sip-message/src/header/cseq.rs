//! `CSeq` (RFC 3261 section 20.16).
use crate::Method;
use crate::grammar::{is_lws, is_token, parse_u32, take_while, trim};

/// `CSeq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Sequence number.
    pub number: u32,
    /// Method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses a header value; `None` when the number is none or above 2^32-1, or the method is no token.
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
