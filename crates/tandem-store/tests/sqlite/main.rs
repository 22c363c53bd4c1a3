//! The store on `SQLite`: the contract of every backend, and how a database file is opened.

#[path = "../contract/mod.rs"]
mod contract;
mod database;
mod node_lock;
mod opening;
mod records;

use database::Database;
