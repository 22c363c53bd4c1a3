//! What a dialled number is. Rules, prefixes and number formats share this definition: what one of them takes for a number is the same
//! number for all.
//!
//! **A number** (RFC 3966 section 3) consists of digits: `0` to `9`, `*`, `#` and `A` to `D` (DTMF) in either case. One at least is no
//! letter: `dad` is a name. A `+` may be its first character. Visual separators (`-`, `.`, `(`, `)`) do not count, and an escape counts as
//! its character. The number ends at its parameters (`;`). Pauses (`p`, `w`), spaces and digits of other scripts are no part of it.
//!
//! **A lookalike** is no number, but a gateway may take it for one: `++4930`, `4+9`, `+49 30`, `+49-30x`. It has no prefix and no format.
//! Rules compare it as the number that it looks like.

/// The digits, in the order of their values.
pub(crate) const SYMBOLS: [u8; 16] = *b"0123456789*#ABCD";
/// The value of the first digit that is a letter.
const A: u8 = 12;

/// Added to the value of a letter in lower case.
const LOWER: u8 = 16;
const SEPARATOR: u8 = 32;
/// What people write in numbers, although RFC 3966 does not allow it.
const SPACE: u8 = 33;
const PLUS: u8 = 34;
const ESCAPE: u8 = 35;
const END: u8 = 36;
const OTHER: u8 = 37;
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [OTHER; 256];
    let mut digit = 0;
    while digit < SYMBOLS.len() {
        let symbol = SYMBOLS[digit];
        classes[symbol.to_ascii_lowercase() as usize] = digit as u8 + LOWER;
        classes[symbol as usize] = digit as u8;
        digit += 1;
    }
    let others = [
        (*b"-.()", SEPARATOR),
        (*b" /  ", SPACE),
        (*b"++++", PLUS),
        (*b"%%%%", ESCAPE),
        (*b";;;;", END),
    ];
    let mut other = 0;
    while other < others.len() {
        let (octets, class) = others[other];
        let mut octet = 0;
        while octet < octets.len() {
            classes[octets[octet] as usize] = class;
            octet += 1;
        }
        other += 1;
    }
    classes
}

fn class(octet: u8) -> u8 {
    CLASSES.get(usize::from(octet)).copied().unwrap_or(OTHER)
}

/// The value of a digit.
pub(crate) fn value(octet: u8) -> Option<u8> {
    let class = class(octet);
    (class < SEPARATOR).then_some(class % LOWER)
}

/// Whether this is a visual separator (RFC 3966 section 3).
pub(crate) fn is_separator(octet: u8) -> bool {
    class(octet) == SEPARATOR
}

/// Whether this does not count behind the first digit of a number or lookalike.
pub(crate) fn is_filler(octet: u8) -> bool {
    matches!(class(octet), SEPARATOR | SPACE | PLUS)
}

/// The octet of an escape, and what follows it. `text` begins behind the `%`.
pub(crate) fn unescaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (hexadecimal, rest) = text.split_at_checked(2)?;
    let [high, low] = *hexadecimal else {
        return None;
    };
    let digit = |octet: u8| char::from(octet).to_digit(16);
    let octet = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    Some((octet, rest))
}

/// The class of the first character, and what follows it.
#[inline]
fn first(text: &[u8]) -> Option<(u8, &[u8])> {
    let (octet, behind) = text.split_first()?;
    match class(*octet) {
        ESCAPE => Some(escaped(behind)),
        class => Some((class, behind)),
    }
}

#[cold]
fn escaped(behind: &[u8]) -> (u8, &[u8]) {
    match unescaped(behind) {
        Some((octet, behind)) => match class(octet) {
            // An escaped semicolon begins no parameters.
            ESCAPE | END => (OTHER, behind),
            class => (class, behind),
        },
        None => (OTHER, behind),
    }
}

/// The number that a user part is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'a> {
    /// As received, without the parameters.
    pub(crate) text: &'a [u8],
    /// It has no separators, escapes or letters in lower case.
    pub(crate) is_plain: bool,
    /// It begins with `+`.
    pub(crate) is_global: bool,
}

