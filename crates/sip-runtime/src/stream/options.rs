//! Limits and timeouts of connections.

use super::policy::SharedPeerPolicy;
use crate::tls::SharedTls;
use sip_transport::Time;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Which peers may register an alias: the port in a Via with `alias`, under which requests are sent over the connection that the
/// peer opened (RFC 5923).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliases {
    /// No peer.
    None,
    /// Peers with a certificate that we trust.
    Certified,
    /// Every peer. A peer may then take over requests that are meant for others at its address.
    All,
}

/// Decides which peers may connect. Every worker calls it for each accepted connection, so it must not block.
pub trait Admission: std::fmt::Debug + Send + Sync {
    /// Whether this address may connect.
    fn admits(&self, peer: IpAddr, now: Time) -> bool;
}

/// A connection with an unproven peer lasts at most this many times [`StreamOptions::unproven_timeout`], whatever the peer sends.
pub const UNPROVEN_LIFETIME_FACTOR: u32 = 8;

/// Limits and timeouts of stream connections. Each has a default.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Connections of all workers together. Default 200,000.
    pub max_connections: usize,
    /// How many of them are reserved for connections that we open and for those of trusted peers. Default 0.
    pub kept_for_opening: usize,
    /// Connections from one address, across all workers. IPv6 addresses count by their first 64 bits. Default 10,000.
    pub max_per_peer: u32,
    /// Bytes of a message's start line and header fields. Default 32 KiB. Header and body together should not exceed what the
    /// parser accepts, 256 KiB: longer messages are dropped.
    pub max_header: usize,
    /// Bytes of a message's body. Default 64 KiB.
    pub max_body: usize,
    /// Bytes that may be queued for the peer of one connection. Default 256 KiB.
    pub max_queue: usize,
    /// Bytes that may be queued for all peers of all workers. Each worker has an equal share. Output for unproven peers may use
    /// three quarters of it. Default 256 MiB.
    pub max_queued: usize,
    /// Bytes that incomplete messages may take in all connections of all workers. Each worker has an equal share. Above the
    /// limit, the connection whose message has been incomplete for longest is closed, unproven peers first. Default 128 MiB.
    pub max_partial: usize,
    /// Bytes that the accepted connections of one address may hold, in both directions and across all workers. IPv6 addresses
    /// count by their first 64 bits. Default 4 MiB.
    pub max_held_per_peer: usize,
    /// Whether this side acts as SIP phones instead of as a server. Then each listener opens its own connections, including WS
    /// and WSS (with the path `/` at the address), and does not use connections that others opened to it. Default false: a
    /// server, which opens one connection per address and shares it.
    pub is_client: bool,
    /// Trusted peers, and the origins whose pages may open a WebSocket. Default: no peer is trusted, and only pages of the same
    /// host may connect.
    pub policy: Arc<SharedPeerPolicy>,
    /// Which peers may ask to be reached over their connection under the port of their Via (RFC 5923). Default: certified peers.
    pub aliases: Aliases,
    /// Decides which peers may connect. It is not used behind a load balancer. `None`, the default: all peers may connect.
    pub admission: Option<Arc<dyn Admission>>,
    /// The TLS context. `None`, the default: TLS listeners are not possible.
    pub tls: Option<Arc<SharedTls>>,
    /// How long a connection may take to open, complete the handshake and write the data queued for it. Default 5 s.
    pub open_timeout: Duration,
    /// How long an accepted connection may wait for its first message. Default 30 s.
    pub silent_timeout: Duration,
    /// How long a message may take from its first byte to its last. Default 10 s.
    pub message_timeout: Duration,
    /// How long queued data may wait without the peer reading any of it. Default 10 s.
    pub write_timeout: Duration,
    /// How long a connection may be idle. Default 3 h.
    pub idle_timeout: Duration,
    /// How long an accepted connection may stay without a message while its peer is unproven ([`Output::proven`]). Such a connection
    /// may last [`UNPROVEN_LIFETIME_FACTOR`] times as long in total. Keep-alives do not count. `None`, the default: all peers are proven.
    ///
    /// [`Output::proven`]: sip_transport::Output::proven
    pub unproven_timeout: Option<Duration>,
    /// Silence after which the kernel sends TCP keep-alive probes. Default 2 min.
    pub keep_alive: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            max_connections: 200_000,
            kept_for_opening: 0,
            max_per_peer: 10_000,
            max_header: 32 << 10,
            max_body: 64 << 10,
            max_queue: 256 << 10,
            max_queued: 256 << 20,
            max_partial: 128 << 20,
            max_held_per_peer: 4 << 20,
            is_client: false,
            policy: Arc::default(),
            aliases: Aliases::Certified,
            admission: None,
            tls: None,
            open_timeout: Duration::from_secs(5),
            silent_timeout: Duration::from_secs(30),
            message_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(3 * 3_600),
            unproven_timeout: None,
            keep_alive: Duration::from_secs(120),
        }
    }
}
