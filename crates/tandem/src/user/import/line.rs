//! Parses lines `username,domain,password` into entries or errors (RFC 4180, but one record per line).
//!
//! `csv-core` splits the lines, not `csv::Reader`, whose records have no bound. There, a quote that is never closed makes the rest of
//! the file one field in memory, without an error. Here, a line has at most `MAX_LINE` bytes, and an open quote is an error of its line.

use crate::user::{address, password};
use anyhow::{Context as _, anyhow, bail};
use csv_core::{ReadRecordResult, Reader};
use std::io::{self, BufRead, Read};

/// Maximum bytes of a line, so that a file without line ends does not exhaust memory.
const MAX_LINE: usize = 4096;
/// More fields than a line should have, so that surplus fields can be reported.
const MAX_FIELDS: usize = 16;

/// A valid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub line: u64,
    pub username: String,
    /// In canonical form.
    pub domain: String,
    pub password: String,
}

/// Reads entries from lines.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    consumed: u64,
    parser: Reader,
    fields: Vec<u8>,
    /// Whether a record was seen; a heading is allowed only before the first one.
    started: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::with_capacity(MAX_LINE),
            number: 0,
            consumed: 0,
            parser: Reader::new(),
            fields: vec![0; MAX_LINE + 1],
            started: false,
        }
    }

    /// Number of the last line read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The next significant line: an entry, or its error. `None` at the end.
    pub(super) fn next_entry(&mut self) -> io::Result<Option<anyhow::Result<Entry>>> {
        loop {
            match self.read_line()? {
                Line::End => return Ok(None),
                Line::TooLong => {
                    let problem = anyhow!("the line is longer than {MAX_LINE} bytes");
                    return Ok(Some(Err(problem)));
                }
                Line::Read => {}
            }
            let blank = self.line.trim_ascii().is_empty() || self.line.starts_with(b"#");
            if blank {
                continue;
            }
            let first = !std::mem::replace(&mut self.started, true);
            if first && is_heading(&self.line) {
                continue;
            }
            return Ok(Some(self.parse()));
        }
    }

    /// Fills `line`, without the line end.
    fn read_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let length = self
            .input
            .by_ref()
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        self.consumed += length as u64;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            self.line.pop_if(|last| *last == b'\r');
        } else if length > MAX_LINE {
            self.skip_line()?;
            return Ok(Line::TooLong);
        }
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Ok(Line::Read)
    }

    /// Skips the rest of a line of any length.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let heap = self.input.fill_buf()?;
            if heap.is_empty() {
                return Ok(());
            }
            let end = memchr(heap);
            let passed = end.map_or(heap.len(), |end| end + 1);
            self.input.consume(passed);
            self.consumed += passed as u64;
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn parse(&mut self) -> anyhow::Result<Entry> {
        // The line end makes an unclosed quote visible: the quoted field swallows it.
        self.line.push(b'\n');
        self.parser.reset();
        let fields = split(&mut self.parser, &self.line, &mut self.fields)?;
        let [username, domain, password] = fields.as_slice() else {
            bail!(miscounted(&self.line, fields.len()));
        };
        let username = username.trim();
        address::check_username(username)?;
        let domain = address::canonical_domain(domain.trim())?;
        password::check(password)?;
        Ok(Entry {
            line: self.number,
            username: username.to_owned(),
            domain,
            password: (*password).to_owned(),
        })
    }
}

/// Splits a line, including its end, into unquoted fields.
fn split<'f>(parser: &mut Reader, line: &[u8], into: &'f mut [u8]) -> anyhow::Result<Vec<&'f str>> {
    let mut ends = [0; MAX_FIELDS];
    let (result, _, _, count) = parser.read_record(line, into, &mut ends);
    match result {
        ReadRecordResult::Record => {}
        ReadRecordResult::OutputEndsFull => bail!(miscounted(line, MAX_FIELDS)),
        _ => bail!("a quote is not closed; write a quote inside a quoted field twice"),
    }
    let mut start = 0;
    let mut fields = Vec::with_capacity(count);
    for &end in ends.iter().take(count) {
        let bytes = into.get(start..end).unwrap_or_default();
        let text =
            std::str::from_utf8(bytes).context("the line is not UTF-8; save the file as UTF-8")?;
        fields.push(text);
        start = end;
    }
    Ok(fields)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Read,
    TooLong,
    End,
}

fn memchr(heap: &[u8]) -> Option<usize> {
    heap.iter().position(|&byte| byte == b'\n')
}