/// Reads a user part, and calls `digit` with the value of each digit. `None` if it is no number.
#[inline]
pub(crate) fn read(user: &[u8], mut digit: impl FnMut(u8)) -> Option<Number<'_>> {
    let mut rest = user;
    let (mut kept, mut has_digit, mut is_global) = (0, false, false);
    while let Some((class, behind)) = first(rest) {
        match class {
            0..LOWER => {
                digit(class);
                kept += 1;
                has_digit |= class < A;
            }
            LOWER..SEPARATOR => digit(class - LOWER),
            SEPARATOR => {}
            PLUS if rest.len() == user.len() => {
                is_global = true;
                kept += 1;
            }
            END => break,
            _ => return None,
        }
        rest = behind;
    }
    let text = user.get(..user.len() - rest.len())?;
    has_digit.then_some(Number {
        text,
        is_plain: kept == text.len(),
        is_global,
    })
}

/// The number that a user part is, with its escapes and separators, and without its parameters.
pub(crate) fn number(user: &[u8]) -> Option<&[u8]> {
    read(user, |_| {}).map(|number| number.text)
}

/// What of a lookalike looks like a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookalike {
    /// The bytes up to the last digit before anything else; with what follows it, if nothing else follows.
    pub(crate) length: usize,
    /// The bytes that are compared: all, or those before the parameters.
    pub(crate) end: usize,
    /// Nothing in it is left out when it is compared.
    pub(crate) is_plain: bool,
}

/// The beginning of a user part that looks like a number; `None` if it does not. It is not for [numbers](read).
pub(crate) fn lookalike(user: &[u8]) -> Option<Lookalike> {
    let mut rest = user;
    let mut begins = true;
    // The length up to the last digit before a letter, and what of it counts.
    let (mut length, mut kept, mut kept_before) = (0, 0, 0);
    let (mut has_digit, mut has_letter) = (false, false);
    loop {
        let class = match first(rest) {
            None | Some((END, _)) => break,
            Some((OTHER, _)) => {
                return (length > 0).then_some(Lookalike {
                    length,
                    end: user.len(),
                    is_plain: kept_before == length,
                });
            }
            Some((class, behind)) => {
                rest = behind;
                class
            }
        };
        let is_digit = class < SEPARATOR;
        kept += usize::from(is_digit || class == PLUS && begins);
        begins &= !(is_digit || class == PLUS);
        has_letter |= is_digit && class % LOWER >= A;
        has_digit |= is_digit && class % LOWER < A;
        if is_digit && !has_letter {
            (length, kept_before) = (user.len() - rest.len(), kept);
        }
    }
    let end = user.len() - rest.len();
    has_digit.then_some(Lookalike {
        length: end,
        end,
        is_plain: false,
    })
}

/// Whether a user part begins like an international number, with `+`, but is no number. No rule sends it to a gateway.
pub fn is_malformed(user: &[u8]) -> bool {
    let mut rest = user;
    let mut next = || {
        let (class, behind) = first(rest)?;
        rest = behind;
        Some(class)
    };
    let begun = std::iter::from_fn(&mut next).find(|class| !matches!(*class, SEPARATOR | SPACE));
    begun == Some(PLUS) && number(user).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_digit_and_a_plus_only_at_its_beginning() {
        for (user, expected) in [
            ("+4930", Some("+4930")),
            ("+49-(30)", Some("+49-(30)")),
            ("-49", Some("-49")),
            ("*21#", Some("*21#")),
            ("d018", Some("d018")),
            ("1A", Some("1A")),
            ("%2B49%2d1;ext=1", Some("%2B49%2d1")),
            ("", None),
            ("+", None),
            ("dad", None),
            ("++49", None),
            ("-+49", None),
            ("4+9", None),
            ("49p1", None),
            ("49w1", None),
            ("49,1", None),
            ("49 1", None),
            ("49%3B1", None),
            ("49%253", None),
            ("4%", None),
            (";ext=1", None),
            ("٣", None),
        ] {
            let expected = expected.map(str::as_bytes);
            assert_eq!(number(user.as_bytes()), expected, "{user}");
        }
    }

    #[test]
    fn only_what_begins_like_an_international_number_can_be_malformed() {
        for user in ["++49", "(+49)30", "+49x", "%2B49%20x", "+alice", "+", "-+"] {
            assert!(is_malformed(user.as_bytes()), "{user}");
        }
        for user in [
            "",
            "+4930",
            "%2B49-30;x=+",
            "alice",
            "4+9",
            "1001-lobby",
            "-",
            "a+b",
        ] {
            assert!(!is_malformed(user.as_bytes()), "{user}");
        }
    }
}
