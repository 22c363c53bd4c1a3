//! The small rules of RFC 3261 section 25.1 that everything else is made of: tokens, white space, numbers, quoted
//! strings, comma lists.

/// One flag per class of octet; see [`class`].
const TOKEN: u8 = 1;
const UNRESERVED: u8 = 2;
const HOST: u8 = 4;
const USER: u8 = 8;

/// Classes of each octet.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut octet = 0_usize;
    while octet < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "octet is below 256")]
        let byte = octet as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
            )
        {
            class |= TOKEN;
        }
        if byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')'
            )
        {
            class |= UNRESERVED;
        }
        // An underscore is no part of a hostname, yet many name their machines so.
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            class |= HOST;
        }
        // A percent sign begins an escape and a colon the password; both are looked at closely.
        if class & UNRESERVED != 0
            || matches!(byte, b'&' | b'=' | b'+' | b'$' | b',' | b';' | b'?' | b'/')
        {
            class |= USER;
        }
        classes[octet] = class;
        octet += 1;
    }
    classes
};

#[inline]
fn class(octet: u8) -> u8 {
    CLASSES.get(usize::from(octet)).copied().unwrap_or(0)
}

/// `token` characters.
#[inline]
pub(crate) fn is_token_char(octet: u8) -> bool {
    class(octet) & TOKEN != 0
}

/// `unreserved` characters of a URI.
#[inline]
pub(crate) fn is_unreserved(octet: u8) -> bool {
    class(octet) & UNRESERVED != 0
}

/// `unreserved / user-unreserved` characters: those of a user part that need no escape.
#[inline]
pub(crate) fn is_plain_in_user(octet: u8) -> bool {
    class(octet) & USER != 0
}

/// Characters of a domain name, underscore included.
#[inline]
pub(crate) fn is_host_char(octet: u8) -> bool {
    class(octet) & HOST != 0
}

/// Characters that can't stand in a URI without breaking the header field around it. Octets above 127 appear unescaped in
/// practice.
#[inline]
pub(crate) fn is_unfit_for_uri(octet: u8) -> bool {
    octet <= b' ' || octet == 0x7f || octet == b'<' || octet == b'>' || octet == b'"'
}

/// A non-empty `token`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&octet| is_token_char(octet))
}

/// Linear white space: the line ends of folds count.
#[inline]
pub(crate) fn is_lws(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

/// Without leading linear white space.
#[inline]
pub(crate) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_lws(*first)
    {
        bytes = rest;
    }
    bytes
}

/// Without trailing linear white space.
#[inline]
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_lws(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Without linear white space around.
#[inline]
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// Splits at `at`; all and nothing when `at` lies behind the end.
#[inline]
pub(crate) fn split_at(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// Splits off the longest prefix of octets that satisfy `test`.
#[inline]
pub(crate) fn take_while(bytes: &[u8], test: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let length = bytes
        .iter()
        .position(|&octet| !test(octet))
        .unwrap_or(bytes.len());
    split_at(bytes, length)
}

/// `1*DIGIT` up to 2^32-1.
pub(crate) fn parse_u32(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, &octet| {
        let digit = octet.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

/// `1*DIGIT` up to 65535.
pub(crate) fn parse_u16(digits: &[u8]) -> Option<u16> {
    u16::try_from(parse_u32(digits)?).ok()
}

/// Whether any octet satisfies `test`. Looks at all of them, without branches, so that the compiler makes vectors of it.
#[inline]
pub(crate) fn any(bytes: &[u8], test: impl Fn(u8) -> bool) -> bool {
    let in_chunk = |chunk: &[u8; 16]| {
        chunk
            .iter()
            .fold(false, |found, &octet| found | test(octet))
    };
    match bytes.last_chunk() {
        // The last chunk overlaps the one before it, so no octet is left over.
        Some(last) => bytes
            .as_chunks()
            .0
            .iter()
            .fold(in_chunk(last), |found, chunk| found | in_chunk(chunk)),
        None => bytes.iter().any(|&octet| test(octet)),
    }
}

/// Length of the quoted string that `bytes` begins with, both quotes included; `None` when it is not closed.
pub(crate) fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (index, &octet) in bytes.iter().enumerate().skip(1) {
        match octet {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Where `inner`, a sub-slice of `outer`, begins in it.
pub(crate) fn offset_in(outer: &[u8], inner: &[u8]) -> usize {
    inner.as_ptr().addr().wrapping_sub(outer.as_ptr().addr())
}

/// Splits `bytes` at the first comma outside quotes and angle brackets: the element (not trimmed), and what is behind
/// the comma, where there is one.
#[inline]
pub(crate) fn split_comma(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    if memchr::memchr(b',', bytes).is_none() {
        return (bytes, None);
    }
    split_bare_comma(bytes)
}

fn split_bare_comma(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut index = 0;
    let mut in_angle = false;
    while let Some(&octet) = bytes.get(index) {
        match octet {
            b',' if !in_angle => {
                let (element, rest) = split_at(bytes, index);
                return (element, rest.get(1..));
            }
            b'"' if !in_angle => match quoted_length(split_at(bytes, index).1) {
                Some(length) => {
                    index += length;
                    continue;
                }
                None => return (bytes, None),
            },
            b'<' => in_angle = true,
            b'>' => in_angle = false,
            _ => {}
        }
        index += 1;
    }
    (bytes, None)
}

/// The elements of a comma list, trimmed; empty elements are skipped.
#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> List<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Some(bytes) }
    }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(bytes) = self.rest {
            let (element, rest) = split_comma(bytes);
            self.rest = rest;
            let element = trim(element);
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}
