//! `tandem lab controller`: serves until it is stopped.

use std::process::ExitCode;
use tandem_lab::controller::{self, Arguments};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    controller::run(arguments, |line| eprintln!("{line}"))?;
    Ok(ExitCode::SUCCESS)
}
