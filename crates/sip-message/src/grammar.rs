//! The basic rules of RFC 3261 section 25.1: tokens, white space, numbers, quoted strings, comma lists.

/// One flag per class of bytes; see [`class`].
const TOKEN: u8 = 1;
const USER: u8 = 2;
const HOST: u8 = 4;
const PARAM_NAME_END: u8 = 8;
const PARAM_VALUE_END: u8 = 16;

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The classes of each byte.
const CLASSES: [u8; 256] = {
    let classes = mark([0; 256], ALPHANUMERIC, TOKEN | USER | HOST);
    let classes = mark(classes, b"-.!%*_+`'~", TOKEN);
    // The percent sign of an escape and the colon before the password need separate checks.
    let classes = mark(classes, b"-_.!~*'()&=+$,;?/", USER);
    // An underscore is not allowed in a hostname, but many machines have one in their names.
    let classes = mark(classes, b"-._", HOST);
    let classes = mark(classes, b"; \t\r\n", PARAM_NAME_END | PARAM_VALUE_END);
    mark(classes, b"=", PARAM_NAME_END)
};

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn mark(mut classes: [u8; 256], octets: &[u8], class: u8) -> [u8; 256] {
    let mut index = 0;
    while index < octets.len() {
        classes[octets[index] as usize] |= class;
        index += 1;
    }
    classes
}

#[inline]
fn class(octet: u8) -> u8 {
    CLASSES.get(usize::from(octet)).copied().unwrap_or(0)
}

/// Whether this is a `token` character.
#[inline]
pub(crate) fn is_token_char(octet: u8) -> bool {
    class(octet) & TOKEN != 0
}

/// Whether this is an `unreserved / user-unreserved` character, which needs no escape in a user part.
#[inline]
pub(crate) fn is_plain_in_user(octet: u8) -> bool {
    class(octet) & USER != 0
}

/// Whether this is a character of a domain name, including underscore.
#[inline]
pub(crate) fn is_host_char(octet: u8) -> bool {
    class(octet) & HOST != 0
}

/// Whether this byte ends the name of a parameter.
#[inline]
pub(crate) fn ends_param_name(octet: u8) -> bool {
    class(octet) & PARAM_NAME_END != 0
}

/// Splits off an unquoted value of a parameter. Values are long: branches, tags, nonces and proofs.
#[inline]
pub(crate) fn take_param_value(bytes: &[u8]) -> (&[u8], &[u8]) {
    let may_end = |octet| equal(octet, b';') | u8::from(octet <= b' ');
    let is_inside =
        |chunk: &&[u8; 16]| chunk.iter().fold(0, |found, &octet| found | may_end(octet)) == 0;
    let inside = bytes.as_chunks().0.iter().take_while(is_inside).count() * 16;
    let (_, rest) = split_at(bytes, inside);
    let end = rest
        .iter()
        .position(|&octet| class(octet) & PARAM_VALUE_END != 0);
    split_at(bytes, end.map_or(bytes.len(), |end| inside + end))
}

/// Nonzero for characters that cannot be in a URI without breaking the header field around it. Bytes above 127 are accepted,
/// because they occur unescaped in practice.
#[inline]
pub(crate) fn unfit_for_uri(octet: u8) -> u8 {
    u8::from(octet <= b' ')
        | equal(octet, 0x7f)
        | equal(octet, b'<')
        | equal(octet, b'>')
        | equal(octet, b'"')
}

/// Whether this is a non-empty `token`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&octet| is_token_char(octet))
}

/// Whether this is linear white space, including the line ends of folds.
#[inline]
pub(crate) fn is_lws(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

/// Removes leading linear white space.
#[inline]
pub(crate) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_lws(*first)
    {
        bytes = rest;
    }
    bytes
}

