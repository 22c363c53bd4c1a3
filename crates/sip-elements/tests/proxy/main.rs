//! The stateful proxy (RFC 3261 section 16) between real transactions, under virtual time. The scripts read like a trace of the
//! wire: what a phone sends, and what must leave, in order. Every test ends with all contexts and transactions gone.

mod any_order;
mod breadth;
mod cancel;
mod candidates;
mod deadlines;
mod failover;
mod flows;
mod forking;
mod identity_headers;
mod late;
mod limits;
mod non_invite;
mod one_target;
mod resolving;
mod routing;
mod sips;
mod unreachable;
mod wire;
