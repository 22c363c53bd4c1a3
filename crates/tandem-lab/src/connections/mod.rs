//! Measures what connections cost a server: memory of idle connections, CPU of short-lived ones, and whether calls reach each of them.
//!
//! Each run makes one of three measurements:
//!
//! - *held*: opens connections in steps and keeps them, each with a registration. After each step it reads the server's memory. At the
//!   end it delivers calls to randomly chosen connections; each must ring on the one connection that its callee registered over.
//! - *units*: connect, handshake, one OPTIONS, close, as fast as possible.
//! - *churn*: units at a fixed rate, with calls over other connections at the same time.
//!
//! No figure includes the cost of the measuring side: only the server's processes are measured.

mod churn;
mod client;
mod held;
mod holder;
mod line;
mod options;
mod phone;
mod report;
mod requests;
mod server;
mod steps;
mod tls;
mod units;

pub use options::{Arguments, HolderArguments, Key, Transport, Units};
pub use report::Report;

/// Makes the measurement that the arguments ask for.
///
/// # Errors
/// The server cannot be reached, or its process cannot be inspected.
pub fn run(arguments: &Arguments) -> anyhow::Result<Report> {
    sip_runtime::raise_descriptor_limit();
    match (arguments.units, arguments.churn) {
        (Some(units), _) => units::run(arguments, units).map(Report::Units),
        (None, Some(rate)) => churn::run(arguments, rate).map(Report::Churn),
        (None, None) => steps::run(arguments).map(Report::Held),
    }
}

/// Runs the process that holds connections for another one. It communicates over standard input and output, and exits when its input
/// ends.
///
/// # Errors
/// Standard input or output fails.
pub fn hold(arguments: &HolderArguments) -> anyhow::Result<()> {
    sip_runtime::raise_descriptor_limit();
    holder::run(&arguments.target)
}
