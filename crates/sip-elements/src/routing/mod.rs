//! Routing decisions of the proxy (RFC 3261 sections 16.4 to 16.6): the route set, the next hop of a target, the listener
//! that leads there, and the proofs in Route and Via.
//!
//! Nothing here sends or waits. Functions read a [`View`](crate::View) and the table of refreshed targets, and the proxy above them acts.

pub(crate) mod breadth;
pub(crate) mod client_key;
pub(crate) mod dead_targets;
pub(crate) mod failure;
pub(crate) use sip_transport::flow_token;
pub(crate) mod listener;
pub(crate) mod loop_detection;
pub(crate) mod off_limits;
pub(crate) mod proof;
pub(crate) mod record_route;
pub(crate) mod refreshed;
pub(crate) mod return_path;
pub(crate) mod route;
pub(crate) mod stateless_branch;
pub(crate) mod target;

pub use loop_detection::is_loop;
pub use refreshed::RefreshedStats;
pub use route::Routing;
pub use target::{NextHop, Target};
