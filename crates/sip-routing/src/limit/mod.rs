//! Limits: how many calls per second, and how many at the same time, from whom.
//!
//! A new call passes the limits of its source address, its subscriber, its source network, its rule, and the limit of all calls.
//! [`Limits::admit`] takes a [`Place`] in each of them, or in none. The call owns its places, and dropping them gives them back.
//!
//! ```text
//! Limits (immutable, one per configuration)        state (atomics, shared by all configurations)
//!   Limit    "overall"             ───────────────▶  meter: live calls, bucket ◀── Place (8 bytes)
//!   Limit    "carrier-a" networks  ───────────────▶  meter                     ◀── Place
//!   each source address            ──▶ table of meters, bounded, swept         ◀── Place
//!   each subscriber                ──▶ table of meters, bounded, swept         ◀── Place
//! ```
//!
//! The next configuration takes over the state by name. Nothing here locks. Only the first call of a source or subscriber allocates.
//!
//! **Order.** All workers pass the limits in the same order, the most specific one first. So a flood that its own limit refuses touches
//! nothing that others share. When a later limit refuses, the earlier ones get their places and charges back. In between, which takes
//! less than a microsecond, another call may find the last place taken and be refused, too. No limit ever admits too many.

mod bounds;
mod calls;
mod description;
mod each;
mod meter;
mod networks;
mod rate;
mod set;
mod single;
mod source;
mod table;
#[cfg(test)]
mod tests;

pub use bounds::{Bounds, Excess};
pub use description::{
    Declared, DeclaredEach, Description, EXEMPT, InvalidLimit, MAX_KEYS, NamedLimit, NetworkLimit,
};
pub use each::EachStats;
pub use meter::Place;
pub(crate) use rate::Bucket;
pub use rate::{MAX_BURST, MAX_RATE, MIN_RATE, Rate};
pub use set::{Call, Limits, Permits, Refused, Scope, Swept};
pub use single::{Limit, LimitStats};
