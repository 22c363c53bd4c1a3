//! The laboratory: SIP traffic that can be trusted, and what it cost the server.
//!
//! [`scenario`] makes and checks files of who calls whom, and when. [`run`] plays many phones, each with a mind of its own, and counts everything. [`load`] drives one of the workloads W1 to W4 against a server over UDP from one thread and
//! counts everything: what was attempted, answered, failed, retransmitted, late. [`connections`] opens TCP and TLS connections
//! by the thousand. [`stack`] has two stacks of this program send transactions to each other: what it carries without an application.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people: counts far below 2^52"
)]

pub mod agent;
pub mod connections;
pub mod controller;
mod credentials;
pub mod load;
pub mod process;
pub mod run;
pub mod scenario;
pub mod stack;
