//! What every command prints: its result on standard output, an error on standard error.
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Prints a result. A reader that closes the pipe early (`tandem ctl … | head`) is not a failure.
pub(crate) fn show(result: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(result.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(format!("cannot print the result: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints an error with its causes, in the format that all commands share.
pub(crate) fn complain(problem: impl std::fmt::Display) -> ExitCode {
    for (number, line) in format!("{problem:#}").lines().enumerate() {
        let lead = if number == 0 { "tandem: " } else { "        " };
        eprintln!("{lead}{line}");
    }
    ExitCode::FAILURE
}
