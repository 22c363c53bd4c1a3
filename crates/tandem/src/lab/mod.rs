//! `tandem lab`: generates traffic and counts it exactly.

mod agent;
mod capacity;
mod controller;
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
use tandem_lab::overload::Arguments as OverloadArguments;
use tandem_lab::run::Arguments as RunArguments;
use tandem_lab::scenario::ScenarioCommand;

/// The laboratory commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Generate the traffic of many phones against a server and count it exactly.
    Run(Box<RunArguments>),
    /// Run phones that a controller commands.
    Agent(Box<AgentArguments>),
    /// Command agents by a scenario, and serve a page that shows the progress.
    Controller(ControllerArguments),
    /// Search for the highest rate at which a server meets a service objective.
    Capacity(Box<CapacityArguments>),
    /// Measure what a server still does beyond its capacity, and how soon it recovers.
    Overload(Box<OverloadArguments>),
    /// Generate, validate and plot scenario files, which list caller, callee and time of each call.
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
        LabCommand::Capacity(arguments) => capacity::run(arguments),
        LabCommand::Overload(arguments) => overload::run(arguments),
        LabCommand::Scenario { command } => scenario::run(command),
    };
    result.unwrap_or_else(complain)
}
