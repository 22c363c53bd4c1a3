//! Connections: messages in streams, and peers that are slow, silent, greedy or send nonsense.

#[path = "../../tls/authority.rs"]
mod authority;
mod bad_peers;
mod balancer;
mod connecting;
mod leaving;
mod memory;
mod messages;
mod peer;
mod seats;
mod secure_peer;
mod strangers;
pub mod switch;
mod tls;
mod tls_outgoing;
mod websocket;
mod websocket_outgoing;
