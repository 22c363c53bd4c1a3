//! `Via` (RFC 3261 section 20.42, RFC 3581).
use crate::grammar::{is_token_char, parse_u16, split_at, take_while, trim, trim_end, trim_start};
use crate::host::parse_address;
use crate::{Host, Params};
use std::net::IpAddr;

/// One value of `Via` (section 20.42).
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    /// The value as received, without the list comma.
    pub bytes: &'a [u8],
    /// Transport token as received (`UDP`).
    pub transport: &'a [u8],
    /// sent-by host.
    pub host: Host<'a>,
    /// sent-by `host[:port]` as received.
    pub sent_by: &'a [u8],
    /// sent-by port.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params<'a>,
    branch: Option<&'a [u8]>,
    received: Option<&'a [u8]>,
    has_rport: bool,
    /// The value of rport, if it has one.
    rport: Option<&'a [u8]>,
    /// The bytes of rport, if there is exactly one and no received.
    pub(crate) lone_rport: Option<&'a [u8]>,
    /// Whether the parameters are well-formed.
    pub(crate) is_sound: bool,
}

impl<'a> Via<'a> {
    /// Parses one value. White space is allowed wherever the grammar allows it (`SIP / 2.0 / UDP host : 5060 ; branch = x`).
    /// Malformed parameters are accepted; see `is_sound`.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = trim(bytes);
        let (transport, rest) = split_sent_protocol(bytes)?;
        let sent_by_start = trim_start(rest);
        // sent-protocol and sent-by are separated by at least one white space.
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
        let via = Self {
            bytes,
            transport,
            host,
            sent_by: trim_end(sent_by),
            port,
            params: Params::new(rest),
            branch: None,
            received: None,
            has_rport: false,
            rport: None,
            lone_rport: None,
            is_sound: true,
        };
        Some(via.with_params())
    }

    /// Reads the parameters once, because every message needs branch and rport several times. Of repeated parameters the first
    /// counts.
    fn with_params(mut self) -> Self {
        let (mut has_branch, mut has_received, mut rports) = (false, false, 0);
        for param in self.params.raw() {
            self.is_sound &= param.is_well_formed();
            match param.name.len() {
                5 if param.name.eq_ignore_ascii_case(b"rport") => {
                    rports += 1;
                    self.lone_rport = Some(param.bytes);
                    if !self.has_rport {
                        (self.has_rport, self.rport) = (true, param.value);
                    }
                }
                6 if !has_branch && param.name.eq_ignore_ascii_case(b"branch") => {
                    (has_branch, self.branch) = (true, param.value);
                }
                8 if !has_received && param.name.eq_ignore_ascii_case(b"received") => {
                    (has_received, self.received) = (true, param.value);
                }
                _ => {}
            }
        }
        self.lone_rport = self.lone_rport.filter(|_| rports == 1 && !has_received);
        self
    }

    /// The branch parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.branch
    }

    /// `received`, with or without IPv6 brackets.
    pub fn received(&self) -> Option<IpAddr> {
        parse_address(self.received?)
    }

    /// `rport`: `None` if absent, `Some(None)` if present without a value or with an invalid port.
    pub fn rport(&self) -> Option<Option<u16>> {
        self.has_rport.then(|| self.rport.and_then(parse_u16))
    }
}

/// `SIP/2.0/transport`, and the rest.
fn split_sent_protocol(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = match bytes.strip_prefix(b"SIP/2.0/") {
        Some(rest) => rest,
        None => split_spaced_protocol(bytes)?,
    };
    let (transport, rest) = take_while(rest, is_token_char);
    (!transport.is_empty()).then_some((transport, rest))
}

/// The bytes after `SIP / 2.0 /` with white space or in another case.
fn split_spaced_protocol(bytes: &[u8]) -> Option<&[u8]> {
    let (name, rest) = take_while(bytes, is_token_char);
    let (version, rest) = take_while(behind_slash(rest)?, is_token_char);
    let rest = behind_slash(rest)?;
    (name.eq_ignore_ascii_case(b"SIP") && version == b"2.0").then_some(rest)
}

