//! The store on PostgreSQL: the contract of every backend, and what a server may refuse.

#[path = "../contract/mod.rs"]
mod contract;
mod database;
#[path = "../kamailio/mod.rs"]
mod kamailio;
mod kamailio_tables;
mod node_lock;
mod opening;
#[path = "../servers/process.rs"]
mod process;
mod restart;
#[path = "../servers/postgres.rs"]
mod server;

use database::Database;
