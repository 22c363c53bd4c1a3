//! The stateful proxy (RFC 3261 section 16) with real transactions, under virtual time. The scripts read like a trace
//! of the wire: what a phone sends, and what the proxy must send, in order. When a test ends, all contexts and
//! transactions are gone.

mod another_node;
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
mod session_timers;
mod sips;
mod unreachable;
mod wire;
