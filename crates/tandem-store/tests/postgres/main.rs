//! The store on PostgreSQL: the contract of every backend, and what a server may refuse.

#[path = "../contract/mod.rs"]
mod contract;
mod database;
mod node_lock;
mod opening;
#[path = "../servers/process.rs"]
mod process;
#[path = "../servers/relay.rs"]
mod relay;
#[path = "../relayed/mod.rs"]
mod relayed;
mod restart;
#[path = "../servers/postgres.rs"]
mod server;

use database::Database;
