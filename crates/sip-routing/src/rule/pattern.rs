//! Patterns as operators write them: `*` for any bytes, `?` for one byte, `[0-4]` for one of several, `\` before a character that
//! stands for itself.

use super::glob::{Glob, MAX_ELEMENTS};
use super::mistake::PatternProblem;
use super::text::Text;
use crate::number::{is_separator, value};
use sip_message::Host;
use std::net::IpAddr;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// One of these bytes.
    OneOf(Vec<u8>),
    /// Any one byte.
    Any,
    /// Any number of bytes.
    Star,
}

impl Element {
    /// The byte, if the element matches only one.
    pub(super) fn letter(&self) -> Option<u8> {
        match self {
            Self::OneOf(octets) => match octets[..] {
                [octet] => Some(octet),
                _ => None,
            },
            Self::Any | Self::Star => None,
        }
    }

    /// The element with the digits of numbers in upper case.
    fn in_upper_case(&self) -> Self {
        match self {
            Self::OneOf(octets) => {
                let upper = octets.iter().map(|octet| match value(*octet) {
                    Some(_) => octet.to_ascii_uppercase(),
                    None => *octet,
                });
                Self::OneOf(upper.collect())
            }
            Self::Any | Self::Star => self.clone(),
        }
    }
}

/// What a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User,
    Domain,
    HeaderValue,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The whole text.
    Exact(Box<[u8]>),
    /// The beginning of the text. Empty for `*`.
    Prefix(Box<[u8]>),
    /// Anything else.
    Glob(Glob),
}

impl Pattern {
    /// Compiles a pattern.
    pub(super) fn parse(text: &str, subject: Subject) -> Result<Self, PatternProblem> {
        let elements = parsed(text, subject)?;
        let letters: Vec<u8> = elements.iter().filter_map(Element::letter).collect();
        if letters.len() == elements.len() {
            return Ok(Self::Exact(canonical(letters, subject)));
        }
        if letters.len() + 1 == elements.len() && elements.last() == Some(&Element::Star) {
            return Ok(Self::Prefix(letters.into()));
        }
        Ok(Self::Glob(Glob::new(&elements)))
    }

    /// The pattern for telephone numbers, which are compared in upper case; `None` if it is no other than that of [`Pattern::parse`].
    pub(super) fn for_numbers(text: &str) -> Option<Self> {
        let elements = parsed(text, Subject::User).ok()?;
        let has_wildcards = elements.iter().any(|element| element.letter().is_none());
        let is_of_number = |octet: &u8| *octet == b'+' || value(*octet).is_some();
        let can_match = elements.iter().all(|element| match element {
            Element::OneOf(octets) => octets.iter().any(is_of_number),
            Element::Any | Element::Star => true,
        });
        let upper: Vec<Element> = elements.iter().map(Element::in_upper_case).collect();
        let differs = has_wildcards && can_match && elements != upper;
        differs.then(|| Self::Glob(Glob::for_numbers(&upper)))
    }
}

/// The elements of a pattern that something can match.
fn parsed(text: &str, subject: Subject) -> Result<Vec<Element>, PatternProblem> {
    let text = normalized(text, subject)?;
    let elements = elements(&text)?;
    if elements.len() > MAX_ELEMENTS {
        return Err(PatternProblem::TooLong);
    }
    check(&elements, subject)?;
    Ok(elements)
}

/// The text without what does not count: case, brackets and the trailing dot of a domain.
fn normalized(text: &str, subject: Subject) -> Result<String, PatternProblem> {
    if text.is_empty() {
        return Err(PatternProblem::Empty);
    }
    if text.chars().any(char::is_control) {
        return Err(PatternProblem::Control);
    }
    if subject != Subject::Domain {
        return Ok(text.to_owned());
    }
    let unbracketed = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = unbracketed.filter(|text| text.parse::<IpAddr>().is_ok()) {
        return Ok(address.to_ascii_lowercase());
    }
    Ok(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase())
}

fn elements(text: &str) -> Result<Vec<Element>, PatternProblem> {
    let mut elements = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let element = match first {
            b'*' => Element::Star,
            b'?' => Element::Any,
            b'[' => {
                let close = rest.iter().position(|&octet| octet == b']');
                let close = close.ok_or(PatternProblem::Unclosed)?;
                let (inside, behind) = rest.split_at(close);
                rest = behind.get(1..).unwrap_or_default();
                Element::OneOf(class(inside)?)
            }
            b'\\' => {
                let (escaped, behind) = rest.split_first().ok_or(PatternProblem::Escape)?;
                rest = behind;
                Element::OneOf(vec![*escaped])
            }
            octet => Element::OneOf(vec![*octet]),
        };
        if element != Element::Star || elements.last() != Some(&Element::Star) {
            elements.push(element);
        }
    }
    Ok(elements)
}

