//! The edge of a fleet, sans-IO: a stateless proxy (RFC 3261 section 16.11) between clients and the nodes that serve them.
//!
//! ```text
//! clients ── flows ──▶ Edge ── hint? that node : rendezvous(Call-ID) ──▶ nodes
//! ```
//!
//! The edge owns the connections of the clients (RFC 5626) and no state of calls. What it must know later, it writes into the messages, with
//! a keyed hash of the fleet's secret: the flow and the node in Record-Route and Path ([`route_value`]), the way back in the branch of its
//! Via ([`sip_transport::edge_branch`]). Several edges with the same secret and the same nodes decide alike.
//!
//! [`Edge`] is the [`Node`](sip_transport::Node) of one worker. `request.rs` shows the path of a request, `response.rs` that of a response.

mod edge;
mod health;
mod members;
mod metrics;
mod own_response;
mod own_uris;
mod probes;
mod request;
mod response;
pub mod route_value;
mod unanswered;

pub use edge::{Control, Edge, EdgeOptions, Question, Settings, Shared};
pub use health::{Health, NodeState};
pub use members::{Member, Members, MembersError};
pub use metrics::{DROPS, DropReason, EdgeMetrics};
pub use unanswered::Unanswered;
