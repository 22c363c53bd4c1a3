//! Failures of the commands, and number formats.

use std::io;
use std::process::ExitCode;
use std::time::Duration;
use tandem_store::StoreError;

/// Why a command did not complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The command failed.
    Failed(String),
    /// The command completed in part; the rest has already been reported.
    Incomplete,
    /// The reader of the output closed the pipe: `tandem user list | head`.
    OutputClosed,
}

impl Failure {
    /// The command failed, with these causes.
    pub(super) fn failed(problem: &anyhow::Error) -> Self {
        Self::Failed(format!("{problem:#}"))
    }

    pub(super) fn from_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("the output cannot be written: {error}")),
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) | Self::Incomplete => ExitCode::FAILURE,
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// The lines that remain to be printed.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let text = match self {
            Self::Usage(problem) | Self::Failed(problem) => problem.as_str(),
            Self::Incomplete | Self::OutputClosed => "",
        };
        text.lines().map(|line| format!("tandem: {line}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Url { .. } => Self::Usage(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// A number with thousands separators: `1,000,000`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rate per second.
pub(super) fn rate(count: u64, spent: Duration) -> u64 {
    let milliseconds = spent.as_millis().max(1);
    u64::try_from(u128::from(count) * 1000 / milliseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345, "12,345"),
            (100_000, "100,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from_output(&broken).exit_code(), ExitCode::SUCCESS);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Failure::from_output(&full).exit_code(), ExitCode::FAILURE);
    }
}
