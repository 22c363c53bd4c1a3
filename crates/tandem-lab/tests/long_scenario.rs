//! The memory cost of a long scenario file, in a process of its own.

use std::io::{self, BufReader, Read};
use tandem_lab::run::Spacing;
use tandem_lab::scenario::{HEADER, Pairing, Rules, read, validate};

/// A scenario that is generated while it is read, so that it is never in memory as a whole.
struct Endless {
    lines: u64,
    written: u64,
    part: Vec<u8>,
    place: usize,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.place == self.part.len() {
            self.part.clear();
            self.place = 0;
            while self.part.len() < 1 << 16 && self.written < self.lines {
                let second = self.written / 1_000;
                self.part
                    .extend_from_slice(format!("0400;0500;1;{second};1000\n").as_bytes());
                self.written += 1;
            }
        }
        let mut rest = self.part.get(self.place..).unwrap_or_default();
        let read = rest.read(into)?;
        self.place += read;
        Ok(read)
    }
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_long_file_is_validated_without_being_held() {
    let lines = 500_000;
    let input = Endless {
        lines,
        written: 0,
        part: format!("{HEADER}\n").into_bytes(),
        place: 0,
    };
    let rules = Rules {
        phones: None,
        pairing: Pairing::Any,
        spacing: Spacing::Regular,
    };
    let before = resident_kilobytes();
    let verdict = validate(read(BufReader::new(input)), &rules).unwrap();
    let grown = resident_kilobytes() - before;
    assert_eq!((verdict.calls, verdict.milliseconds), (lines, lines));
    assert!(verdict.mistakes.is_empty(), "{:?}", verdict.mistakes);
    // The file has 12 MB.
    assert!(grown < 2_000, "{grown} kB more");
}
