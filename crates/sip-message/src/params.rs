//! `;name=value` parameters of URIs and header fields.
use crate::grammar::{
    any, any_neighbours, ends_param_name, equal, quoted_length, split_at, take_param_value,
    take_while, trim_end, trim_start,
};

/// A lazily parsed parameter list: all bytes from the first `;`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params<'a>(pub(crate) &'a [u8]);

impl<'a> Params<'a> {
    /// Creates a list from bytes that are empty or begin with `;`. White space around `;` and `=` is allowed.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Finds a parameter by name, ignoring case. `Some(None)` if it has no value. Quotes are kept.
    pub fn find(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The value of a parameter, if it has one.
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.find(name).flatten()
    }

    /// Whether the parameter is present, with or without a value.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// All parameters in order: name and value. Empty ones (`;;`) are skipped.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.raw()
            .filter_map(|raw| (!raw.name.is_empty()).then_some((raw.name, raw.value)))
    }

    /// The list as received.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// All parameters with their positions, including empty ones.
    pub(crate) fn raw(&self) -> RawParams<'a> {
        RawParams { rest: self.0 }
    }

    /// Whether the list contains only parameters that have a name, and a value after each equals sign.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.is_plain() || self.raw().all(|raw| raw.is_well_formed())
    }

    /// Whether the list is well-formed and has no white space and quotes, as nearly all lists are. Then it is enough that no
    /// separator follows another.
    fn is_plain(&self) -> bool {
        let separates = |octet| equal(octet, b';') | equal(octet, b'=');
        let is_special = |octet| u8::from(octet <= b' ') | equal(octet, b'"');
        match self.0 {
            [] => true,
            [b';', .., last] => {
                separates(*last) == 0
                    && !any(self.0, is_special)
                    && !any_neighbours(self.0, |first, second| separates(first) & separates(second))
            }
            _ => false,
        }
    }
}

/// One parameter as it is in the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawParam<'a> {
    /// From the `;` to the next one, without trailing white space.
    pub(crate) bytes: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    /// Whether it begins with a `;` and nothing follows its value.
    sound: bool,
}

impl RawParam<'_> {
    /// Whether it has a name, a value after an equals sign, and nothing else.
    pub(crate) const fn is_well_formed(&self) -> bool {
        self.sound && !self.name.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RawParams<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for RawParams<'a> {
    type Item = RawParam<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawParam<'a>> {
        let plain = next_plain(self.rest);
        if let Some((param, rest)) = plain {
            self.rest = rest;
            return Some(param);
        }
        self.next_unusual()
    }
}

/// A parameter without white space and quotes, as nearly all are, and the rest.
#[inline]
fn next_plain(bytes: &[u8]) -> Option<(RawParam<'_>, &[u8])> {
    let [b';', named @ ..] = bytes else {
        return None;
    };
    let (name, behind_name) = take_while(named, |octet| !ends_param_name(octet));
    let (value, rest) = match behind_name {
        [b'=', behind @ ..] => {
            let (value, rest) = take_param_value(behind);
            if matches!(value.first(), None | Some(b'"')) {
                return None;
            }
            (Some(value), rest)
        }
        rest => (None, rest),
    };
    if !matches!(rest.first(), None | Some(b';')) {
        return None;
    }
    let (whole, _) = split_at(bytes, bytes.len() - rest.len());
    let param = RawParam {
        bytes: whole,
        name,
        value,
        sound: true,
    };
    Some((param, rest))
}

impl<'a> RawParams<'a> {
    fn next_unusual(&mut self) -> Option<RawParam<'a>> {
        let start = trim_start(self.rest);
        let (separator, mut rest) = start.split_first()?;
        let mut sound = *separator == b';';
        if !sound {
            rest = start;
        }
        rest = trim_start(rest);
        let (name, behind_name) = take_while(rest, |octet| !ends_param_name(octet));
        let mut tail = trim_start(behind_name);
        let mut value = None;
        if let [b'=', behind @ ..] = tail {
            let behind = trim_start(behind);
            let length = match behind.first() {
                Some(b'"') => quoted_length(behind).unwrap_or_else(|| {
                    sound = false;
                    behind.len()
                }),
                _ => take_param_value(behind).0.len(),
            };
            let (found, rest) = split_at(behind, length);
            sound &= !found.is_empty();
            value = Some(found);
            tail = trim_start(rest);
        }
        // Bytes between the value and the next semicolon belong to no parameter.
        let (junk, next) = take_while(tail, |octet| octet != b';');
        sound &= junk.is_empty();
        let (bytes, _) = split_at(start, start.len() - next.len());
        self.rest = next;
        Some(RawParam {
            bytes: trim_end(bytes),
            name,
            value,
            sound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &'static str) -> Vec<(&'static str, Option<&'static str>)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        Params::new(bytes.as_bytes())
            .iter()
            .map(|(name, value)| (text(name), value.map(text)))
            .collect()
    }

    #[test]
    fn white_space_and_folds_around_the_separators_do_not_count() {
        let expected = [("branch", Some("z9")), ("lr", None), ("q", Some("0.3"))];
        assert_eq!(all(";branch=z9;lr;q=0.3"), expected);
        assert_eq!(all(" ;\r\n  branch  =   z9\r\n ; lr ;q\t= 0.3 "), expected);
    }

    #[test]
    fn quoted_values_may_hold_anything() {
        assert_eq!(
            all(r#";a="x;y=\"z"; b"#),
            [("a", Some(r#""x;y=\"z""#)), ("b", None)]
        );
    }

    #[test]
    fn names_are_compared_without_case_and_the_first_counts() {
        let params = Params::new(b";Tag=1;tag=2;LR");
        assert_eq!(params.value(b"tag"), Some(&b"1"[..]));
        assert_eq!(params.find(b"lr"), Some(None));
        assert_eq!((params.find(b"ta"), params.contains(b"lr")), (None, true));
    }

    #[test]
    fn an_invalid_parameter_list_is_reported() {
        for sound in [
            "",
            ";a",
            ";a=b;c",
            " ; a = \"b c\" ; d ",
            ";a=[2001:db8::1]",
        ] {
            assert!(Params::new(sound.as_bytes()).is_well_formed(), "{sound:?}");
        }
        for broken in [
            ";",
            ";;a",
            ";a;",
            ";a=",
            ";a=;b",
            ";=b",
            "a",
            ";a b",
            ";a=b c",
            ";a=\"b",
            ";a=\"b\"c",
        ] {
            assert!(
                !Params::new(broken.as_bytes()).is_well_formed(),
                "{broken:?}"
            );
        }
    }

    #[test]
    fn plain_lists_are_recognised_as_what_they_are() {
        // Every list of up to seven of these bytes.
        for length in 0..=7 {
            for number in 0..5_usize.pow(length) {
                let bytes: Vec<u8> = (0..length)
                    .map(|digit| b";=ab "[number / 5_usize.pow(digit) % 5])
                    .collect();
                let params = Params::new(&bytes);
                assert!(
                    !params.is_plain() || params.raw().all(|raw| raw.sound && !raw.name.is_empty()),
                    "{bytes:?}"
                );
            }
        }
        assert!(Params::new(b";branch=z9hG4bK1;rport").is_plain());
    }

    #[test]
    fn broken_lists_give_what_can_be_read() {
        assert_eq!(
            all(";;a=1; ;b c;=x;d=\"e"),
            [("a", Some("1")), ("b", None), ("d", Some("\"e"))]
        );
    }
}
