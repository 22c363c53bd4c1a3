//! Connections: messages in streams, and whoever is slow, silent, greedy or talks nonsense.

mod bad_peers;
mod connecting;
mod messages;
mod peer;
mod switch;
