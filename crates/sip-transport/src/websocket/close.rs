//! WebSocket close codes (RFC 6455 section 7.4).

/// The status code of a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The connection has fulfilled its purpose.
    pub const NORMAL: Self = Self(1000);
    /// The server is shutting down, or the user left the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// The payload does not match its type, such as a reason that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// The peer violated a policy of the server that has no code of its own.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// The message is longer than the receiver accepts.
    pub const TOO_BIG: Self = Self(1009);
    /// The server encountered an internal error.
    pub const INTERNAL_ERROR: Self = Self(1011);

    /// Creates a code that may be sent: one of the RFC, one registered since, or one for libraries and applications.
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// The numeric code.
    pub const fn number(self) -> u16 {
        self.0
    }
}
