//! The head of an HTTP message in the opening handshake of either side: finding its end, and reading its fields.
use memchr::memchr;

/// The maximum number of header fields. Browsers send about fifteen, and reverse proxies add some.
pub(super) const MAX_FIELDS: usize = 64;

/// How much of a head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    Incomplete,
    /// Length of the start line in bytes. Reported once; the next call continues after it.
    StartLine(usize),
    /// Length of the head in bytes.
    End(usize),
}

/// The head exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Finds the empty line that ends a head. Looks at each byte once, however the data is split.
#[derive(Clone, Debug)]
pub(super) struct HeadScanner {
    max: usize,
    /// Beginning of the current line.
    line: usize,
    /// The end of this line is not before this offset.
    scanned: usize,
}

impl HeadScanner {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            line: 0,
            scanned: 0,
        }
    }

    /// Looks at all bytes buffered so far.
    pub(super) fn next(&mut self, buffered: &[u8]) -> Result<Scan, TooLong> {
        loop {
            let rest = buffered.get(self.scanned..).unwrap_or_default();
            let Some(found) = memchr(b'\n', rest) else {
                self.scanned = buffered.len();
                return self.bounded(buffered.len()).map(|()| Scan::Incomplete);
            };
            let (start, end) = (self.line, self.scanned + found + 1);
            self.bounded(end)?;
            (self.line, self.scanned) = (end, end);
            if start == 0 {
                return Ok(Scan::StartLine(end));
            }
            if matches!(buffered.get(start..end), Some(b"\r\n" | b"\n")) {
                return Ok(Scan::End(end));
            }
        }
    }

    fn bounded(&self, length: usize) -> Result<(), TooLong> {
        if length > self.max {
            Err(TooLong)
        } else {
            Ok(())
        }
    }
}

/// The header fields of a head.
#[derive(Clone, Copy)]
pub(super) struct Fields<'h, 'b>(pub(super) &'h [httparse::Header<'b>]);

impl<'b> Fields<'_, 'b> {
    /// The values of all fields with this name.
    pub(super) fn values(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.trim_ascii())
    }

    /// The value of a field that must occur only once; `None` if it is missing or repeated.
    pub(super) fn only(self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.values(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Whether there is a field with this name.
    pub(super) fn has(self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// The list elements of all fields with this name.
    pub(super) fn elements(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.values(name)
            .flat_map(|value| value.split(|octet| *octet == b','))
            .map(<[u8]>::trim_ascii)
    }

    /// Whether a list contains the token, ignoring case.
    pub(super) fn lists(self, name: &str, token: &str) -> bool {
        self.elements(name)
            .any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_looked_at_is_not_looked_at_again() {
        let mut scanner = HeadScanner::new(100);
        assert_eq!(scanner.next(b"GET / HT"), Ok(Scan::Incomplete));
        assert_eq!(scanner.scanned, 8);
        let more = b"GET / HTTP/1.1\r\nHost: a\r\n\r";
        assert_eq!(scanner.next(more), Ok(Scan::StartLine(16)));
        assert_eq!(scanner.next(more), Ok(Scan::Incomplete));
        assert_eq!((scanner.line, scanner.scanned), (25, 26));
        let all = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nframe";
        assert_eq!(scanner.next(all), Ok(Scan::End(27)));
    }

    #[test]
    fn a_head_may_be_as_long_as_its_bound_whatever_follows() {
        let head = b"GET / HTTP/1.1\n\nframe";
        for (max, end) in [(16, Ok(Scan::End(16))), (15, Err(TooLong))] {
            let mut scanner = HeadScanner::new(max);
            assert_eq!(scanner.next(head), Ok(Scan::StartLine(15)));
            assert_eq!(scanner.next(head), end);
        }
        assert_eq!(HeadScanner::new(14).next(head), Err(TooLong));
    }
}
