//! `tandem lab`: generates traffic and counts it exactly.

mod agent;
mod capacity;
mod controller;
mod gateways;
mod output;
mod overload;
mod run;
mod scenario;

use crate::output::complain;
use clap::Subcommand;
use std::process::ExitCode;
use tandem_lab::agent::Arguments as AgentArguments;
use tandem_lab::capacity::Arguments as CapacityArguments;
use tandem_lab::controller::Arguments as ControllerArguments;
use tandem_lab::gateways::Arguments as GatewaysArguments;
use tandem_lab::overload::Arguments as OverloadArguments;
use tandem_lab::run::Arguments as RunArguments;
use tandem_lab::scenario::ScenarioCommand;

/// The laboratory commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Generate the traffic of many phones against a server and count it exactly.
    #[command(after_help = "Examples:
  tandem lab run call --rate 200 --phones 1000
  tandem lab run register --server 192.0.2.1 --duration 60s --html report.html")]
    Run(Box<RunArguments>),
    /// Run phones that a controller commands.
    #[command(after_help = "Examples:
  tandem lab agent --controller 192.0.2.9:8070 --phones 500 --server 192.0.2.1")]
    Agent(Box<AgentArguments>),
    /// Command agents by a scenario, and serve a page that shows the progress.
    #[command(after_help = "Examples:
  tandem lab controller --scenarios scenarios/")]
    Controller(ControllerArguments),
    /// Play gateways that answer calls over UDP, count them, and fail when told to.
    ///
    /// A line on standard input, such as `1 silent`, changes what a gateway does: its number in the order of `--listen`, and `answering`,
    /// `silent`, `closed`, `trying` (100 and nothing more), `agreeing` (200 to every request), `refusing STATUS` or
    /// `failing-probes STATUS`. The line `counts` prints what each has counted. The command ends with its input.
    #[command(after_help = "Examples:
  tandem lab gateways --listen 127.0.0.1:5091 --listen 127.0.0.1:5092")]
    Gateways(GatewaysArguments),
    /// Search for the highest rate at which a server meets a service objective.
    #[command(after_help = "Examples:
  tandem lab capacity call --server 192.0.2.1 --p99 500ms --html report.html")]
    Capacity(Box<CapacityArguments>),
    /// Measure what a server still does beyond its capacity, and how soon it recovers.
    #[command(after_help = "Examples:
  tandem lab overload call --server 192.0.2.1 --factors 1,2,3")]
    Overload(Box<OverloadArguments>),
    /// Generate, validate and plot scenario files, which list caller, callee and time of each call.
    #[command(after_help = "Examples:
  tandem lab scenario generate day --output day.csv
  tandem lab scenario validate day.csv")]
    Scenario {
        #[command(subcommand)]
        command: Box<ScenarioCommand>,
    },
}

/// Runs the command. Fails if a unit of work failed.
pub fn run(command: &LabCommand) -> ExitCode {
    let result = match command {
        LabCommand::Run(arguments) => run::run(arguments),
        LabCommand::Agent(arguments) => agent::run(arguments),
        LabCommand::Controller(arguments) => controller::run(arguments),
        LabCommand::Gateways(arguments) => gateways::run(arguments),
        LabCommand::Capacity(arguments) => capacity::run(arguments),
        LabCommand::Overload(arguments) => overload::run(arguments),
        LabCommand::Scenario { command } => scenario::run(command),
    };
    result.unwrap_or_else(complain)
}
