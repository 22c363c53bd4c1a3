//! The client's side of the opening handshake (RFC 6455 section 4.1, RFC 7118 section 4).
use super::head::{Fields, HeadScanner, MAX_FIELDS, Scan};
use super::{SUB_PROTOCOL, key};
use std::fmt;

/// The state of a client handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Not enough bytes yet; call again when more have arrived.
    Incomplete,
    /// The server accepted. Frames follow the response.
    Accepted {
        /// Length of the response in bytes.
        consumed: usize,
    },
}

/// Why the handshake failed. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningError {
    /// The received data is not an HTTP response.
    NotHttp,
    /// The response is too long, or has too many header fields.
    TooLong,
    /// The server answered with this status code instead of 101.
    Status(u16),
    /// `Upgrade: websocket` or `Connection: Upgrade` is missing.
    NoUpgrade,
    /// `Sec-WebSocket-Accept` does not match the key of the request: the peer has not read the request.
    Accept,
    /// The server did not choose `sip`.
    SubProtocol,
    /// The server uses an extension that was not offered.
    Extension,
}

impl fmt::Display for OpeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp => f.write_str("no HTTP response"),
            Self::TooLong => f.write_str("response too long"),
            Self::Status(status) => write!(f, "answered with {status} and not with 101"),
            Self::NoUpgrade => f.write_str("no upgrade to websocket"),
            Self::Accept => f.write_str("Sec-WebSocket-Accept does not belong to the key"),
            Self::SubProtocol => f.write_str("sub-protocol sip not chosen"),
            Self::Extension => f.write_str("an extension that was not offered"),
        }
    }
}

impl std::error::Error for OpeningError {}

/// A host or resource that is not allowed in an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTarget;

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "host and resource are visible ASCII characters, the resource begins with a slash",
        )
    }
}

impl std::error::Error for BadTarget {}

/// The client's side of one opening handshake.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    key: [u8; 24],
    head: HeadScanner,
}

impl ClientHandshake {
    /// Creates a handshake from sixteen random bytes, fresh for each connection, and a limit on the response in bytes.
    pub fn new(nonce: [u8; 16], max_header: usize) -> Self {
        Self {
            key: key::encode_key(nonce),
            head: HeadScanner::new(max_header),
        }
    }

    /// Writes the request. `host` is `host` or `host:port`; `resource` is a path such as `/`.
    pub fn write_request(
        &self,
        request: &mut Vec<u8>,
        host: &str,
        resource: &str,
    ) -> Result<(), BadTarget> {
        let is_visible =
            |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        if !is_visible(host) || !is_visible(resource) || !resource.starts_with('/') {
            return Err(BadTarget);
        }
        for piece in [
            b"GET ",
            resource.as_bytes(),
            b" HTTP/1.1\r\nHost: ",
            host.as_bytes(),
            b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ",
            &self.key,
            b"\r\nSec-WebSocket-Protocol: ",
            SUB_PROTOCOL.as_bytes(),
            b"\r\n\r\n",
        ] {
            request.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Reads the response from all bytes buffered so far. Total work is linear in the length of the response.
    pub fn next(&mut self, buffered: &[u8]) -> Result<Opening, OpeningError> {
        loop {
            match self
                .head
                .next(buffered)
                .map_err(|_| OpeningError::TooLong)?
            {
                Scan::Incomplete => return Ok(Opening::Incomplete),
                Scan::StartLine(end) => {
                    self.parse(buffered.get(..end).unwrap_or_default())?;
                }
                Scan::End(end) => {
                    return if self.parse(buffered.get(..end).unwrap_or_default())? {
                        Ok(Opening::Accepted { consumed: end })
                    } else {
                        Err(OpeningError::NotHttp)
                    };
                }
            }
        }
    }

    /// Whether the response is complete. A complete response that is not acceptable is an error.
    fn parse(&self, head: &[u8]) -> Result<bool, OpeningError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(head) {
            Ok(httparse::Status::Complete(_)) => self.judge(&response).map(|()| true),
            Ok(httparse::Status::Partial) => Ok(false),
            Err(httparse::Error::TooManyHeaders) => Err(OpeningError::TooLong),
            Err(_) => Err(OpeningError::NotHttp),
        }
    }

    fn judge(&self, response: &httparse::Response<'_, '_>) -> Result<(), OpeningError> {
        let demand = |is_so: bool, otherwise: OpeningError| is_so.then_some(()).ok_or(otherwise);
        let fields = Fields(response.headers);
        let status = response.code.unwrap_or_default();
        demand(status == 101, OpeningError::Status(status))?;
        demand(
            fields.lists("Upgrade", "websocket") && fields.lists("Connection", "Upgrade"),
            OpeningError::NoUpgrade,
        )?;
        demand(
            fields.only("Sec-WebSocket-Accept") == Some(&key::accept(&self.key)),
            OpeningError::Accept,
        )?;
        demand(
            fields.only("Sec-WebSocket-Protocol") == Some(SUB_PROTOCOL.as_bytes()),
            OpeningError::SubProtocol,
        )?;
        demand(
            !fields.has("Sec-WebSocket-Extensions"),
            OpeningError::Extension,
        )
    }
}
