//! The laboratory: SIP traffic with exact counts, and the cost of that traffic for the server.
//!
//! [`run`] plays many independent phones and counts everything. [`scenario`] generates and checks files of calls, which [`run`] can play.
//! [`capacity`] searches for the highest rate that a server sustains, and [`overload`] offers more than that. [`controller`] and
//! [`agent`] spread a scenario over several processes. [`connections`] opens TCP and TLS connections by the thousand. [`stack`] measures
//! transactions between two stacks of Tandem, without an application. [`floor`] measures the kernel alone. [`gateways`] answer the calls of
//! a server, or fail to.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people: counts far below 2^52"
)]

pub mod agent;
pub mod capacity;
pub mod connections;
pub mod controller;
mod credentials;
pub mod floor;
pub mod gateways;
pub mod interrupt;
pub mod overload;
mod page;
pub mod process;
mod provenance;
pub mod run;
pub mod scenario;
pub mod stack;
