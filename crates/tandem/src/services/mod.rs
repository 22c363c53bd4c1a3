//! Aliases and call forwarding: what operators write, and how it gets from the database into the tables of the workers.

mod memory;
mod name;
mod target;

pub(crate) use memory::{load, refresh};
pub(crate) use name::{AliasName, SubscriberName};
pub(crate) use target::target_uri;
