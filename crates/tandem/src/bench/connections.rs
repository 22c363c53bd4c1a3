//! `tandem bench connections`: measures the cost of connections to a running server.

use crate::output::show;
use std::io;
use std::process::ExitCode;
use tandem_lab::connections::{self, Arguments};

/// Measures and prints. Fails if a connection or a call failed.
pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let report = connections::run(arguments).map_err(io::Error::other)?;
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