fn is_heading(line: &[u8]) -> bool {
    let squeezed: Vec<u8> = line
        .iter()
        .filter(|byte| !b" \"\t".contains(byte))
        .map(u8::to_ascii_lowercase)
        .collect();
    squeezed == b"username,domain,password"
}

fn miscounted(line: &[u8], count: usize) -> String {
    let hint = if count < 3 && line.contains(&b';') {
        "; separate the fields with commas, not semicolons"
    } else if count > 3 {
        "; a password with a comma must be in quotes: \"se,cret\""
    } else {
        ""
    };
    format!(
        "expected username,domain,password, found {count} field{}{hint}",
        if count == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parsed = Result<(String, String, String), String>;

    /// The result of each significant line.
    fn read(input: &[u8]) -> Vec<(u64, Parsed)> {
        // A tiny buffer, so that lines cross its boundaries.
        let mut lines = Lines::new(io::BufReader::with_capacity(7, input));
        let mut read = Vec::new();
        while let Some(next) = lines.next_entry().expect("memory can be read") {
            let entry = next.map(|entry| {
                assert_eq!(entry.line, lines.number());
                (entry.username, entry.domain, entry.password)
            });
            let entry = entry.map_err(|problem| problem.to_string());
            read.push((lines.number(), entry));
        }
        assert_eq!(lines.consumed(), input.len() as u64);
        read
    }

    #[expect(clippy::unnecessary_wraps, reason = "what reading gives")]
    fn entry(username: &str, domain: &str, password: &str) -> Parsed {
        Ok((username.to_owned(), domain.to_owned(), password.to_owned()))
    }

    #[test]
    fn lines_are_entries() {
        let input =
            b"alice,example.org,secret\n bob , Example.ORG ,two words \ncarol,example.org,last";
        assert_eq!(
            read(input),
            [
                (1, entry("alice", "example.org", "secret")),
                (2, entry("bob", "example.org", "two words ")),
                (3, entry("carol", "example.org", "last")),
            ]
        );
    }

    #[test]
    fn headings_comments_and_empty_lines_are_passed_over_and_counted() {
        let input = b"\xef\xbb\xbf# staff\r\n\r\n\"Username\", Domain ,password\r\n  \r\nalice,example.org,secret\r\n";
        assert_eq!(read(input), [(5, entry("alice", "example.org", "secret"))]);
    }

    #[test]
    fn a_heading_further_down_is_no_heading() {
        let read = read(b"alice,example.org,secret\nusername,domain,password\n");
        assert_eq!(
            read.get(1),
            Some(&(2, entry("username", "domain", "password")))
        );
    }

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        let input = b"\"alice\",\"example.org\",\"se,c\"\"ret\"\nbob,example.org,it\"s\n";
        assert_eq!(
            read(input),
            [
                (1, entry("alice", "example.org", "se,c\"ret")),
                (2, entry("bob", "example.org", "it\"s"))
            ]
        );
    }

    #[test]
    fn a_wrong_line_is_refused_with_the_reason_and_the_next_one_read() {
        for (line, reason) in [
            (&b"alice"[..], "found 1 field"),
            (b"alice,example.org", "found 2 fields"),
            (b"alice;example.org;secret", "not semicolons"),
            (b"alice,example.org,se,cret", "must be in quotes"),
            (
                b"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t",
                "must be in quotes",
            ),
            (b"alice,example.org,\"secret", "quote is not closed"),
            (b"\"alice,example.org,secret", "quote is not closed"),
            (b"alice,example.org,", "password is empty"),
            (b",example.org,secret", "username is empty"),
            (b"alice,,secret", "domain is empty"),
            (b"al ice,example.org,secret", "contains ' '"),
            (b"alice,exam ple.org,secret", "not a host name"),
            (b"alice,example.org,s\xe9cret", "not UTF-8"),
            (b"alice,example.org,s\0cret", "control character"),
            (&[b'x'; MAX_LINE + 1], "longer than 4096"),
            (&[b'x'; 3 * MAX_LINE], "longer than 4096"),
        ] {
            let mut input = line.to_vec();
            input.extend_from_slice(b"\nbob,example.org,secret\n");
            let read = read(&input);
            let [(1, Err(problem)), (2, good)] = read.as_slice() else {
                panic!("{}: {read:?}", line.escape_ascii());
            };
            assert!(
                problem.contains(reason),
                "{}: {problem}",
                line.escape_ascii()
            );
            assert_eq!(*good, entry("bob", "example.org", "secret"));
        }
    }
}
