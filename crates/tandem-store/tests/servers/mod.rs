//! What every backend must do whose database is a server.
//!
//! The test program of a backend includes this module, names its server `server`, and provides `database`: how this server is
//! addressed, what it says, and how its tables are damaged.

pub mod database;
mod late;
mod opening;
mod relay;
mod relayed;
mod restart;
mod silence;
mod stall;
