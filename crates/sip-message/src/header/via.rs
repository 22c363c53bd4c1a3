//! `Via` (RFC 3261 section 20.42, RFC 3581).
use crate::grammar::{is_token_char, parse_u16, split_at, take_while, trim, trim_end, trim_start};
use crate::host::parse_address;
use crate::{Host, Params};
use std::net::IpAddr;

/// `Via` (section 20.42): one value.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    /// The value as written, without the list comma.
    pub bytes: &'a [u8],
    /// Transport token as written (`UDP`).
    pub transport: &'a [u8],
    /// sent-by host.
    pub host: Host<'a>,
    /// sent-by `host[:port]` as written.
    pub sent_by: &'a [u8],
    /// sent-by port.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params<'a>,
}

impl<'a> Via<'a> {
    /// Parses one value. White space is allowed wherever the grammar allows it (`SIP / 2.0 / UDP host : 5060 ; branch = x`).
    /// The parameters are not looked at.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = trim(bytes);
        let (transport, rest) = split_sent_protocol(bytes)?;
        let sent_by_start = trim_start(rest);
        // At least one white space separates sent-protocol and sent-by.
        if sent_by_start.len() == rest.len() {
            return None;
        }
        let (host, _, behind_host) = Host::split(sent_by_start)?;
        let mut rest = trim_start(behind_host);
        let mut port = None;
        if let [b':', behind @ ..] = rest {
            let (digits, behind) = take_while(trim_start(behind), |octet| octet.is_ascii_digit());
            port = Some(parse_u16(digits)?);
            rest = trim_start(behind);
        }
        if !matches!(rest.first(), None | Some(b';')) {
            return None;
        }
        let (sent_by, _) = split_at(sent_by_start, sent_by_start.len() - rest.len());
        Some(Self {
            bytes,
            transport,
            host,
            sent_by: trim_end(sent_by),
            port,
            params: Params::new(rest),
        })
    }

    /// The branch parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.value(b"branch")
    }

    /// `received`, with or without IPv6 brackets.
    pub fn received(&self) -> Option<IpAddr> {
        parse_address(self.params.value(b"received")?)
    }

    /// `rport`: outer None = absent, `Some(None)` = present without value (or with one that is no port).
    pub fn rport(&self) -> Option<Option<u16>> {
        self.params
            .find(b"rport")
            .map(|value| value.and_then(parse_u16))
    }
}

/// `SIP/2.0/transport`, and what is behind.
fn split_sent_protocol(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = match bytes.strip_prefix(b"SIP/2.0/") {
        Some(rest) => rest,
        None => split_spaced_protocol(bytes)?,
    };
    let (transport, rest) = take_while(rest, is_token_char);
    (!transport.is_empty()).then_some((transport, rest))
}

/// What is behind `SIP / 2.0 /` with white space or in another case.
fn split_spaced_protocol(bytes: &[u8]) -> Option<&[u8]> {
    let (name, rest) = take_while(bytes, is_token_char);
    let (version, rest) = take_while(behind_slash(rest)?, is_token_char);
    let rest = behind_slash(rest)?;
    (name.eq_ignore_ascii_case(b"SIP") && version == b"2.0").then_some(rest)
}

/// `SLASH`: a slash with white space around it.
fn behind_slash(bytes: &[u8]) -> Option<&[u8]> {
    trim_start(bytes).strip_prefix(b"/").map(trim_start)
}
