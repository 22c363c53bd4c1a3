//! Bounds and deadlines of connections.

use super::policy::SharedPeerPolicy;
use crate::tls::SharedTls;
use sip_transport::Time;
use std::net::IpAddr;
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

/// Decides which peers may connect at all. Asked for every connection that is accepted, by any worker: it must not wait.
pub trait Admission: std::fmt::Debug + Send + Sync {
    /// Whether this address may connect.
    fn admits(&self, peer: IpAddr, now: Time) -> bool;
}

/// A connection whose peer never proves itself lasts so many times [`StreamOptions::unproven_timeout`] at most, whatever it sends.
pub const UNPROVEN_LIVES: u32 = 8;

/// Bounds and deadlines of stream connections; every one has a default.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Connections of all workers together. Default 200,000.
    pub max_connections: usize,
    /// How many of them only connections that we open, and those of trusted peers, may take. Default 0.
    pub kept_for_opening: usize,
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
    /// Octets that may wait for all peers of all workers. Each worker has an equal share, and what waits for unproven peers may fill
    /// three quarters of it. Default 256 MiB.
    pub max_queued: usize,
    /// Octets that the beginnings of messages may take in all connections of all workers. Each worker has an equal share. Beyond it the
    /// connection whose message has been incomplete for longest is closed, an unproven one first. Default 128 MiB.
    pub max_partial: usize,
    /// Octets that the accepted connections of one address may hold, in both directions and over all workers; IPv6 addresses count by
    /// their first 64 bits. Default 4 MiB.
    pub max_held_per_peer: usize,
    /// We are the phones: each listener opens connections of its own, over WS and WSS too (it asks for `/` at the address), and
    /// does not use those that others opened to it. Default: a server, which opens one connection to an address for all.
    pub is_client: bool,
    /// Who is trusted, and whose pages may open a WebSocket. Default: no peer is trusted, and only pages of the same host may connect.
    pub policy: Arc<SharedPeerPolicy>,
    /// Whose claim to be reached over its connection under the port of its Via is believed (RFC 5923). Default: certified peers.
    pub aliases: Aliases,
    /// Who may connect at all; not used behind a load balancer. `None` (the default): all peers may.
    pub admission: Option<Arc<dyn Admission>>,
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
    /// How long an accepted connection may go without a message until its peer is proven ([`Output::proven`]), and a
    /// [`UNPROVEN_LIVES`]th of the time that it may last until then. Keep-alives do not count. `None` (the default): all peers are
    /// proven.
    ///
    /// [`Output::proven`]: sip_transport::Output::proven
    pub unproven_timeout: Option<Duration>,
    /// After how much silence the kernel asks whether the peer is still there. Default 2 min.
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
