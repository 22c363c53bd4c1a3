//! Records that the nodes of a fleet share through a key-value store, in the form in which they travel. Nothing here opens a connection or
//! reads a clock.
//!
//! Each record has a [`Version`]. Of two records of the same key, the one with the higher version counts, so the order in which they
//! arrive makes no difference. A removal is a record, too: it must win over older changes that arrive later.

mod key;
mod record;
mod version;

pub use key::BindingId;
pub use record::{SharedBinding, Unreadable};
pub use version::{HybridClock, HybridTime, Version, WriterId};
