//! The laboratory: SIP traffic with exact counts, and the cost of that traffic for the server.
//!
//! [`run`] plays many independent phones and counts everything. [`scenario`] generates and checks files of calls, which [`run`] can play.
//! [`capacity`] searches for the highest rate that a server sustains, and [`overload`] offers more than that. [`controller`] and
//! [`agent`] spread a scenario over several processes. [`load`] drives one of the workloads W1 to W4 against a server over UDP from one
//! thread. [`connections`] opens TCP and TLS connections by the thousand. [`stack`] measures transactions between two of Tandem's stacks,
//! without an application.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people: counts far below 2^52"
)]

pub mod agent;
pub mod capacity;
pub mod connections;
pub mod controller;
mod credentials;
pub mod interrupt;
pub mod load;
pub mod overload;
mod page;
pub mod process;
mod provenance;
pub mod run;
pub mod scenario;
pub mod stack;
