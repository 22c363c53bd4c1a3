//! The reasons why connections are closed or refused.

use sip_message::FrameError;
use sip_transport::websocket;

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it.
    ByPeer,
    /// The peer reset it, or the network failed.
    Failed,
    /// It could not be opened: connection refused, or no route.
    NotOpened,
    /// It was not open in time, including the handshake.
    OpenTimeout,
    /// No message arrived after it was accepted.
    Silent,
    /// A message began but did not end in time.
    HalfMessage,
    /// The peer did not read anything of the data queued for it.
    NotReading,
    /// It was idle for too long.
    Idle,
    /// The peer was not proven in time.
    Unproven,
    /// The peer sent something other than SIP.
    NotSip,
    /// A message was longer than allowed.
    TooLong,
    /// A message has no usable Content-Length, so the start of the next one is unknown.
    BadLength,
    /// The peer sent plain text or noise where TLS is required.
    NotTls,
    /// The TLS handshake failed, or a record was invalid.
    TlsFailed,
    /// The WebSocket upgrade request was rejected.
    BadUpgrade,
    /// A WebSocket frame violates the protocol.
    BadFrame,
    /// The PROXY protocol header is missing.
    BadProxyHeader,
    /// A load balancer announced a peer that already has the maximum number of connections.
    PeerLimit,
    /// Incomplete messages, or data queued for peers, took more memory than this peer or all peers together may use.
    Memory,
    /// All connection slots were in use, and this one, whose peer was unproven, made room for a new connection.
    Displaced,
    /// A page of a foreign origin requested a WebSocket.
    ForeignOrigin,
    /// The node closed it.
    ByNode,
}

impl CloseReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 22] = [
        Self::ByPeer,
        Self::Failed,
        Self::NotOpened,
        Self::OpenTimeout,
        Self::Silent,
        Self::HalfMessage,
        Self::NotReading,
        Self::Idle,
        Self::Unproven,
        Self::NotSip,
        Self::TooLong,
        Self::BadLength,
        Self::NotTls,
        Self::TlsFailed,
        Self::BadUpgrade,
        Self::BadFrame,
        Self::BadProxyHeader,
        Self::PeerLimit,
        Self::Memory,
        Self::Displaced,
        Self::ForeignOrigin,
        Self::ByNode,
    ];

    /// Its label in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ByPeer => "by_peer",
            Self::Failed => "failed",
            Self::NotOpened => "not_opened",
            Self::OpenTimeout => "open_timeout",
            Self::Silent => "silent",
            Self::HalfMessage => "half_message",
            Self::NotReading => "not_reading",
            Self::Idle => "idle",
            Self::Unproven => "unproven",
            Self::NotSip => "not_sip",
            Self::TooLong => "too_long",
            Self::BadLength => "bad_length",
            Self::NotTls => "not_tls",
            Self::TlsFailed => "tls_failed",
            Self::BadUpgrade => "bad_upgrade",
            Self::BadFrame => "bad_frame",
            Self::BadProxyHeader => "bad_proxy_header",
            Self::PeerLimit => "peer_limit",
            Self::Memory => "memory",
            Self::Displaced => "displaced",
            Self::ForeignOrigin => "foreign_origin",
            Self::ByNode => "by_node",
        }
    }
}

impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::HeaderTooLong | FrameError::BodyTooLong => Self::TooLong,
            FrameError::BadContentLength | FrameError::MissingContentLength => Self::BadLength,
            FrameError::NotSip => Self::NotSip,
        }
    }
}

impl From<websocket::FrameError> for CloseReason {
    fn from(error: websocket::FrameError) -> Self {
        match error {
            websocket::FrameError::TooBig => Self::TooLong,
            _ => Self::BadFrame,
        }
    }
}

/// Why a connection was closed as soon as it was accepted, or not opened at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// The peer already has the maximum number of connections.
    PeerLimit,
    /// The process already has the maximum number of connections.
    TableFull,
    /// The process has no descriptor left.
    NoDescriptor,
    /// [`Admission`](super::Admission) rejected the peer.
    Banned,
}

impl RefuseReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 4] = [
        Self::PeerLimit,
        Self::TableFull,
        Self::NoDescriptor,
        Self::Banned,
    ];

    /// Its label in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PeerLimit => "peer_limit",
            Self::TableFull => "table_full",
            Self::NoDescriptor => "no_descriptor",
            Self::Banned => "banned",
        }
    }
}
