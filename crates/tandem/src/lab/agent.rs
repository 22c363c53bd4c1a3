//! `tandem lab agent`: runs phones until it is stopped, and reports the state of its connection.

use std::process::ExitCode;
use tandem_lab::agent::{self, Arguments};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    agent::run(arguments, |line| eprintln!("{line}"))?;
    Ok(ExitCode::SUCCESS)
}
