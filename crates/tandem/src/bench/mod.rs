//! `tandem bench`: measures the capacity of this machine and the cost of a running server.

mod connections;
mod stack;

use crate::output::complain;
use anyhow::anyhow;
use clap::Subcommand;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use tandem_lab::connections::{Arguments as ConnectionsArguments, HolderArguments};

/// The bench commands.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure transactions per second between a client stack and a server stack over real sockets, both on one core. Each
    /// transaction is a REGISTER and its 200.
    #[command(after_help = "Examples:
  tandem bench stack --ports 1,100
  tandem bench stack --transport udp --event-loop epoll --json")]
    Stack(stack::StackArguments),
    /// Run a server stack for the client stack of the parent process.
    #[command(hide = true)]
    StackServer,
    /// Measure what TCP and TLS connections cost a running server: memory of idle ones, CPU of short-lived ones, calls over them.
    #[command(after_help = "Examples:
  tandem bench connections --server 127.0.0.1:5060 --pid 4242")]
    Connections(Box<ConnectionsArguments>),
    /// Send each datagram back as its own response: the kernel's cost of a message in and one out, for `tandem lab run echo`.
    #[command(after_help = "Examples:
  tandem bench floor 127.0.0.1:5070")]
    Floor {
        /// UDP address to serve.
        #[arg(value_name = "ADDRESS:PORT")]
        address: SocketAddr,
    },
    /// Hold connections for another `tandem` process.
    #[command(hide = true)]
    HoldConnections(HolderArguments),
}

/// Measures and prints. Fails if the measurement failed.
pub fn run(command: &BenchCommand) -> ExitCode {
    let result = match command {
        BenchCommand::Stack(arguments) => stack::run(arguments),
        BenchCommand::StackServer => {
            let served = tandem_lab::stack::serve(io::stdin().lock(), io::stdout().lock());
            served.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        BenchCommand::Connections(arguments) => connections::run(arguments),
        BenchCommand::Floor { address } => tandem_lab::floor::serve(*address)
            .map(|served| match served {})
            .map_err(|error| anyhow!("{address}: {error}")),
        BenchCommand::HoldConnections(arguments) => {
            tandem_lab::connections::hold(arguments).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(complain)
}
