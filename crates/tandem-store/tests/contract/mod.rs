//! What every backend must do.
//!
//! The test program of a backend includes this module and provides `Database`: `new` makes an empty database, `url` names it,
//! `refuse`, `damage_hashes` and `damage_sources` change it without the store, and `run` runs SQL. Its module has `QUOTE`, which begins and
//! ends names.

mod changes;
mod dialogs;
mod import;
mod locations;
mod nodes;
mod open;
mod prefixes;
pub mod records;
pub mod rows;
mod services;
mod sharing;
mod start;
mod subscribers;
mod upgrades;
