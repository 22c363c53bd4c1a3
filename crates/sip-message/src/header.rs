//! Typed header fields, parsed on demand.
mod credentials;
mod cseq;
mod lookup;
mod name;
mod name_addr;
mod session_interval;
mod via;

pub use credentials::{Challenge, Credentials};
pub(crate) use lookup::known_at_start;

pub use cseq::CSeq;
pub use name::HeaderName;
pub use name_addr::NameAddr;
pub use session_interval::{Refresher, SessionInterval};
pub use via::Via;
