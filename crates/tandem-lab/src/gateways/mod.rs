//! `tandem lab gateways`: gateways that answer calls, count them, and fail when they are told to.
//!
//! Each gateway is a thread with a UDP socket. A line on standard input changes what one of them does, so that a test can let it die and
//! return while calls run.

mod agent;
mod behaviour;
mod calls;
mod counts;
mod order;
#[cfg(test)]
mod tests;

pub use agent::Agent;
pub use behaviour::Behaviour;
pub use counts::Counts;

use clap::Args;
use order::Order;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;

/// Play gateways that answer calls.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Address and UDP port of a gateway; repeat it for more gateways.
    #[arg(long, value_name = "ADDRESS:PORT", required = true)]
    listen: Vec<SocketAddr>,
}

/// Serves until the input ends. Each line of input has one line of output: `ok`, the counts, or an error.
///
/// # Errors
/// A socket cannot be opened, or the input or the output fails.
pub fn run(
    arguments: &Arguments,
    input: impl BufRead,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let agents = arguments
        .listen
        .iter()
        .map(|address| Agent::start(*address));
    let agents = agents.collect::<io::Result<Vec<Agent>>>()?;
    writeln!(output, "ready")?;
    output.flush()?;
    for line in input.lines() {
        let answer = match Order::parse(&line?, agents.len()) {
            Ok(Order::Counts) => {
                let counts: Vec<Counts> = agents.iter().map(Agent::counts).collect();
                serde_json::to_string(&counts)?
            }
            Ok(Order::Behave(number, behaviour)) => {
                if let Some(agent) = agents.get(number) {
                    agent.behave(behaviour);
                }
                "ok".to_owned()
            }
            Err(problem) => format!("error: {problem}"),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
