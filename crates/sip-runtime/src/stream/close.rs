//! Why connections end and why some never begin.

use sip_message::FrameError;
use sip_transport::websocket;

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it.
    ByPeer,
    /// The peer reset it, or the network failed.
    Failed,
    /// It could not be opened: refused, or no route.
    NotOpened,
    /// It was not open in time, handshake included.
    OpenTimeout,
    /// No message came after it was accepted.
    Silent,
    /// A message began and did not end in time.
    HalfMessage,
    /// The peer read nothing of what waited for it.
    NotReading,
    /// Nothing happened for long.
    Idle,
    /// The peer did not prove in time that it is more than a stranger.
    Unproven,
    /// What came is not SIP.
    NotSip,
    /// A message was longer than allowed.
    TooLong,
    /// A message without a usable Content-Length: nobody knows where the next one begins.
    BadLength,
    /// Plain text, or noise, where TLS is spoken.
    NotTls,
    /// The TLS handshake failed, or a record was bad.
    TlsFailed,
    /// The request for a WebSocket was refused.
    BadUpgrade,
    /// A WebSocket frame that breaks the rules.
    BadFrame,
    /// No PROXY protocol header where one is expected.
    BadProxyHeader,
    /// A balancer said who the peer is, which has as many connections as it may.
    PeerLimit,
    /// Beginnings of messages, or what waited for peers to read, took more memory than its peer, or all peers, may have.
    Memory,
    /// There was no seat left, and a newcomer got that of this one, whose peer had proved nothing.
    Displaced,
    /// A page of a foreign origin asked for a WebSocket.
    ForeignOrigin,
    /// The node had no more use for it.
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

    /// The word in metrics.
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
    /// Its peer has as many as it may.
    PeerLimit,
    /// The process has as many as it may.
    TableFull,
    /// The process has no descriptor left.
    NoDescriptor,
    /// [`Admission`](super::Admission) says no.
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

    /// The word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PeerLimit => "peer_limit",
            Self::TableFull => "table_full",
            Self::NoDescriptor => "no_descriptor",
            Self::Banned => "banned",
        }
    }
}
