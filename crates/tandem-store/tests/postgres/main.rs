//! The store on PostgreSQL: the contract of every backend, and what a server may refuse.

#[path = "../contract/mod.rs"]
mod contract;
mod database;
#[path = "../network/fencing.rs"]
mod fencing;
#[path = "../kamailio/mod.rs"]
mod kamailio;
mod kamailio_tables;
mod node_lock;
mod opening;
#[path = "../servers/process.rs"]
mod process;
#[path = "../servers/postgres.rs"]
mod server;
#[path = "../servers/mod.rs"]
mod servers;

use servers::database::Database;
