//! The server's side of the opening handshake (RFC 6455 section 4.2, RFC 7118 section 4).
use super::head::{Fields, HeadScanner, MAX_FIELDS, Scan};
use super::{Origins, SUB_PROTOCOL, key};
use std::fmt;

/// The state of a server handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// Not enough bytes yet; call again when more have arrived.
    Incomplete,
    /// Accepted, and the response is written. Frames follow the request.
    Accepted {
        /// Length of the request in bytes.
        consumed: usize,
    },
    /// Refused, and the response is written. Close the connection after it.
    Refused(HandshakeError),
}

/// Why a handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "named by what is wrong; each is explained to the client"
)]
pub enum HandshakeError {
    NotHttp,
    TooLong,
    TooManyFields,
    HttpVersion,
    Method,
    Host,
    Body,
    NoUpgrade,
    NoConnectionUpgrade,
    WebSocketVersion,
    Key,
    SubProtocol,
    Origin,
}

impl HandshakeError {
    /// The HTTP status code of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::NotHttp
            | Self::Host
            | Self::Body
            | Self::NoConnectionUpgrade
            | Self::Key
            | Self::SubProtocol => 400,
            Self::Origin => 403,
            Self::Method => 405,
            Self::NoUpgrade | Self::WebSocketVersion => 426,
            Self::TooLong | Self::TooManyFields => 431,
            Self::HttpVersion => 505,
        }
    }

    const fn reason(self) -> &'static str {
        match self.status() {
            403 => "Forbidden",
            405 => "Method Not Allowed",
            426 => "Upgrade Required",
            431 => "Request Header Fields Too Large",
            505 => "HTTP Version Not Supported",
            _ => "Bad Request",
        }
    }

    /// Header fields for the status code, each with its line end.
    const fn fields(self) -> &'static str {
        match self {
            Self::Method => "Allow: GET\r\nConnection: close\r\n",
            Self::NoUpgrade => "Upgrade: websocket\r\nConnection: Upgrade, close\r\n",
            Self::WebSocketVersion => {
                "Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"
            }
            _ => "Connection: close\r\n",
        }
    }

    /// What is wrong and how to fix it, for the user of the peer.
    const fn explanation(self) -> &'static str {
        match self {
            Self::NotHttp => "This is no HTTP request; a WebSocket begins with one.",
            Self::TooLong => "The header of the request is too long.",
            Self::TooManyFields => "The request has too many header fields.",
            Self::HttpVersion => "WebSockets are opened by HTTP/1.1.",
            Self::Method => "WebSockets are opened by GET.",
            Self::Host => "The request must have one Host.",
            Self::Body => "A request that opens a WebSocket has no body.",
            Self::NoUpgrade => "This is SIP over WebSocket: ask for Upgrade: websocket.",
            Self::NoConnectionUpgrade => "Connection: Upgrade is missing.",
            Self::WebSocketVersion => "Sec-WebSocket-Version must be 13.",
            Self::Key => "The request must have one Sec-WebSocket-Key: 16 octets in base64.",
            Self::SubProtocol => "Sec-WebSocket-Protocol must offer sip.",
            Self::Origin => {
                "Pages of this origin may not connect; connections.origins in the server's configuration lists those that may."
            }
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

impl std::error::Error for HandshakeError {}

/// One opening handshake, fed incrementally.
#[derive(Clone, Debug)]
pub struct Handshake {
    head: HeadScanner,
}

impl Handshake {
    /// Creates a handshake with a limit on the request in bytes.
    pub const fn new(max_header: usize) -> Self {
        Self {
            head: HeadScanner::new(max_header),
        }
    }

    /// Reads all bytes buffered so far, and writes the response when the request is complete. Total work is linear in the length
    /// of the request.
    ///
    /// `origins` lists the pages that may connect. A client without `Origin` is not a browser. It could send any origin, so none
    /// is required (RFC 6455 section 10.2). `is_secure`: the handshake uses TLS.
    pub fn next(
        &mut self,
        buffered: &[u8],
        origins: &Origins,
        is_secure: bool,
        response: &mut Vec<u8>,
    ) -> Upgrade {
        let may_connect = |fields: Fields<'_, '_>| {
            let host = fields.only("Host").unwrap_or_default();
            let mut pages = fields.values("Origin");
            pages.all(|page| origins.admit(page, host, is_secure))
        };
        match self.judge(buffered, &may_connect) {
            Ok(None) => Upgrade::Incomplete,
            Ok(Some((consumed, accept))) => {
                write_acceptance(response, &accept);
                Upgrade::Accepted { consumed }
            }
            Err(refusal) => {
                write_refusal(response, refusal);
                Upgrade::Refused(refusal)
            }
        }
    }

    fn judge(
        &mut self,
        buffered: &[u8],
        may_connect: &dyn Fn(Fields<'_, '_>) -> bool,
    ) -> Result<Option<(usize, [u8; 28])>, HandshakeError> {
        // A TLS record or noise may never contain a line end.
        if buffered
            .first()
            .is_some_and(|octet| !octet.is_ascii_uppercase())
        {
            return Err(HandshakeError::NotHttp);
        }
        loop {
            match self
                .head
                .next(buffered)
                .map_err(|_| HandshakeError::TooLong)?
            {
                Scan::Incomplete => return Ok(None),
                Scan::StartLine(end) => {
                    let line = buffered.get(..end).unwrap_or_default();
                    parse(line, |_| Ok(()))?;
                }
                Scan::End(end) => {
                    let head = buffered.get(..end).unwrap_or_default();
                    let accept = parse(head, |request| judge_request(request, may_connect))?;
                    let accept = accept.ok_or(HandshakeError::NotHttp)?;
                    return Ok(Some((end, accept)));
                }
            }
        }
    }
}

/// Parses a complete request and returns the result of `judge`.
fn parse<T>(
    head: &[u8],
    judge: impl FnOnce(&httparse::Request<'_, '_>) -> Result<T, HandshakeError>,
) -> Result<Option<T>, HandshakeError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => judge(&request).map(Some),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(HandshakeError::TooManyFields),
        Err(httparse::Error::Version) if names_http(head) => Err(HandshakeError::HttpVersion),
        Err(_) => Err(HandshakeError::NotHttp),
    }
}

