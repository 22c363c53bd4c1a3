//! SIP transport (RFC 3261 section 18), sans-IO: time, flows, listeners, target selection (RFC 3263), and [`Node`],
//! the one interface between the protocol and the runtime. What surrounds SIP on the wire has modules of its
//! own: WebSocket, STUN, the PROXY protocol.

pub mod proxy_protocol;
pub mod stun;
pub mod websocket;

pub mod selection;

mod flow;
mod node;
mod time;
mod via;

pub use flow::{ConnectionId, Flow, Listener, ListenerId, Protocol};
pub use node::{Errand, HandOver, Node, Outgoing, Output};
pub use time::Time;
pub use via::response_flow;
