//! `tandem lab gateways`: serves until the input ends.

use std::io;
use std::process::ExitCode;
use tandem_lab::gateways::{self, Arguments};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gateways::run(arguments, io::stdin().lock(), io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
