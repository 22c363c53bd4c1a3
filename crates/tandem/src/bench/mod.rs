//! `tandem bench`: what this machine carries, and what a running server costs.

mod connections;
mod stack;

use crate::cli::complain;
use clap::Subcommand;
use std::io;
use std::process::ExitCode;
use tandem_lab::connections::{Arguments as ConnectionsArguments, HolderArguments};

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Transactions per second between a client stack and a server stack through real sockets, both on one core. Each
    /// transaction is a REGISTER and its 200.
    Stack(stack::StackArguments),
    /// A server stack for the parent's client stack.
    #[command(hide = true)]
    StackServer,
    /// What TCP and TLS connections cost a running server: memory of idle ones, CPU of those that come and go, calls over them.
    Connections(Box<ConnectionsArguments>),
    /// Hold connections for another process of this program.
    #[command(hide = true)]
    HoldConnections(HolderArguments),
}

/// Measures and prints. Fails where anything failed that should not.
pub fn run(command: &BenchCommand) -> ExitCode {
    let result = match command {
        BenchCommand::Stack(arguments) => stack::run(arguments),
        BenchCommand::StackServer => {
            let served = tandem_lab::stack::serve(io::stdin().lock(), io::stdout().lock());
            served.map(|()| ExitCode::SUCCESS)
        }
        BenchCommand::Connections(arguments) => connections::run(arguments),
        BenchCommand::HoldConnections(arguments) => {
            tandem_lab::connections::hold(arguments).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(complain)
}
