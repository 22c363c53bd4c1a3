//! What connections cost a server: memory of idle ones, CPU of those that come and go, calls delivered over any of them.
//!
//! Three measurements, one of them a run:
//!
//! - *held*: connections are opened in steps and kept, each with a registration; after each step the server's memory is read. At the
//!   end calls are delivered to connections drawn at random, and each must ring on the one connection that its callee registered over.
//! - *units*: connect, shake hands, one OPTIONS, close; as fast as it goes.
//! - *churn*: so many units a second, while calls go on over connections that stay.
//!
//! What the measuring side costs is in none of the figures: only the server's processes are looked at.

mod churn;
mod client;
mod held;
mod holder;
mod line;
mod options;
mod phone;
mod report;
mod server;
mod steps;
mod tls;
mod units;

pub use options::{Arguments, HolderArguments, Key, Transport, Units};
pub use report::Report;

use std::io;

/// Measures what the arguments ask for.
///
/// # Errors
/// A server that cannot be reached, or whose process cannot be looked at.
pub fn run(arguments: &Arguments) -> io::Result<Report> {
    sip_runtime::raise_descriptor_limit();
    match (arguments.units, arguments.churn) {
        (Some(units), _) => units::run(arguments, units).map(Report::Units),
        (None, Some(rate)) => churn::run(arguments, rate).map(Report::Churn),
        (None, None) => steps::run(arguments).map(Report::Held),
    }
}

/// The process that holds connections for another one, which speaks to it over standard input and output. Ends when its input does.
///
/// # Errors
/// Standard input or output cannot be used.
pub fn hold(arguments: &HolderArguments) -> io::Result<()> {
    sip_runtime::raise_descriptor_limit();
    holder::run(&arguments.target)
}
