//! The parts of a message that the analyzer reads.

use memchr::{memchr, memchr2};
use sip_message::{CSeq, Glance, Method, NameAddr, Params, ParseError};

/// The fields that match a message with another one, and that are exported.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Status code; `None` in a request.
    pub status: Option<u16>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// `CSeq`.
    pub cseq: CSeq<'a>,
    /// The topmost Via, unparsed.
    pub top_via: &'a [u8],
    /// The branch of the topmost Via; empty if it has none, as before RFC 3261.
    pub branch: &'a [u8],
    /// The branch of the second Via, empty if it has none; `None` without a second Via.
    pub second_branch: Option<&'a [u8]>,
    /// The To tag, which distinguishes the branches of a fork.
    pub to_tag: &'a [u8],
    /// Whether it has credentials.
    pub is_authenticated: bool,
}

/// Why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unobserved {
    /// Only line ends.
    Empty,
    /// Without a SIP start line.
    NotSip,
    /// Via, Call-ID or `CSeq` is missing or broken.
    Broken,
    /// Cut off within the header fields.
    CutOff,
}

impl<'a> Observed<'a> {
    /// Reads a parsed message. `cut_off`: its end was not captured.
    pub fn new(seen: &Glance<'a>, cut_off: bool) -> Result<Self, Unobserved> {
        if cut_off && !seen.is_complete {
            return Err(Unobserved::CutOff);
        }
        Self::read(seen).ok_or(Unobserved::Broken)
    }

    fn read(seen: &Glance<'a>) -> Option<Self> {
        let cseq = seen.sequence()?;
        let is_response = seen.method.is_none();
        if seen
            .method
            .is_some_and(|method: Method<'_>| method != cseq.method)
        {
            return None;
        }
        let top_via = seen.top_via?;
        let to = seen.to.filter(|_| is_response);
        let to_tag = to.and_then(|to| NameAddr::parse(to)?.tag());
        Some(Self {
            status: is_response.then_some(seen.status),
            call_id: seen.call_id?,
            cseq,
            top_via,
            branch: branch_of(top_via),
            second_branch: seen.second_via.map(branch_of),
            to_tag: to_tag.unwrap_or_default(),
            is_authenticated: !is_response && seen.has_credentials,
        })
    }
}

/// The branch of a Via. Parses nothing else of it.
fn branch_of(via: &[u8]) -> &[u8] {
    let Some(params) = memchr(b';', via).and_then(|at| via.get(at..)) else {
        return &[];
    };
    usual_branch(params)
        .or_else(|| Params::new(params).value(b"branch"))
        .unwrap_or_default()
}

/// A branch in the usual form, among parameters without quotes.
fn usual_branch(params: &[u8]) -> Option<&[u8]> {
    let mut rest = params;
    while let Some(param) = rest.get(1..) {
        let end = memchr2(b';', b'"', param).unwrap_or(param.len());
        let (param, behind) = param.split_at_checked(end)?;
        if behind.first() == Some(&b'"') {
            return None;
        }
        if let Some(value) = param.strip_prefix(b"branch=") {
            // Checks all bytes without an early exit, so that the compiler can vectorize the loop.
            let is_bare = value.iter().fold(!value.is_empty(), |bare, octet| {
                bare & octet.is_ascii_graphic()
            });
            return is_bare.then_some(value);
        }
        rest = behind;
    }
    None
}

impl From<ParseError> for Unobserved {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Empty => Self::Empty,
            ParseError::NotSip => Self::NotSip,
            ParseError::TooManyHeaders | ParseError::TooLong => Self::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_the_one_that_the_parser_of_via_finds() {
        for via in [
            "SIP/2.0/UDP h;branch=z9hG4bK-a",
            "SIP/2.0/UDP h:5060;rport;branch=z9hG4bK-a;received=192.0.2.1",
            "SIP/2.0/UDP h ; branch = z9hG4bK-a ; rport",
            "SIP/2.0/UDP h;BRANCH=z9hG4bK-a",
            "SIP/2.0/UDP [2001:db8::1]:5060;branch=z9hG4bK-a ;x",
            "SIP/2.0/UDP h;x=\"a;branch=b\";branch=c",
            "SIP/2.0/UDP h;x=y;branch=\"b\"",
            "SIP/2.0/UDP h;branch;rport",
            "SIP/2.0/UDP h;branch=;rport",
            "SIP/2.0/UDP h;rport",
            "SIP/2.0/UDP h;;branch=x",
            "SIP/2.0/UDP h",
        ] {
            let parsed = sip_message::Via::parse(via.as_bytes()).unwrap();
            assert_eq!(
                branch_of(via.as_bytes()),
                parsed.branch().unwrap_or_default(),
                "{via}"
            );
        }
    }
}
