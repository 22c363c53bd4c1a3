//! `tandem lab`: traffic that can be trusted.

mod agent;
mod capacity;
mod controller;
mod output;
mod overload;
mod run;
mod scenario;

use crate::cli::complain;
use clap::Subcommand;
use std::process::ExitCode;
use tandem_lab::agent::Arguments as AgentArguments;
use tandem_lab::capacity::Arguments as CapacityArguments;
use tandem_lab::controller::Arguments as ControllerArguments;
use tandem_lab::overload::Arguments as OverloadArguments;
use tandem_lab::run::Arguments as RunArguments;
use tandem_lab::scenario::ScenarioCommand;

/// What the laboratory does.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Traffic of many phones against a server, counted exactly.
    Run(Box<RunArguments>),
    /// Phones that do what a controller tells them.
    Agent(Box<AgentArguments>),
    /// Tells agents what to do, by a scenario, and shows a page about it.
    Controller(ControllerArguments),
    /// The highest rate at which a server keeps a service objective, found by trying.
    Capacity(Box<CapacityArguments>),
    /// What a server still does when it is offered more than it carries, and how soon it recovers.
    Overload(Box<OverloadArguments>),
    /// Scenario files: who calls whom, and when. Make them, check them, draw them.
    Scenario {
        #[command(subcommand)]
        command: Box<ScenarioCommand>,
    },
}

/// Does it. Fails where a unit failed.
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