/// The bytes of `0-4` or `0-4ab`.
fn class(mut inside: &[u8]) -> Result<Vec<u8>, PatternProblem> {
    let mut octets = Vec::new();
    while let [first, behind @ ..] = inside {
        let (last, behind) = match behind {
            [b'-', last, behind @ ..] => (last, behind),
            _ => (first, behind),
        };
        let is_range =
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && first <= last;
        if !is_range && (first != last || !first.is_ascii_graphic()) {
            return Err(PatternProblem::Class);
        }
        octets.extend(*first..=*last);
        inside = behind;
    }
    octets.sort_unstable();
    octets.dedup();
    if octets.is_empty() {
        return Err(PatternProblem::Class);
    }
    Ok(octets)
}

/// Whether any text can match.
fn check(elements: &[Element], subject: Subject) -> Result<(), PatternProblem> {
    match subject {
        Subject::User => check_user(elements),
        Subject::Domain => check_domain(elements),
        Subject::HeaderValue => Ok(()),
    }
}

fn check_user(elements: &[Element]) -> Result<(), PatternProblem> {
    let literal: Vec<u8> = elements.iter().map_while(Element::letter).collect();
    let is_scheme = |scheme: &&[u8]| literal.starts_with(scheme);
    if [&b"sip:"[..], b"sips:", b"tel:"].iter().any(is_scheme) {
        return Err(PatternProblem::Scheme);
    }
    let is_hex = |element: &Element| {
        element
            .letter()
            .is_some_and(|octet| octet.is_ascii_hexdigit())
    };
    let is_escape = |elements: &[Element]| match elements {
        [percent, digits @ ..] => percent.letter() == Some(b'%') && digits.iter().all(is_hex),
        [] => false,
    };
    if elements.windows(3).any(is_escape) {
        return Err(PatternProblem::Percent);
    }
    let is_separated = elements
        .iter()
        .filter_map(Element::letter)
        .any(is_separator);
    if is_separated && is_for_numbers(elements) || is_written_apart(elements, literal) {
        return Err(PatternProblem::Separator);
    }
    Ok(())
}

/// Whether a pattern with wildcards begins as no compared text does, because it has separators or a `+` between digits.
fn is_written_apart(elements: &[Element], mut literal: Vec<u8>) -> bool {
    if literal.len() == elements.len() {
        return false;
    }
    // What the wildcards stand for may make it a name.
    literal.push(b'~');
    !Text::user(&literal).bytes().eq(literal.iter().copied())
}

/// Whether a pattern with wildcards is meant for telephone numbers only.
fn is_for_numbers(elements: &[Element]) -> bool {
    let is_of_number = |octet: &u8| {
        octet.is_ascii_digit() || matches!(octet, b'+' | b'*' | b'#') || is_separator(*octet)
    };
    let is_international = elements.first().and_then(Element::letter) == Some(b'+');
    let has_classes = elements.iter().any(|element| element.letter().is_none());
    has_classes
        && elements.iter().all(|element| match element {
            Element::OneOf(octets) => octets.iter().all(is_of_number),
            Element::Any | Element::Star => is_international,
        })
}

fn check_domain(elements: &[Element]) -> Result<(), PatternProblem> {
    let letters: Option<Vec<u8>> = elements.iter().map(Element::letter).collect();
    let can_match = if let Some(letters) = letters {
        parse_address(&letters).is_some() || Host::parse(&letters).is_some()
    } else {
        let fits = |octet: &u8| octet.is_ascii_alphanumeric() || b"-._:".contains(octet);
        let is_dot = |element: &Element| element.letter() == Some(b'.');
        let has_empty_label = elements.first().is_some_and(is_dot)
            || elements.windows(2).any(|pair| pair.iter().all(is_dot));
        !has_empty_label
            && elements.iter().all(|element| match element {
                Element::OneOf(octets) => octets.iter().any(fits),
                Element::Any | Element::Star => true,
            })
    };
    can_match.then_some(()).ok_or(PatternProblem::NotDomain)
}

/// The one spelling of a text without wildcards.
fn canonical(letters: Vec<u8>, subject: Subject) -> Box<[u8]> {
    match subject {
        Subject::User => Text::user(&letters).bytes().collect(),
        Subject::Domain => match parse_address(&letters) {
            Some(address) => address.to_string().into_bytes().into(),
            None => letters.into(),
        },
        Subject::HeaderValue => letters.into(),
    }
}