/// `SLASH`: a slash with white space on either side.
fn behind_slash(bytes: &[u8]) -> Option<&[u8]> {
    trim_start(bytes).strip_prefix(b"/").map(trim_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_apart() {
        let via =
            Via::parse(b"SIP/2.0/UDP erlang.bell-telephone.com:5060;branch=z9hG4bK87asdks7;rport")
                .unwrap();
        assert_eq!(via.transport, b"UDP");
        assert_eq!(via.host, Host::Name(b"erlang.bell-telephone.com"));
        assert_eq!(
            (via.sent_by, via.port),
            (&b"erlang.bell-telephone.com:5060"[..], Some(5060))
        );
        assert_eq!(via.branch(), Some(&b"z9hG4bK87asdks7"[..]));
        assert_eq!((via.received(), via.rport()), (None, Some(None)));
    }

    #[test]
    fn white_space_and_folds_are_allowed_where_the_grammar_has_them() {
        let via =
            Via::parse(b"sip  /  2.0\r\n /TLS\t [2001:db8::9] :\r\n 5061 ;branch = x").unwrap();
        assert_eq!(via.transport, b"TLS");
        assert_eq!(via.host, Host::Address("2001:db8::9".parse().unwrap()));
        assert_eq!((via.port, via.branch()), (Some(5061), Some(&b"x"[..])));
        assert_eq!(via.sent_by, b"[2001:db8::9] :\r\n 5061");
        assert_eq!(Via::parse(b"SIP/2.0/UDP host ").unwrap().sent_by, b"host");
    }

    #[test]
    fn received_may_have_brackets_or_not() {
        let received = |value: &'static str| Via::parse(value.as_bytes()).unwrap().received();
        let expected = Some("2001:db8::9:255".parse().unwrap());
        assert_eq!(
            received("SIP/2.0/UDP h;received=[2001:db8::9:255]"),
            expected
        );
        assert_eq!(received("SIP/2.0/UDP h;received=2001:db8::9:255"), expected);
        assert_eq!(
            received("SIP/2.0/UDP h;received=192.0.2.1"),
            Some("192.0.2.1".parse().unwrap())
        );
        assert_eq!(received("SIP/2.0/UDP h;received=example.org"), None);
    }

    #[test]
    fn rport_tells_absent_from_empty_from_port() {
        let rport = |value: &'static str| Via::parse(value.as_bytes()).unwrap().rport();
        assert_eq!(rport("SIP/2.0/UDP h"), None);
        assert_eq!(rport("SIP/2.0/UDP h;rport"), Some(None));
        assert_eq!(rport("SIP/2.0/UDP h;rport=9"), Some(Some(9)));
        assert_eq!(rport("SIP/2.0/UDP h;rport=99999"), Some(None));
    }

    #[test]
    fn of_parameters_with_one_name_the_first_counts() {
        let via = Via::parse(
            b"SIP/2.0/UDP h;branch=a;branch=b;rport=1;rport=2;received=192.0.2.1;received=192.0.2.2",
        )
        .unwrap();
        assert_eq!(via.branch(), Some(&b"a"[..]));
        assert_eq!(via.rport(), Some(Some(1)));
        assert_eq!(via.received(), Some("192.0.2.1".parse().unwrap()));
        let bare =
            Via::parse(b"SIP/2.0/UDP h;branch;branch=b;received;received=192.0.2.2").unwrap();
        assert_eq!((bare.branch(), bare.received()), (None, None));
    }

    #[test]
    fn what_is_no_via_is_refused() {
        for value in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0 host",
            "SIP/1.0/UDP host",
            "HTTP/2.0/UDP host",
            "SIP/2.0/UDP host:",
            "SIP/2.0/UDP host:x",
            "SIP/2.0/UDP host:65536",
            "SIP/2.0/UDP host host",
            "SIP/2.0/ host",
            "SIP/2.0/UDP;host",
            "SIP/2.0/UDP 2001:db8::1",
            "SIP/2.0/UDP [2001:db8::1",
            "SIP/2.0/UDP ;branch=x",
        ] {
            assert!(Via::parse(value.as_bytes()).is_none(), "{value:?}");
        }
    }
}
