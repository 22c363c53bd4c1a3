//! Why a WebSocket is closed (RFC 6455 section 7.4).

/// The status code of a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection has been fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server is going down, or the page was left.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// Data that does not belong to its type, such as a reason that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// What the peer sent breaks a rule of the server that has no code of its own.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// A message is longer than the receiver takes.
    pub const TOO_BIG: Self = Self(1009);
    /// The server cannot go on.
    pub const INTERNAL_ERROR: Self = Self(1011);

    /// A code that may be sent: those of the RFC, those registered since, those for libraries and applications.
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}
