//! `tandem bench`: measures a running server.
use crate::cli::{complain, show};
use clap::Subcommand;
use std::process::ExitCode;
use tandem_lab::connections;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What TCP and TLS connections cost a running server: memory of idle ones, CPU of those that come and go, calls over them.
    Connections(Box<connections::Arguments>),
    /// Hold connections for another process of this program.
    #[command(hide = true)]
    HoldConnections(connections::HolderArguments),
}

/// Measures. Fails where anything failed that should not.
pub fn run(command: &BenchCommand) -> ExitCode {
    match command {
        BenchCommand::Connections(arguments) => measure(arguments),
        BenchCommand::HoldConnections(arguments) => match connections::hold(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(error),
        },
    }
}

fn measure(arguments: &connections::Arguments) -> ExitCode {
    let report = match connections::run(arguments) {
        Ok(report) => report,
        Err(error) => return complain(error),
    };
    let shown = if arguments.json {
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    };
    let printed = show(&shown);
    if report.is_clean() {
        printed
    } else {
        ExitCode::FAILURE
    }
}
