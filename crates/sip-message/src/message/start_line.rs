//! The first line of a message (RFC 3261 sections 7.1 and 7.2).
use crate::Method;
use crate::grammar::{is_lws, parse_u32, split_at, take_while, trim_end};

/// The start line, parsed only as far as needed to classify it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartLine<'a> {
    /// The URI is everything between method and version. If there is more than one space, the extra white space is kept.
    Request {
        method: Method<'a>,
        uri: &'a [u8],
        version: &'a [u8],
    },
    Response {
        status: u16,
        reason: &'a [u8],
        version: &'a [u8],
    },
}

impl<'a> StartLine<'a> {
    /// Parses the line, which must not include its line end.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        if is_version_start(line) {
            return Self::parse_status(line);
        }
        let (method, rest) = take_while(line, |octet| octet != b' ' && octet != b'\t');
        let trimmed = trim_end(rest);
        let version_length = trimmed.iter().rev().position(|&octet| is_lws(octet))?;
        let (before, version) = split_at(trimmed, trimmed.len() - version_length);
        if method.is_empty() || !is_version_start(version) {
            return None;
        }
        // One space on each side belongs to the line. Validation reports more white space as a fault of the URI. White space
        // after the version is kept for validation as well.
        let uri = before.strip_prefix(b" ").unwrap_or(before);
        let uri = uri.strip_suffix(b" ").unwrap_or(uri);
        let (_, version) = split_at(rest, trimmed.len() - version_length);
        Some(Self::Request {
            method: Method::from_bytes(method),
            uri,
            version,
        })
    }

    fn parse_status(line: &'a [u8]) -> Option<Self> {
        let (version, rest) = take_while(line, |octet| octet != b' ');
        let (code, reason) = take_while(rest.get(1..)?, |octet| octet != b' ');
        let status = (code.len() == 3).then(|| parse_u32(code)).flatten()?;
        let status = u16::try_from(status)
            .ok()
            .filter(|status| (100..700).contains(status))?;
        Some(Self::Response {
            status,
            reason: reason.get(1..).unwrap_or_default(),
            version,
        })
    }
}

/// Whether bytes begin with `SIP/` and a digit. The version is case-insensitive (section 7.1).
fn is_version_start(bytes: &[u8]) -> bool {
    let (name, rest) = split_at(bytes, 4);
    name.eq_ignore_ascii_case(b"SIP/") && rest.first().is_some_and(u8::is_ascii_digit)
}

/// Whether a line is a start line of SIP. It may include its line end.
pub(crate) fn is_start_line(line: &[u8]) -> bool {
    StartLine::parse(trim_end(line)).is_some()
}
