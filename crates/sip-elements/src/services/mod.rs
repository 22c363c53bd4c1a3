//! What operators set up for addresses of record: aliases, and call forwarding. The control plane fills these tables from the database
//! and follows its changes; the workers read them without a lock.

mod aliases;
mod forwarding;
mod table;

pub use aliases::Aliases;
pub use forwarding::{CallForwarding, Forwardings, NoAnswer};
pub use table::Replacement;

/// The tables that all workers read.
#[derive(Debug)]
pub struct Services {
    /// Which addresses lead to which subscribers.
    pub aliases: Aliases,
    /// Where calls to subscribers go instead.
    pub forwardings: Forwardings,
}

impl Services {
    /// Creates empty tables with room for this many aliases and this many subscribers that forward calls.
    pub fn new(max_aliases: usize, max_forwardings: usize) -> Self {
        Self {
            aliases: Aliases::new(max_aliases),
            forwardings: Forwardings::new(max_forwardings),
        }
    }
}

impl Default for Services {
    fn default() -> Self {
        Self::new(1_000_000, 1_000_000)
    }
}
