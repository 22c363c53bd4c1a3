//! `tandem bench connections`: measures the cost of connections to a running server.

use crate::output::show;
use std::process::ExitCode;
use tandem_lab::connections::{self, Arguments};

/// Measures and prints. Fails if a connection or a call failed.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let report = connections::run(arguments)?;
    let shown = if arguments.json {
        serde_json::to_string(&report)? + "\n"
    } else {
        report.to_string()
    };
    let printed = show(&shown);
    Ok(if report.is_clean() {
        printed
    } else {
        ExitCode::FAILURE
    })
}
