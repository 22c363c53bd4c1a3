//! `tandem lab agent`: plays phones until it is ended, and says what becomes of its connection.

use std::io;
use std::process::ExitCode;
use tandem_lab::agent::{self, Arguments};

pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    agent::run(arguments, |line| eprintln!("{line}"))?;
    Ok(ExitCode::SUCCESS)
}
