//! How telephone numbers are written in this network, and how a gateway wants them.

use crate::number::{self, SYMBOLS};

/// The maximum number of digits that are converted.
const MAX_DIGITS: usize = 32;
/// A number with fewer digits and without `+` is a short code, such as that of an emergency service: it has no international form.
const MIN_DIGITS: usize = 7;

/// How numbers are written that arrive here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberingPlan {
    /// The country code, such as `49`; empty if unknown.
    pub country_code: Box<str>,
    /// What a number of another country begins with, such as `00`; empty if there is nothing.
    pub international_prefix: Box<str>,
    /// What a number of this country begins with, such as `0`; empty if there is nothing.
    pub national_prefix: Box<str>,
    /// What a number is that begins with none of them.
    pub plain: PlainNumbers,
}

impl Default for NumberingPlan {
    fn default() -> Self {
        Self {
            country_code: Box::default(),
            international_prefix: "00".into(),
            national_prefix: "0".into(),
            plain: PlainNumbers::default(),
        }
    }
}

/// What a number is that has neither `+` nor a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainNumbers {
    /// An extension or a number of the same town. It is not converted.
    #[default]
    Local,
    /// A national number, as in North America.
    National,
    /// A number with its country code.
    International,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberFormat {
    /// As received.
    #[default]
    Unchanged,
    /// `+4930123` (E.164, RFC 3966).
    E164,
    /// `4930123`.
    Digits,
    /// `004930123`: with the international prefix, for all countries.
    International,
    /// `030123`; a number of another country with the international prefix.
    National,
}

impl NumberingPlan {
    /// Appends the number that a user part is, in this format. Returns whether it did: a user that is no number, a number whose
    /// international form is unknown, and any number in the format [`NumberFormat::Unchanged`] are left to the calling code.
    pub fn write(&self, user: &[u8], format: NumberFormat, into: &mut Vec<u8>) -> bool {
        if format == NumberFormat::Unchanged {
            return false;
        }
        let Some(digits) = self.international(user) else {
            return false;
        };
        let digits = digits.as_slice();
        let country = self.country_code.as_bytes();
        let national = digits
            .strip_prefix(country)
            .filter(|rest| !country.is_empty() && !rest.is_empty());
        let (prefix, digits) = match (format, national) {
            (NumberFormat::E164, _) => ("+", digits),
            (NumberFormat::National, Some(rest)) => (&*self.national_prefix, rest),
            (NumberFormat::International | NumberFormat::National, _) => {
                (&*self.international_prefix, digits)
            }
            (NumberFormat::Digits | NumberFormat::Unchanged, _) => ("", digits),
        };
        into.extend_from_slice(prefix.as_bytes());
        into.extend_from_slice(digits);
        true
    }

    /// The digits of a number with its country code.
    fn international(&self, user: &[u8]) -> Option<Digits> {
        let mut received = Digits::default();
        let mut fits = true;
        let number = number::read(user, |digit| {
            let octet = SYMBOLS.get(usize::from(digit)).filter(|_| digit <= 9);
            let pushed = octet.and_then(|octet| received.push(&[*octet]));
            fits &= pushed.is_some();
        });
        let number = number.filter(|_| fits)?;
        let digits = received.as_slice();
        if number.is_global {
            return Some(received);
        }
        if digits.len() < MIN_DIGITS {
            return None;
        }
        let without = |prefix: &str| {
            let rest = digits.strip_prefix(prefix.as_bytes())?;
            (!prefix.is_empty() && !rest.is_empty()).then_some(rest)
        };
        if let Some(rest) = without(&self.international_prefix) {
            return Digits::of(&[rest]);
        }
        if let Some(rest) = without(&self.national_prefix) {
            return self.of_this_country(rest);
        }
        match self.plain {
            PlainNumbers::Local => None,
            PlainNumbers::National => self.of_this_country(digits),
            PlainNumbers::International => Some(received),
        }
    }

    fn of_this_country(&self, digits: &[u8]) -> Option<Digits> {
        let country = self.country_code.as_bytes();
        (!country.is_empty()).then(|| Digits::of(&[country, digits]))?
    }
}

