//! What the copy of a request says that goes to one gateway: the called number, and who calls.

use super::identity::CallerIdentity;
use crate::number::number;
use crate::numbering::{NumberFormat, NumberingPlan};
use crate::rule::{NumberEdit, around_user};
use sip_message::{Params, Uri};
use std::borrow::Cow;
use std::sync::Arc;

/// How numbers and identities are written for a gateway. By default, nothing is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewriting {
    /// How numbers are written here.
    pub plan: Arc<NumberingPlan>,
    /// The called number.
    pub called: CalledNumber,
    /// Who calls.
    pub caller: CallerIdentity,
}

/// How the called number is written: first in its format, then without its first characters, then with the prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalledNumber {
    /// The format.
    pub format: NumberFormat,
    /// How many characters are removed at the beginning.
    pub strip: u8,
    /// What is put in front: up to 32 letters, digits, `+` and `*`.
    pub prefix: Box<str>,
}

impl Rewriting {
    /// The Request-URI with the called number as the gateway wants it.
    pub fn called<'u>(&self, uri: &'u [u8]) -> Cow<'u, [u8]> {
        let CalledNumber {
            format,
            strip,
            prefix,
        } = &self.called;
        let mut uri = Cow::Borrowed(uri);
        if let Some(formatted) = formatted(&self.plan, *format, &uri) {
            uri = Cow::Owned(formatted);
        }
        if *strip > 0 || !prefix.is_empty() {
            let edit = NumberEdit::new(*strip, prefix.clone());
            let mut edited = Vec::with_capacity(uri.len() + prefix.len());
            if Uri::parse(&uri).is_some_and(|uri| edit.write(&uri, &mut edited)) {
                uri = Cow::Owned(edited);
            }
        }
        uri
    }
}

/// The URI with its number in this format; `None` if it stays. The meaning of a local number depends on its `phone-context`, so it stays.
fn formatted(plan: &NumberingPlan, format: NumberFormat, uri: &[u8]) -> Option<Vec<u8>> {
    if format == NumberFormat::Unchanged {
        return None;
    }
    let uri = Uri::parse(uri)?;
    let user = uri.user?;
    let of_number = user.get(number(user)?.len()..)?;
    let is_local = |params: Params<'_>| params.contains(b"phone-context");
    if is_local(Params::new(of_number)) || is_local(uri.params) {
        return None;
    }
    let (before, behind) = around_user(&uri)?;
    let mut written = before.to_vec();
    if !plan.write(user, format, &mut written) {
        return None;
    }
    written.extend_from_slice(of_number);
    written.extend_from_slice(behind);
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(format: NumberFormat, strip: u8, prefix: &str, uri: &str) -> String {
        let rewriting = Rewriting {
            plan: Arc::new(NumberingPlan {
                country_code: "49".into(),
                ..NumberingPlan::default()
            }),
            called: CalledNumber {
                format,
                strip,
                prefix: prefix.into(),
            },
            ..Rewriting::default()
        };
        String::from_utf8(rewriting.called(uri.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn the_called_number_gets_its_format_then_loses_characters_then_gets_the_prefix() {
        use NumberFormat::{Digits, E164, National, Unchanged};
        for (format, strip, prefix, uri, expected) in [
            (Unchanged, 0, "", "sip:030123456@h", "sip:030123456@h"),
            (
                E164,
                0,
                "",
                "sip:030123456@h;user=phone",
                "sip:+4930123456@h;user=phone",
            ),
            (E164, 1, "9911", "sip:030123456@h", "sip:99114930123456@h"),
            (
                National,
                1,
                "7",
                "sip:+4930123456:pw@h:5070?a=b",
                "sip:730123456:pw@h:5070?a=b",
            ),
            (
                Digits,
                0,
                "",
                "sip:+4930123456;npdi;rn=+49@h",
                "sip:4930123456;npdi;rn=+49@h",
            ),
            (
                Digits,
                0,
                "",
                "tel:+49-30-123456;ext=2",
                "tel:4930123456;ext=2",
            ),
            (Unchanged, 2, "+", "sip:004930@h", "sip:+4930@h"),
            // What has no international form keeps its digits.
            (E164, 0, "", "sip:112@h", "sip:112@h"),
            (E164, 0, "", "sip:alice@h", "sip:alice@h"),
            (E164, 0, "9", "sip:112@h", "sip:9112@h"),
            (
                E164,
                0,
                "",
                "tel:030123456;phone-context=+49",
                "tel:030123456;phone-context=+49",
            ),
            (
                E164,
                0,
                "",
                "sip:030123456;phone-context=x@h",
                "sip:030123456;phone-context=x@h",
            ),
            (E164, 1, "9", "sip:h", "sip:h"),
            (E164, 1, "9", "urn:service:sos", "urn:service:sos"),
        ] {
            assert_eq!(called(format, strip, prefix, uri), expected, "{uri}");
        }
    }
}
