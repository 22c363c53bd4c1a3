//! The command line: parses arguments and calls the module of each command.
use crate::analyze;
use crate::bench::{self, BenchCommand};
use crate::certificate::{self, CertificateCommand};
use crate::configuration_file::ConfigurationFile;
use crate::lab::{self, LabCommand};
use crate::output::complain;
use crate::user::{self, UserCommand};
use crate::{check, completions, config, ctl, manual, serve};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use tandem_analyzer::Arguments as AnalyzeArguments;

/// Tandem, a SIP server: registrar and proxy.
#[derive(Debug, Parser)]
#[command(name = "tandem", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the SIP server in the foreground; without a configuration file, it listens on UDP and TCP port 5060.
    Serve(ConfigurationFile),
    /// Add, change, list, remove and import subscribers.
    User {
        #[command(subcommand)]
        command: UserCommand,
        /// Configuration file (TOML) with database and domains; without it, both have their defaults.
        #[arg(long, short, value_name = "FILE", global = true)]
        config: Option<PathBuf>,
    },
    /// Create certificates.
    Certificate {
        #[command(subcommand)]
        command: CertificateCommand,
    },
    /// Call an admin method of a running server; `tandem ctl rpc.methods` lists the methods.
    Ctl(ctl::Arguments),
    /// Validate a configuration file and print a summary of what would run.
    Check(check::Arguments),
    /// Measure the capacity of this machine and the cost of a running server.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Generate the traffic of thousands of phones and count it exactly.
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Measure the response times of a SIP server from captured packets.
    Analyze(Box<AnalyzeArguments>),
    /// Print the completion script of a shell.
    Completions(completions::Arguments),
    /// Write a manual page for each command.
    Man(manual::Arguments),
}

/// Runs the command. The exit code is 0 for success, 1 for failure, 2 for an invalid command line.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(file) => serve::run(file),
        Command::User { command, config } => match config::load(config.as_deref()) {
            Ok(configuration) => {
                let domains: Vec<String> = configuration
                    .general
                    .domains
                    .into_iter()
                    .map(|domain| domain.0)
                    .collect();
                user::run(command, &configuration.database.url.0, &domains)
            }
            Err(mistakes) => complain(mistakes),
        },
        Command::Certificate { command } => certificate::run(&command),
        Command::Ctl(arguments) => ctl::run(&arguments),
        Command::Bench { command } => bench::run(&command),
        Command::Lab { command } => lab::run(&command),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => manual::run(&arguments, Cli::command()),
    }
}