/// Whether the request line ends with an HTTP version.
fn names_http(head: &[u8]) -> bool {
    let line = head.split(|octet| *octet == b'\n').next();
    let words = line.unwrap_or_default().rsplit(|octet| *octet == b' ');
    words.take(1).any(|version| version.starts_with(b"HTTP/"))
}

/// Checks the requirements of RFC 6455 section 4.2.1 and RFC 7118, and computes `Sec-WebSocket-Accept`.
fn judge_request(
    request: &httparse::Request<'_, '_>,
    may_connect: &dyn Fn(Fields<'_, '_>) -> bool,
) -> Result<[u8; 28], HandshakeError> {
    let demand = |is_so: bool, otherwise: HandshakeError| is_so.then_some(()).ok_or(otherwise);
    let fields = Fields(request.headers);
    demand(request.version == Some(1), HandshakeError::HttpVersion)?;
    demand(request.method == Some("GET"), HandshakeError::Method)?;
    demand(fields.only("Host").is_some(), HandshakeError::Host)?;
    // A body would be mistaken for frames.
    demand(has_no_body(fields), HandshakeError::Body)?;
    demand(
        fields.lists("Upgrade", "websocket"),
        HandshakeError::NoUpgrade,
    )?;
    demand(
        fields.lists("Connection", "Upgrade"),
        HandshakeError::NoConnectionUpgrade,
    )?;
    demand(
        fields.only("Sec-WebSocket-Version") == Some(b"13"),
        HandshakeError::WebSocketVersion,
    )?;
    let key = fields
        .only("Sec-WebSocket-Key")
        .ok_or(HandshakeError::Key)?;
    demand(key::is_key(key), HandshakeError::Key)?;
    demand(
        fields
            .elements("Sec-WebSocket-Protocol")
            .any(|offered| offered == SUB_PROTOCOL.as_bytes()),
        HandshakeError::SubProtocol,
    )?;
    demand(may_connect(fields), HandshakeError::Origin)?;
    Ok(key::accept(key))
}

fn has_no_body(fields: Fields<'_, '_>) -> bool {
    !fields.has("Transfer-Encoding") && fields.values("Content-Length").all(|length| length == b"0")
}

fn write_acceptance(response: &mut Vec<u8>, accept: &[u8]) {
    response.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
    );
    response.extend_from_slice(accept);
    response.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
    response.extend_from_slice(SUB_PROTOCOL.as_bytes());
    response.extend_from_slice(b"\r\n\r\n");
}

fn write_refusal(response: &mut Vec<u8>, refusal: HandshakeError) {
    use std::io::Write as _;
    let explanation = refusal.explanation();
    // Writing to a vector cannot fail.
    let _ = write!(
        response,
        "HTTP/1.1 {} {}\r\n{}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{explanation}\n",
        refusal.status(),
        refusal.reason(),
        refusal.fields(),
        explanation.len() + 1,
    );
}
