//! Fleets of real processes, which are killed, replaced and added while calls are made through them.

mod calls;
mod connections;
mod kamailio;
mod kills;
mod long_call;
mod members;
#[path = "../../../crates/tandem-store/tests/servers/postgres.rs"]
mod postgres;
#[path = "../../../crates/tandem-store/tests/servers/process.rs"]
mod process;
mod records;
mod scale;
mod upgrade;
