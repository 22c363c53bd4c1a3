//! The laboratory: SIP traffic that can be trusted, and what it cost the server.
//!
//! [`run`] plays many phones, each with a mind of its own, and counts everything; [`scenario`] makes and checks files of who calls
//! whom, and when, which it plays, too; [`capacity`] finds with it what a server carries. [`load`] drives one of the workloads W1 to
//! W4 against a server over UDP from one thread. [`connections`] opens TCP and TLS connections
//! by the thousand. [`stack`] has two stacks of this program send transactions to each other: what it carries without an application.

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
