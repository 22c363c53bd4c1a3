//! The command line: what can be asked of the program, and where each command is done.
use crate::analyze;
use crate::bench::{self, BenchCommand};
use crate::certificate::{self, CertificateCommand};
use crate::lab::{self, LabCommand};
use crate::user::{self, UserCommand};
use crate::{check, config, ctl, serve};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_analyzer::Arguments as AnalyzeArguments;

/// Tandem, the SIP server: registrar, proxy and what belongs to them.
#[derive(Debug, Parser)]
#[command(name = "tandem", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the SIP server in the foreground; without a configuration file it listens on UDP port 5060.
    Serve(ConfigurationFile),
    /// Add, change, list, remove and import subscribers.
    User {
        #[command(subcommand)]
        command: UserCommand,
        /// The configuration file (TOML) that names database and domains; without it both have their defaults.
        #[arg(long, short, value_name = "FILE", global = true)]
        config: Option<PathBuf>,
    },
    /// Make certificates.
    Certificate {
        #[command(subcommand)]
        command: CertificateCommand,
    },
    /// Ask a running server, or tell it something: `tandem ctl rpc.methods` lists what there is.
    Ctl(ctl::Arguments),
    /// Validate a configuration file and print what would run.
    Check(check::Arguments),
    /// Measure what this machine carries, and what a running server costs.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Traffic that can be trusted: phones by the thousand, counted exactly.
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Response times of a SIP server, from captured packets.
    Analyze(Box<AnalyzeArguments>),
}

/// Names the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigurationFile {
    /// The configuration file (TOML); without it every key has its default.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ConfigurationFile {
    /// Reads the file, or takes the defaults.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn load(&self) -> Result<config::Configuration, config::Mistakes> {
        config::load(self.path())
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

/// Does what the command line asks. The exit code is 0 for success, 1 for failure, 2 for a command line that makes no sense.
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
    }
}

/// Prints a result. Whoever reads it may stop reading (`tandem ctl … | head`): that is no failure.
pub fn show(result: &str) -> ExitCode {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().lock().write_all(result.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(format!("cannot print the result: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints what went wrong in the way of all commands.
pub fn complain(problem: impl std::fmt::Display) -> ExitCode {
    for (number, line) in problem.to_string().lines().enumerate() {
        let lead = if number == 0 { "tandem: " } else { "        " };
        eprintln!("{lead}{line}");
    }
    ExitCode::FAILURE
}
