//! The command line: parses arguments and calls the module of each command.
use crate::analyze;
use crate::balance;
use crate::bench::{self, BenchCommand};
use crate::certificate::{self, CertificateCommand};
use crate::configuration_file::ConfigurationFile;
use crate::lab::{self, LabCommand};
use crate::{alias, check, completions, controller, ctl, fleet, manual, migrate, serve, user};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use tandem_analyzer::Arguments as AnalyzeArguments;

/// Tandem, a SIP server: registrar and proxy.
#[derive(Debug, Parser)]
#[command(
    name = "tandem",
    version,
    disable_help_subcommand = true,
    after_help = "Examples:
  tandem serve --config tandem.toml
  tandem user add alice@example.org --config tandem.toml
  tandem ctl status"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the SIP server in the foreground; without a configuration file, it listens on UDP and TCP port 5060.
    #[command(after_help = "Examples:
  tandem serve
  tandem serve --config tandem.toml")]
    Serve(ConfigurationFile),
    /// Run an edge of a fleet in the foreground: a stateless balancer that owns the clients' connections.
    #[command(after_help = "Examples:
  tandem balance --config edge.toml")]
    Balance(ConfigurationFile),
    /// Add, change, list, remove and import subscribers.
    #[command(after_help = "Examples:
  tandem user add alice@example.org
  tandem user list --config tandem.toml")]
    User(user::Arguments),
    /// Import aliases: addresses and numbers that lead to a subscriber.
    #[command(after_help = "Examples:
  tandem alias import numbers.csv --config tandem.toml")]
    Alias(alias::Arguments),
    /// Create the tables of the database, or bring them up to date, and exit.
    ///
    /// The first start of a server does the same. Servers of the version before may go on meanwhile. Run it before an upgrade to learn of a
    /// problem before you replace a server.
    #[command(after_help = "Examples:
  tandem migrate --config tandem.toml")]
    Migrate(ConfigurationFile),
    /// Create certificates.
    #[command(after_help = "Examples:
  tandem certificate self-signed --name example.org --folder .")]
    Certificate {
        #[command(subcommand)]
        command: CertificateCommand,
    },
    /// Show the state of a running server and control it.
    #[command(after_help = "Examples:
  tandem ctl status
  tandem ctl locations --watch
  tandem ctl ban 192.0.2.7 --for 1h")]
    Ctl(ctl::Arguments),
    /// Run the controller of a fleet in the foreground: it tells edges which nodes there are.
    #[command(after_help = "Examples:
  tandem control --config control.toml
  tandem control --config control.toml --check")]
    Control(controller::Arguments),
    /// Show the nodes of a fleet and decide which of them get calls, through a running controller.
    #[command(after_help = "Examples:
  tandem fleet list --controller 192.0.2.9:8061 --token-file fleet.token
  tandem fleet drain --controller 192.0.2.9:8061 --token-file fleet.token --instance sip-1")]
    Fleet(fleet::Arguments),
    /// Validate a configuration file and print a summary of what would run.
    #[command(after_help = "Examples:
  tandem check --config tandem.toml
  tandem check --example")]
    Check(check::Arguments),
    /// Measure the capacity of this machine and the cost of a running server.
    #[command(after_help = "Examples:
  tandem bench stack --ports 1,100")]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Generate the traffic of thousands of phones and count it exactly.
    #[command(after_help = "Examples:
  tandem lab run call --rate 200 --phones 1000
  tandem lab capacity call --server 192.0.2.1")]
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Measure the response times of a SIP server from captured packets.
    #[command(after_help = "Examples:
  tandem analyze --pcap calls.pcapng --server 192.0.2.1
  tandem analyze --interface eth0 --server 192.0.2.1:5060 --duration 60s")]
    Analyze(Box<AnalyzeArguments>),
    /// Print the completion script of a shell.
    #[command(after_help = "Examples:
  tandem completions bash
  tandem completions zsh")]
    Completions(completions::Arguments),
    /// Write a manual page for each command.
    #[command(after_help = "Examples:
  tandem man --output /usr/local/share/man/man1")]
    Man(manual::Arguments),
}

/// Runs the command. The exit code is 0 for success, 1 for failure, 2 for an invalid command line.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(file) => serve::run(file),
        Command::Balance(file) => balance::run(&file),
        Command::User(arguments) => user::run(arguments),
        Command::Alias(arguments) => alias::run(&arguments),
        Command::Migrate(file) => migrate::run(&file),
        Command::Certificate { command } => certificate::run(&command),
        Command::Ctl(arguments) => ctl::run(&arguments),
        Command::Control(arguments) => controller::run(&arguments),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Bench { command } => bench::run(&command),
        Command::Lab { command } => lab::run(&command),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => manual::run(&arguments, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that users see, each with its own subcommands.
    fn visible(command: &clap::Command) -> Vec<&clap::Command> {
        let inner = command.get_subcommands().filter(|one| !one.is_hide_set());
        std::iter::once(command)
            .chain(inner.flat_map(visible))
            .collect()
    }

    /// The example lines of the help.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string);
        let lines = help.as_deref().unwrap_or_default().lines();
        lines
            .filter_map(|line| line.strip_prefix("  "))
            .map(str::to_owned)
            .collect()
    }

    /// Whether this is a profile of traffic. Three commands share the profiles, and show them in their own examples.
    fn is_profile(name: &str) -> bool {
        let words: Vec<&str> = name.split(' ').collect();
        matches!(
            words[..],
            ["tandem", "lab", "run" | "capacity" | "overload", _]
        )
    }

    #[test]
    fn every_command_has_one_to_three_examples_of_itself_that_are_valid() {
        let mut program = Cli::command();
        program.build();
        for command in visible(&program) {
            let name = command.get_bin_name().unwrap_or("tandem");
            if is_profile(name) {
                continue;
            }
            let examples = examples(command);
            assert!(
                (1..=3).contains(&examples.len()),
                "`{name} --help` has {} examples",
                examples.len()
            );
            for example in examples {
                let words = example.split_whitespace();
                if let Err(error) = Cli::command().try_get_matches_from(words) {
                    panic!("an example of `{name} --help` is invalid: {example}\n{error}");
                }
                assert!(example.starts_with(name), "`{name} --help`: {example}");
            }
        }
    }
}
