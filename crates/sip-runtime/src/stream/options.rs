//! Bounds and deadlines of connections.

use crate::tls::SharedTls;
use std::sync::Arc;
use std::time::Duration;

/// Who may say with `alias` in its Via that requests to its address and that port take the connection it opened (RFC 5923).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliases {
    /// Nobody.
    Nobody,
    /// Peers that have shown a certificate that we trust.
    Certified,
    /// Everybody. A peer may take over what is meant for others that share its address.
    Everybody,
}

/// Bounds and deadlines of stream connections; every one has a default.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Connections that a worker may have. Default 200,000.
    pub max_connections: usize,
    /// Connections that may come from one address, over all workers; IPv6 addresses count by their first 64 bits. Default
    /// 10,000.
    pub max_per_peer: u32,
    /// Octets of a message's start line and header fields. Default 32 KiB. With the body it should be no more than a message is
    /// parsed with, 256 KiB: what is longer is dropped.
    pub max_header: usize,
    /// Octets of its body. Default 64 KiB.
    pub max_body: usize,
    /// Octets that may wait for one connection's peer to read. Default 256 KiB.
    pub max_queue: usize,
    /// Octets that may wait for all peers of a worker. Default 256 MiB.
    pub max_queued: usize,
    /// We are the phones: each listener opens connections of its own, over WS and WSS too (it asks for `/` at the address), and
    /// does not use those that others opened to it. Default: a server, which opens one connection to an address for all.
    pub is_client: bool,
    /// Origins whose pages may open a WebSocket, such as `https://phone.example.org`. None (the default): all may.
    pub origins: Vec<String>,
    /// Whose claim to be reached over its connection under the port of its Via is believed (RFC 5923). Default: certified peers.
    pub aliases: Aliases,
    /// What TLS is spoken with. `None` (the default): there can be no TLS listeners.
    pub tls: Option<Arc<SharedTls>>,
    /// How long a connection may take to be opened, shake hands and write what waited for it. Default 5 s.
    pub open_timeout: Duration,
    /// How long an accepted connection may take to its first message. Default 30 s.
    pub silent_timeout: Duration,
    /// How long a message may take from its first octet to its last. Default 10 s.
    pub message_timeout: Duration,
    /// How long a peer may take to read anything of what waits for it. Default 10 s.
    pub write_timeout: Duration,
    /// How long a connection may be idle. Default 3 h.
    pub idle_timeout: Duration,
    /// After how much silence the kernel asks whether the peer is still there. Default 2 min.
    pub keep_alive: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            max_connections: 200_000,
            max_per_peer: 10_000,
            max_header: 32 << 10,
            max_body: 64 << 10,
            max_queue: 256 << 10,
            max_queued: 256 << 20,
            is_client: false,
            origins: Vec::new(),
            aliases: Aliases::Certified,
            tls: None,
            open_timeout: Duration::from_secs(5),
            silent_timeout: Duration::from_secs(30),
            message_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(3 * 3_600),
            keep_alive: Duration::from_secs(120),
        }
    }
}
