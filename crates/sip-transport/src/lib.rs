//! SIP transport (RFC 3261 section 18), sans-IO: time, flows, listeners, target selection (RFC 3263), and [`Node`], the interface
//! between the protocol and the runtime. WebSocket, STUN and the PROXY protocol have modules of their own.

pub mod overload;
pub mod proxy_protocol;
pub mod stun;
pub mod websocket;

pub mod selection;

pub mod edge_branch;
pub mod edge_probe;
pub mod flow_token;

mod counter;
mod flow;
mod networks;
mod node;
mod slab;
mod time;
mod via;

pub use ipnet::IpNet;

pub use counter::Counter;
pub use flow::{ConnectionId, Flow, Listener, ListenerId, Protocol};
pub use networks::Networks;
pub use node::{HandOver, HandOverKind, Input, Node, Outgoing, Output, Received, Undelivered};
pub use slab::{Slab, SlabId, Tenant};
pub use time::Time;
pub use via::response_flow;
