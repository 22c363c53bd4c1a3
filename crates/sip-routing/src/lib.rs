//! Where new calls go, and whether they may: the policy that operators declare.
//!
//! Nothing here sends, waits or reads a clock. All workers share these tables: what the configuration says is immutable and replaced as a
//! whole; what counts calls lives in atomics that belong to a name, and the next configuration takes it over.

#![forbid(unsafe_code)]

pub mod gateway;
pub mod limit;
mod number;
pub mod numbering;
mod policy;
pub mod prefix;
pub mod rule;

pub use number::is_malformed;
pub use policy::Policy;