/// Removes trailing linear white space.
#[inline]
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_lws(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Removes linear white space on both sides.
#[inline]
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// The index of the first `octet`.
///
/// The fields of a message are short. A search that the compiler can inline is faster here than a wider vector search behind a
/// function pointer.
#[inline]
pub(crate) fn find(octet: u8, bytes: &[u8]) -> Option<usize> {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    use memchr::arch::x86_64::sse2::memchr::One;
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(search) = One::new(octet) {
        return search.find(bytes);
    }
    memchr::memchr(octet, bytes)
}

/// The index of the first of two bytes; see [`find`].
#[inline]
pub(crate) fn find2(one: u8, other: u8, bytes: &[u8]) -> Option<usize> {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    use memchr::arch::x86_64::sse2::memchr::Two;
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(search) = Two::new(one, other) {
        return search.find(bytes);
    }
    memchr::memchr2(one, other, bytes)
}

/// Splits at `at`, or at the end if `at` is beyond it.
#[inline]
pub(crate) fn split_at(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// Splits off the longest prefix of bytes that satisfy `test`.
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

/// One if the bytes are equal, else zero; for use in [`any`].
#[inline]
pub(crate) fn equal(one: u8, other: u8) -> u8 {
    u8::from(one == other)
}

/// Whether `test` is nonzero for any byte. It tests all bytes. `test` should have no branches (sums of [`equal`] and the like),
/// so that the compiler can vectorize the loop.
#[inline]
pub(crate) fn any(bytes: &[u8], test: impl Fn(u8) -> u8) -> bool {
    let in_chunk = |chunk: &[u8; 16]| chunk.iter().fold(0, |found, &octet| found | test(octet));
    match bytes.last_chunk() {
        // The last chunk overlaps the previous one, so no byte is left over.
        Some(last) => {
            bytes
                .as_chunks()
                .0
                .iter()
                .fold(in_chunk(last), |found, chunk| found | in_chunk(chunk))
                != 0
        }
        None => bytes.iter().any(|&octet| test(octet) != 0),
    }
}

/// Like [`any`], for each byte and its successor.
#[inline]
pub(crate) fn any_neighbours(bytes: &[u8], test: impl Fn(u8, u8) -> u8) -> bool {
    let in_chunks = |firsts: &[u8; 16], seconds: &[u8; 16]| {
        firsts
            .iter()
            .zip(seconds)
            .fold(0, |found, (&first, &second)| found | test(first, second))
    };
    let seconds = bytes.get(1..).unwrap_or_default();
    let (firsts, _) = split_at(bytes, seconds.len());
    match (firsts.last_chunk(), seconds.last_chunk()) {
        (Some(last_firsts), Some(last_seconds)) => {
            let chunks = firsts.as_chunks().0.iter().zip(seconds.as_chunks().0);
            let in_last = in_chunks(last_firsts, last_seconds);
            chunks.fold(in_last, |found, (firsts, seconds)| {
                found | in_chunks(firsts, seconds)
            }) != 0
        }
        _ => firsts
            .iter()
            .zip(seconds)
            .any(|(&first, &second)| test(first, second) != 0),
    }
}

/// Length of the quoted string at the beginning of `bytes`, including both quotes; `None` if it is not closed.
pub(crate) fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut index = 1;
    loop {
        index += find2(b'"', b'\\', bytes.get(index..)?)?;
        if bytes.get(index) == Some(&b'"') {
            return Some(index + 1);
        }
        index += 2;
    }
}

/// The offset of `inner`, a sub-slice of `outer`, in `outer`.
pub(crate) fn offset_in(outer: &[u8], inner: &[u8]) -> usize {
    inner.as_ptr().addr().wrapping_sub(outer.as_ptr().addr())
}

/// Splits `bytes` at the first comma outside quotes and angle brackets. Returns the element (not trimmed), and the bytes after
/// the comma, if there is one.
#[inline]
pub(crate) fn split_comma(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    if find(b',', bytes).is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(bytes: &'static str) -> Vec<&'static str> {
        List::new(bytes.as_bytes())
            .map(|value| std::str::from_utf8(value).unwrap())
            .collect()
    }

    #[test]
    fn token_characters_are_those_of_the_grammar() {
        for octet in 0..=255_u8 {
            let expected = octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
            assert_eq!(is_token_char(octet), expected, "{octet}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn a_parameter_value_of_any_length_ends_where_it_must() {
        for length in 0..50 {
            for end in 0..=255_u8 {
                let mut bytes = vec![b'x'; length];
                bytes.extend_from_slice(&[end, b'y', b';', b'z']);
                let ends_it = b"; \t\r\n".contains(&end);
                let expected = if ends_it { length } else { length + 2 };
                let (value, rest) = take_param_value(&bytes);
                assert_eq!(
                    (value.len(), rest.len()),
                    (expected, bytes.len() - expected)
                );
            }
            let whole = vec![b'x'; length];
            assert_eq!(take_param_value(&whole), (&whole[..], &b""[..]));
        }
    }

    #[test]
    fn numbers_keep_to_their_bounds() {
        for (digits, number) in [
            ("0", Some(0)),
            ("0068", Some(68)),
            ("4294967295", Some(u32::MAX)),
            ("00000000000000000001", Some(1)),
            ("4294967296", None),
            ("36893488147419103232", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("0x1", None),
        ] {
            assert_eq!(parse_u32(digits.as_bytes()), number, "{digits}");
        }
        assert_eq!(
            (parse_u16(b"65535"), parse_u16(b"65536")),
            (Some(65535), None)
        );
    }

    #[test]
    fn commas_split_outside_quotes_and_brackets() {
        assert_eq!(list("a, b\r\n ,\tc"), ["a", "b", "c"]);
        assert_eq!(
            list("\"a, \\\", b\" <sip:x,y>;p=\",\", <sip:z>"),
            ["\"a, \\\", b\" <sip:x,y>;p=\",\"", "<sip:z>"]
        );
        assert_eq!(list("<sip:a\"b>, c"), ["<sip:a\"b>", "c"]);
    }

    #[test]
    fn empty_elements_are_skipped() {
        assert_eq!(list(", a,,b , "), ["a", "b"]);
        assert_eq!(list(" "), Vec::<&str>::new());
    }

    #[test]
    fn an_open_quote_hides_all_commas() {
        assert_eq!(list("a, \"b, c"), ["a", "\"b, c"]);
    }

    #[test]
    fn quoted_strings_end_at_the_first_bare_quote() {
        assert_eq!(quoted_length(br#""a\"b\\" x"#), Some(8));
        assert_eq!(quoted_length(b"\"\""), Some(2));
        assert_eq!(quoted_length(br#""a\""#), None);
        assert_eq!(quoted_length(b"\""), None);
    }

    #[test]
    fn any_looks_at_every_octet_whatever_the_length() {
        for length in 0..70 {
            let mut bytes = vec![b'a'; length];
            assert!(!any(&bytes, |octet| equal(octet, b'x')), "{length}");
            for at in 0..length {
                bytes[at] = b'x';
                assert!(any(&bytes, |octet| equal(octet, b'x')), "{at} of {length}");
                let neighbours = |first, second| {
                    any_neighbours(&bytes, |one, other| {
                        equal(one, first) & equal(other, second)
                    })
                };
                assert_eq!(neighbours(b'a', b'x'), at > 0, "{at} of {length}");
                assert_eq!(neighbours(b'x', b'a'), at + 1 < length, "{at} of {length}");
                assert!(!neighbours(b'x', b'x'));
                bytes[at] = b'a';
            }
        }
    }
}
