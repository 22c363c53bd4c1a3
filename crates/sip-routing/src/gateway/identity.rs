//! The identity of the caller that a gateway gets (RFC 3325), without the rest of the request.

use crate::number::{self, SYMBOLS};
use crate::numbering::{NumberFormat, NumberingPlan};

/// Which header field says who calls, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The header field.
    pub header: IdentityHeader,
    /// How the number is written.
    pub format: NumberFormat,
    /// The number of the trunk, such as `+4930123400`, for calls whose caller has no number.
    pub number: Option<Box<str>>,
    /// Whose number is sent.
    pub source: CallerSource,
    /// The host of the URI; `None`: the domain of the caller.
    pub domain: Option<Box<str>>,
}

/// Which header field says who calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityHeader {
    /// Those of trusted peers pass, and none is added.
    #[default]
    Unchanged,
    /// None.
    None,
    /// `P-Asserted-Identity` (RFC 3325).
    Asserted,
    /// `P-Preferred-Identity` (RFC 3325).
    Preferred,
    /// `Remote-Party-ID`, which preceded RFC 3325.
    RemotePartyId,
}

impl IdentityHeader {
    /// The word for it in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::None => "none",
            Self::Asserted => "asserted",
            Self::Preferred => "preferred",
            Self::RemotePartyId => "remote_party_id",
        }
    }
}

/// Whose number is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerSource {
    /// That of the caller; that of the trunk if the caller has none.
    #[default]
    Own,
    /// That of the trunk.
    Trunk,
}

/// A caller whose identity is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'c> {
    /// The user of its URI, a number or a name.
    pub user: &'c [u8],
    /// Its domain.
    pub domain: &'c [u8],
}

impl CallerIdentity {
    /// Appends the value of the header field. Returns whether it did: there may be nothing to say. `caller` is `None` if nothing is proven.
    /// `domain` is the domain of this server, for a caller without one. `is_private`: the caller asks for privacy.
    pub fn write(
        &self,
        plan: &NumberingPlan,
        caller: Option<Caller<'_>>,
        domain: &str,
        is_private: bool,
        into: &mut Vec<u8>,
    ) -> bool {
        let begun = into.len();
        into.extend_from_slice(b"<sip:");
        let Some(is_number) = self.write_user(plan, caller, into) else {
            into.truncate(begun);
            return false;
        };
        let domain = match (&self.domain, caller) {
            (Some(domain), _) => domain.as_bytes(),
            (None, Some(caller)) if !caller.domain.is_empty() => caller.domain,
            (None, _) => domain.as_bytes(),
        };
        into.push(b'@');
        into.extend_from_slice(domain);
        if is_number {
            into.extend_from_slice(b";user=phone");
        }
        into.push(b'>');
        if self.header == IdentityHeader::RemotePartyId {
            into.extend_from_slice(b";party=calling;screen=yes;privacy=");
            into.extend_from_slice(if is_private { b"full" } else { b"off" });
        }
        true
    }

    /// Appends the user. Returns whether it is a telephone number; `None` if there is nothing to send.
    fn write_user(
        &self,
        plan: &NumberingPlan,
        caller: Option<Caller<'_>>,
        into: &mut Vec<u8>,
    ) -> Option<bool> {
        let caller = caller.filter(|_| self.source == CallerSource::Own);
        if let Some(caller) = caller
            && plan.write(caller.user, self.format, into)
        {
            return Some(true);
        }
        let is_enough = |caller: &Caller<'_>| {
            self.format == NumberFormat::Unchanged && is_of_telephone(caller.user)
        };
        if let Some(number) = self.number.as_deref()
            && !caller.as_ref().is_some_and(is_enough)
        {
            if !plan.write(number.as_bytes(), self.format, into) {
                into.extend_from_slice(number.as_bytes());
            }
            return Some(true);
        }
        into.extend_from_slice(caller?.user);
        Some(false)
    }
}

/// Whether a user is a number that a telephone can have: without DTMF letters, which routing numbers have.
fn is_of_telephone(user: &[u8]) -> bool {
    let mut has_letters = false;
    let number = number::read(user, |digit| {
        let symbol = SYMBOLS.get(usize::from(digit));
        has_letters |= symbol.is_some_and(u8::is_ascii_uppercase);
    });
    number.is_some() && !has_letters
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Caller<'_> = caller("alice");

    const fn caller(user: &str) -> Caller<'_> {
        Caller {
            user: user.as_bytes(),
            domain: b"example.org",
        }
    }

    fn asserted(format: NumberFormat, number: Option<&str>) -> CallerIdentity {
        CallerIdentity {
            header: IdentityHeader::Asserted,
            format,
            number: number.map(Into::into),
            ..CallerIdentity::default()
        }
    }

    fn written(identity: &CallerIdentity, caller: Option<Caller<'_>>, is_private: bool) -> String {
        let plan = NumberingPlan {
            country_code: "49".into(),
            ..NumberingPlan::default()
        };
        let mut into = Vec::new();
        let is_written = identity.write(&plan, caller, "our.example", is_private, &mut into);
        assert_eq!(is_written, !into.is_empty());
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn the_number_of_the_caller_is_sent_or_that_of_the_trunk() {
        use NumberFormat::{E164, National, Unchanged};
        let trunk = Some("+4930123400");
        for (format, number, who, expected) in [
            (
                E164,
                None,
                Some("030123456"),
                "<sip:+4930123456@example.org;user=phone>",
            ),
            (
                E164,
                trunk,
                Some("030123456"),
                "<sip:+4930123456@example.org;user=phone>",
            ),
            (
                E164,
                trunk,
                Some("alice"),
                "<sip:+4930123400@example.org;user=phone>",
            ),
            (
                E164,
                trunk,
                Some("1001"),
                "<sip:+4930123400@example.org;user=phone>",
            ),
            (
                National,
                trunk,
                Some("alice"),
                "<sip:030123400@example.org;user=phone>",
            ),
            (
                E164,
                trunk,
                None,
                "<sip:+4930123400@our.example;user=phone>",
            ),
            (
                Unchanged,
                trunk,
                Some("alice"),
                "<sip:+4930123400@example.org;user=phone>",
            ),
            (Unchanged, trunk, Some("1001"), "<sip:1001@example.org>"),
            (
                Unchanged,
                trunk,
                Some("a1"),
                "<sip:+4930123400@example.org;user=phone>",
            ),
            (E164, None, Some("alice"), "<sip:alice@example.org>"),
            (E164, None, Some("1001"), "<sip:1001@example.org>"),
            (E164, None, None, ""),
        ] {
            let identity = asserted(format, number);
            let text = written(&identity, who.map(caller), false);
            assert_eq!(text, expected, "{who:?}");
        }
    }

    #[test]
    fn the_operator_chooses_the_number_the_domain_and_the_header_field() {
        let identity = CallerIdentity {
            header: IdentityHeader::RemotePartyId,
            format: NumberFormat::Digits,
            number: Some("+4930123400".into()),
            source: CallerSource::Trunk,
            domain: Some("trunk.example.net".into()),
        };
        for (is_private, expected) in [
            (
                false,
                "<sip:4930123400@trunk.example.net;user=phone>;party=calling;screen=yes;privacy=off",
            ),
            (
                true,
                "<sip:4930123400@trunk.example.net;user=phone>;party=calling;screen=yes;privacy=full",
            ),
        ] {
            let text = written(&identity, Some(caller("030123456")), is_private);
            assert_eq!(text, expected);
        }
        assert_eq!(
            written(&asserted(NumberFormat::Unchanged, None), Some(ALICE), false),
            "<sip:alice@example.org>"
        );
    }
}
