//! The progress of an import: a bar on a terminal, periodic lines in a log.

use crate::user::report::{grouped, rate};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Interval of lines in a log.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows the progress of an import.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { next: Duration },
}

impl Progress {
    /// `size`: bytes of the file, if known.
    pub(super) fn new(size: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { next: LINE_EVERY };
        }
        let (bar, template) = match size {
            Some(size) => (ProgressBar::new(size), "{bar:30} {percent:>3} %  {msg}"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self::Bar(bar.with_style(style))
    }

    /// Shows the lines and bytes done after `spent`.
    pub(super) fn update(
        &mut self,
        lines: u64,
        bytes: u64,
        spent: Duration,
        notes: &mut dyn Write,
    ) {
        let text = format!(
            "{} lines, {} per second",
            grouped(lines),
            grouped(rate(lines, spent))
        );
        match self {
            Self::Bar(bar) => {
                bar.set_position(bytes);
                bar.set_message(text);
            }
            Self::Lines { next } if spent >= *next => {
                *next = spent + LINE_EVERY;
                let _ = writeln!(notes, "tandem: {text}");
            }
            Self::Lines { .. } => {}
        }
    }

    /// Prints something else without disturbing the bar.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        match self {
            Self::Bar(bar) => bar.suspend(print),
            Self::Lines { .. } => print(),
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_now_and_then() {
        let mut log = Vec::new();
        let mut progress = Progress::Lines { next: LINE_EVERY };
        for (lines, seconds) in [(100_000, 4), (150_000, 6), (200_000, 8), (300_000, 12)] {
            progress.update(lines, 0, Duration::from_secs(seconds), &mut log);
        }
        assert_eq!(
            String::from_utf8_lossy(&log),
            "tandem: 150,000 lines, 25,000 per second\ntandem: 300,000 lines, 25,000 per second\n"
        );
    }
}