/// The address that a domain is. An IPv6 address has no brackets.
fn parse_address(letters: &[u8]) -> Option<IpAddr> {
    match Host::parse(letters) {
        Some(Host::Address(address)) => Some(address),
        _ => std::str::from_utf8(letters).ok()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_as_simple_as_possible() {
        let exact = |text: &str| Pattern::Exact(text.as_bytes().into());
        let prefix = |text: &str| Pattern::Prefix(text.as_bytes().into());
        for (text, subject, expected) in [
            ("110", Subject::User, exact("110")),
            ("4989*", Subject::User, prefix("4989")),
            ("4989**", Subject::User, prefix("4989")),
            ("*", Subject::User, prefix("")),
            (r"\*21\*", Subject::User, exact("*21*")),
            (r"\*21\**", Subject::User, prefix("*21*")),
            ("+49-89.1", Subject::User, exact("+49891")),
            ("anna-maria", Subject::User, exact("anna-maria")),
            ("d021", Subject::User, exact("D021")),
            ("++49 89", Subject::User, exact("+4989")),
            ("12-34-x", Subject::User, exact("1234-x")),
            ("[4]9*", Subject::User, prefix("49")),
            ("Example.ORG.", Subject::Domain, exact("example.org")),
            ("[2001:DB8:0::1]", Subject::Domain, exact("2001:db8::1")),
            ("2001:db8:0::1", Subject::Domain, exact("2001:db8::1")),
            ("010.0.0.1", Subject::Domain, exact("10.0.0.1")),
            ("Gold*", Subject::HeaderValue, prefix("Gold")),
        ] {
            assert_eq!(Pattern::parse(text, subject), Ok(expected), "{text}");
        }
        for text in ["a*b", "?", "49[0-4]*", "*a"] {
            let pattern = Pattern::parse(text, Subject::User);
            assert!(matches!(pattern, Ok(Pattern::Glob(_))), "{text}");
        }
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for (text, subject, expected) in [
            ("", Subject::User, PatternProblem::Empty),
            ("a\tb", Subject::User, PatternProblem::Control),
            ("sip:alice", Subject::User, PatternProblem::Scheme),
            ("%2b49*", Subject::User, PatternProblem::Percent),
            ("+49-89*", Subject::User, PatternProblem::Separator),
            ("49-8[0-9]", Subject::User, PatternProblem::Separator),
            ("12-34-*", Subject::User, PatternProblem::Separator),
            ("++49*", Subject::User, PatternProblem::Separator),
            ("(49*", Subject::User, PatternProblem::Separator),
            ("49[0-4", Subject::User, PatternProblem::Unclosed),
            ("49[]", Subject::User, PatternProblem::Class),
            ("49[4-0]", Subject::User, PatternProblem::Class),
            ("49[*-9]", Subject::User, PatternProblem::Class),
            ("49\\", Subject::User, PatternProblem::Escape),
            (
                "example.org:5060",
                Subject::Domain,
                PatternProblem::NotDomain,
            ),
            (
                "alice@example.org",
                Subject::Domain,
                PatternProblem::NotDomain,
            ),
            ("*@example.org", Subject::Domain, PatternProblem::NotDomain),
            ("*..org", Subject::Domain, PatternProblem::NotDomain),
            (".", Subject::Domain, PatternProblem::NotDomain),
            ("300.1.1.1", Subject::Domain, PatternProblem::NotDomain),
        ] {
            assert_eq!(Pattern::parse(text, subject), Err(expected), "{text:?}");
        }
        let longest = "1".repeat(MAX_ELEMENTS);
        assert!(Pattern::parse(&longest, Subject::User).is_ok());
        let longer = format!("{longest}1");
        assert_eq!(
            Pattern::parse(&longer, Subject::User),
            Err(PatternProblem::TooLong)
        );
    }

    #[test]
    fn patterns_with_wildcards_match_numbers_in_upper_case() {
        for text in ["d021*", "a*", "[a-z]1", "?c"] {
            let pattern = Pattern::for_numbers(text);
            assert!(matches!(pattern, Some(Pattern::Glob(_))), "{text}");
        }
        for text in ["d021", "D021*", "+49*", "anna*", "*"] {
            assert_eq!(Pattern::for_numbers(text), None, "{text}");
        }
    }

    #[test]
    fn separators_may_be_in_patterns_for_names() {
        for text in ["*.*", "first.*", "1001-*", "*-1"] {
            assert!(Pattern::parse(text, Subject::User).is_ok(), "{text}");
        }
    }
}
