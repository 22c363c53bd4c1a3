//! `Session-Expires` and `Min-SE` (RFC 4028 sections 4 and 5).
use crate::Params;
use crate::grammar::{parse_u32, take_while, trim, trim_start};

/// The value of `Session-Expires` or `Min-SE`.
#[derive(Clone, Copy, Debug)]
pub struct SessionInterval<'a> {
    /// The interval, in seconds.
    pub seconds: u32,
    /// The digits of the interval as received.
    pub digits: &'a [u8],
    /// Parameters.
    pub params: Params<'a>,
}

/// The user agent that refreshes the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresher {
    /// The client of the request that set the interval.
    Uac,
    /// The server of that request.
    Uas,
}

impl<'a> SessionInterval<'a> {
    /// Parses a header value. `None` if it does not begin with a number up to 2^32-1, or if anything but parameters follows. The
    /// parameters themselves are not checked.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (digits, rest) = take_while(trim(value), |octet| octet.is_ascii_digit());
        let seconds = parse_u32(digits)?;
        let params = trim_start(rest);
        matches!(params.first(), None | Some(b';')).then_some(Self {
            seconds,
            digits,
            params: Params::new(params),
        })
    }

    /// The `refresher` parameter. `None` if it is absent or unknown.
    pub fn refresher(&self) -> Option<Refresher> {
        let value = self.params.value(b"refresher")?;
        if value.eq_ignore_ascii_case(b"uac") {
            Some(Refresher::Uac)
        } else if value.eq_ignore_ascii_case(b"uas") {
            Some(Refresher::Uas)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_and_the_refresher_are_read() {
        for (value, seconds, refresher) in [
            ("1800", 1800, None),
            ("0", 0, None),
            ("00090", 90, None),
            ("4294967295", u32::MAX, None),
            ("90;refresher=uac", 90, Some(Refresher::Uac)),
            (" 90\r\n ; Refresher = UAS ", 90, Some(Refresher::Uas)),
            ("90;lr;refresher=uas;x=1", 90, Some(Refresher::Uas)),
            ("90;refresher=uac;refresher=uas", 90, Some(Refresher::Uac)),
            ("90;refresher=proxy", 90, None),
            ("90;refresher", 90, None),
            ("90;refresher=\"uac\"", 90, None),
            ("90;;", 90, None),
        ] {
            let interval = SessionInterval::parse(value.as_bytes()).expect(value);
            assert_eq!(
                (interval.seconds, interval.refresher()),
                (seconds, refresher),
                "{value:?}"
            );
        }
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for value in [
            "",
            ";refresher=uac",
            "4294967296",
            "99999999999999999999",
            "-1",
            "+90",
            "1.5",
            "90s",
            "90 s",
            "90, 1800",
            "0x5a",
            "soon",
        ] {
            assert!(
                SessionInterval::parse(value.as_bytes()).is_none(),
                "{value:?}"
            );
        }
    }
}
