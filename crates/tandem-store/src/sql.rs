//! What the databases have in common: columns, and values in their order.

mod records;
mod rows;
mod services;

pub(crate) use records::{RECORDS_PER_STATEMENT, record_insertion};
pub(crate) use rows::{BINDING, Columns, credentials, restore_binding, unfit};
pub(crate) use services::{alias, forwarding, subscriber_forwarding};

/// How many changes of subscribers are remembered by name. A server that is further behind drops its whole cache.
pub(crate) const REMEMBERED_CHANGES: i64 = 100_000;