/// Digits of a number.
#[derive(Clone, Copy, Debug, Default)]
struct Digits {
    octets: [u8; MAX_DIGITS],
    length: usize,
}

impl Digits {
    fn of(parts: &[&[u8]]) -> Option<Self> {
        let mut digits = Self::default();
        for part in parts {
            digits.push(part)?;
        }
        Some(digits)
    }

    fn push(&mut self, more: &[u8]) -> Option<()> {
        let end = self.length + more.len();
        let place = self.octets.get_mut(self.length..end)?;
        place.copy_from_slice(more);
        self.length = end;
        Some(())
    }

    fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [NumberFormat; 4] = [
        NumberFormat::E164,
        NumberFormat::Digits,
        NumberFormat::International,
        NumberFormat::National,
    ];

    fn germany() -> NumberingPlan {
        NumberingPlan {
            country_code: "49".into(),
            ..NumberingPlan::default()
        }
    }

    fn written(plan: &NumberingPlan, user: &str) -> Option<[String; 4]> {
        let texts = FORMATS.map(|format| {
            let mut into = Vec::new();
            let is_written = plan.write(user.as_bytes(), format, &mut into);
            assert_eq!(is_written, !into.is_empty());
            String::from_utf8(into).unwrap()
        });
        texts.iter().all(|text| !text.is_empty()).then_some(texts)
    }

    #[track_caller]
    fn check(plan: &NumberingPlan, rows: &[(&str, [&str; 4])]) {
        for (user, expected) in rows {
            let expected = expected.map(str::to_owned);
            assert_eq!(written(plan, user), Some(expected), "{user}");
        }
    }

    #[test]
    fn a_number_is_written_as_the_gateway_wants_it() {
        let berlin = ["+4930123456", "4930123456", "004930123456", "030123456"];
        let london = ["+44201234", "44201234", "0044201234", "0044201234"];
        check(
            &germany(),
            &[
                ("+4930123456", berlin),
                ("004930123456", berlin),
                ("030123456", berlin),
                ("030-12.34(56)", berlin),
                ("%2B4930123456", berlin),
                ("+4930123456;npdi;rn=+49", berlin),
                ("+44201234", london),
                ("0044201234", london),
            ],
        );
    }

    #[test]
    fn plans_without_a_trunk_prefix_have_plain_national_numbers() {
        let plan = NumberingPlan {
            country_code: "1".into(),
            international_prefix: "011".into(),
            national_prefix: "1".into(),
            plain: PlainNumbers::National,
        };
        let number = [
            "+12025550123",
            "12025550123",
            "01112025550123",
            "12025550123",
        ];
        check(
            &plan,
            &[
                ("2025550123", number),
                ("12025550123", number),
                ("+12025550123", number),
            ],
        );
        let italy = NumberingPlan {
            country_code: "39".into(),
            national_prefix: Box::default(),
            plain: PlainNumbers::National,
            ..NumberingPlan::default()
        };
        let rome = ["+39061234", "39061234", "0039061234", "061234"];
        check(&italy, &[("+39061234", rome), ("0039061234", rome)]);
        let plain = NumberingPlan {
            plain: PlainNumbers::International,
            ..germany()
        };
        let number = ["+4930123456", "4930123456", "004930123456", "030123456"];
        check(&plain, &[("4930123456", number)]);
    }

    #[test]
    fn what_has_no_international_form_is_left_alone() {
        for user in [
            "alice",
            "1001",
            "123456789",
            "112",
            "110",
            "0800",
            "*21*030123456#",
            "49+30123456",
            "++4930123456",
            "+4930123456A",
            "",
            "+",
            "0001234567890123456789012345678901234567890",
        ] {
            assert_eq!(written(&germany(), user), None, "{user}");
        }
        let unknown = NumberingPlan::default();
        assert_eq!(written(&unknown, "030123456"), None);
        assert!(written(&unknown, "+4930123456").is_some());
        let north_america = NumberingPlan {
            country_code: "1".into(),
            national_prefix: "1".into(),
            plain: PlainNumbers::National,
            ..NumberingPlan::default()
        };
        for user in ["911", "112"] {
            assert_eq!(written(&north_america, user), None, "{user}");
        }
    }
}
