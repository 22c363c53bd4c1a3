//! Tandem, a SIP server: command line, configuration, wiring of data plane and control plane, administration.
//!
//! ```text
//! cli ─┬─ serve ── questions, saver, upkeep ─┐
//!      │    ├───── admin (HTTP) ─────────────┼─ control ─▶ sip-runtime ─▶ sip-elements
//!      │    └───── calls: records, events ───┘
//!      ├─ balance ── tandem-balancer
//!      ├─ controller ─▶ tandem-fleet ◀─ (HTTP) ─ fleet
//!      ├─ alias, analyze, bench, certificate, check, completions, ctl, lab, manual, user
//!      └─ config: the file, its catalogue and its reference
//! ```

pub mod admin;
mod alias;
mod analyze;
pub mod balance;
mod bench;
pub mod calls;
mod certificate;
pub mod check;
pub mod cli;
mod completions;
pub mod config;
mod configuration_file;
pub mod control;
pub mod controller;
pub mod ctl;
mod descriptors;
mod fleet;
mod fleet_secret;
pub mod fleet_store;
mod lab;
mod manual;
mod metrics;
mod migrate;
mod output;
mod prefixes;
mod redis_connection;
mod routes;
pub mod serve;
mod services;
mod terminate;
pub mod trace;
mod user;
mod warnings;
