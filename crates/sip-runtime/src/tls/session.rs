//! One TLS session, client or server, without I/O: bytes from the socket go in, bytes for the socket come out.

use super::context::{TlsAcceptor, TlsConnector};
use super::error::{PlainText, TlsError};
use super::identities::PeerIdentities;
use super::records::{Step, close_notify, encrypt, step};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion};

/// First byte of a handshake record (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// First byte of an alert record. A server may answer the first message with one.
const ALERT: u8 = 21;
/// Unused capacity that the buffer of an incomplete record may keep, in bytes.
const SLACK: usize = 512;

/// The result of processing ciphertext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes appended to the plaintext. Never more than the bytes of ciphertext received since the last record ended.
    pub plaintext: usize,
    /// The handshake is complete: [`TlsSession::send`] may be called, and the peer's identities are known.
    pub established: bool,
    /// The peer will send nothing more (`close_notify`).
    pub closed: bool,
}

/// A TLS session without its socket.
///
/// After each call that may have produced output ([`accept`](Self::accept) does not), call [`take_output`](Self::take_output) and
/// send the result. Do so even if the call failed: the output then contains the alert, the last bytes that the peer should get.
pub struct TlsSession {
    side: Side,
    /// Ciphertext of an incomplete record or handshake message. If there is none, it owns no memory.
    incomplete: Vec<u8>,
    /// Handshake messages, tickets and alerts to send. If there are none, it owns no memory.
    output: Vec<u8>,
    identities: Option<Box<PeerIdentities>>,
    /// Why the session failed. Later calls return the same error.
    failed: Option<Box<TlsError>>,
    began: bool,
    established: bool,
    closed: bool,
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl TlsSession {
    /// The server side of a new connection.
    ///
    /// # Errors
    /// [`TlsError::Ours`].
    pub fn accept(acceptor: &TlsAcceptor) -> Result<Self, TlsError> {
        let connection = UnbufferedServerConnection::new(acceptor.config())?;
        Ok(Self::new(Side::Server(Box::new(connection))))
    }

    /// The client side of a new connection. Its first message is already in the output. `name` is the identity that the server must
    /// prove: an address, or the domain of the URI that led to it (RFC 5922 section 7.3), not a name that DNS resolution returned.
    ///
    /// # Errors
    /// [`TlsError::ServerName`], [`TlsError::Ours`].
    pub fn connect(connector: &TlsConnector, name: &str) -> Result<Self, TlsError> {
        let server = ServerName::try_from(name.trim_matches(['[', ']']).to_owned())
            .map_err(|_| TlsError::ServerName(name.into()))?;
        let connection = UnbufferedClientConnection::new(connector.config(), server)?;
        let mut session = Self::new(Side::Client(Box::new(connection)));
        session.run(&mut [], &mut Vec::new())?;
        Ok(session)
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            incomplete: Vec::new(),
            output: Vec::new(),
            identities: None,
            failed: None,
            began: false,
            established: false,
            closed: false,
        }
    }

    /// Processes ciphertext, which may be cut at any byte, and appends the decrypted data to `plaintext`. The ciphertext is
    /// decrypted in place, so its content is undefined afterwards.
    ///
    /// # Errors
    /// The error says which side caused it, and the session is over. Data that was decrypted before the error is still in `plaintext`.
    pub fn receive(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        if let Some(failed) = &self.failed {
            return Err(TlsError::clone(failed));
        }
        self.look_at_first(ciphertext)?;
        let before = plaintext.len();
        let was_established = self.established;
        let result = if self.incomplete.is_empty() {
            self.run(ciphertext, plaintext).map(|used| {
                let rest = ciphertext.get(used..).unwrap_or_default();
                self.incomplete = rest.to_vec();
            })
        } else {
            let mut all = std::mem::take(&mut self.incomplete);
            all.extend_from_slice(ciphertext);
            self.run(&mut all, plaintext).map(|used| {
                all.drain(..used);
                if all.capacity() > all.len() + SLACK || all.is_empty() {
                    all.shrink_to_fit();
                }
                self.incomplete = all;
            })
        };
        result.inspect_err(|error| self.failed = Some(Box::new(error.clone())))?;
        Ok(Received {
            plaintext: plaintext.len() - before,
            established: self.established && !was_established,
            closed: self.closed,
        })
    }

    /// Encrypts data and appends it to `ciphertext`, after any pending output.
    ///
    /// # Errors
    /// [`TlsError::Ours`] if the handshake is not complete, this side has closed the session, or it has failed.
    pub fn send(&mut self, plaintext: &[u8], ciphertext: &mut Vec<u8>) -> Result<(), TlsError> {
        if let Some(failed) = &self.failed {
            return Err(TlsError::clone(failed));
        }
        if !self.established {
            return Err(TlsError::Ours(Error::HandshakeNotComplete));
        }
        self.take_output(ciphertext);
        let sent = match &mut self.side {
            Side::Server(connection) => encrypt(
                connection.process_tls_records(&mut self.incomplete),
                plaintext,
                ciphertext,
            ),
            Side::Client(connection) => encrypt(
                connection.process_tls_records(&mut self.incomplete),
                plaintext,
                ciphertext,
            ),
        };
        sent.map_err(TlsError::from)
    }

    /// Moves the pending output of the protocol itself to the end of `ciphertext`.
    pub fn take_output(&mut self, ciphertext: &mut Vec<u8>) {
        ciphertext.extend_from_slice(&self.output);
        self.output = Vec::new();
    }

    /// Whether [`take_output`](Self::take_output) would return anything.
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Closes this side with `close_notify`, which tells the peer that nothing was truncated. Nothing is sent after a failure,
    /// which the peer knows about, or before the handshake is complete.
    pub fn close(&mut self, ciphertext: &mut Vec<u8>) {
        self.take_output(ciphertext);
        if self.failed.is_none() && self.established {
            let input = &mut self.incomplete;
            let said = match &mut self.side {
                Side::Server(connection) => {
                    close_notify(connection.process_tls_records(input), ciphertext)
                }
                Side::Client(connection) => {
                    close_notify(connection.process_tls_records(input), ciphertext)
                }
            };
            let over = said
                .err()
                .unwrap_or_else(|| Error::General("the session is closed".to_owned()));
            self.failed = Some(Box::new(TlsError::Ours(over)));
        }
    }

    /// Whether an incomplete record is buffered.
    pub const fn is_in_record(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Memory of the incomplete record and the pending output, in bytes.
    pub const fn kept(&self) -> usize {
        self.incomplete.capacity() + self.output.capacity()
    }

    /// Whether the handshake is still in progress.
    pub const fn is_handshaking(&self) -> bool {
        !self.established
    }

    /// The identities in the peer's certificate (RFC 5922 section 7.1). `None` before the handshake is complete, or if the peer
    /// sent no certificate.
    pub fn peer_identities(&self) -> Option<&PeerIdentities> {
        self.identities.as_deref()
    }

    /// Whether the handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The protocol version for display, such as `1.3`. Empty while it is unknown.
    pub fn version(&self) -> &'static str {
        match self.common().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            _ => "",
        }
    }

    /// Detects a peer that does not use TLS by its first byte.
    fn look_at_first(&mut self, ciphertext: &[u8]) -> Result<(), TlsError> {
        let Some(first) = ciphertext.first().filter(|_| !self.began) else {
            return Ok(());
        };
        self.began = true;
        let is_tls = match self.side {
            Side::Server(_) => *first == HANDSHAKE,
            Side::Client(_) => matches!(*first, HANDSHAKE | ALERT),
        };
        if is_tls {
            return Ok(());
        }
        let is_text = first.is_ascii_graphic() || first.is_ascii_whitespace();
        let error = TlsError::NotTls(if is_text {
            PlainText::Text
        } else {
            PlainText::Octet(*first)
        });
        self.failed = Some(Box::new(error.clone()));
        Err(error)
    }

    /// Processes all complete records. Returns how many bytes of `input` were consumed.
    fn run(&mut self, input: &mut [u8], plaintext: &mut Vec<u8>) -> Result<usize, TlsError> {
        let mut used = 0;
        loop {
            let rest = input.get_mut(used..).unwrap_or_default();
            let (done, step) = self.step(rest, plaintext);
            used += done;
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Closed) => self.closed = true,
                Ok(Step::Idle) => break,
                Err(error) => {
                    self.flush();
                    return Err(error.into());
                }
            }
        }
        if !self.established && !self.common().is_handshaking() {
            self.established = true;
            let shown = self.common().peer_certificates();
            let first = shown.and_then(<[_]>::first);
            self.identities = first
                .and_then(|certificate| PeerIdentities::of(certificate))
                .map(Box::new);
        }
        Ok(used)
    }

    fn step(&mut self, input: &mut [u8], plaintext: &mut Vec<u8>) -> (usize, Result<Step, Error>) {
        let output = &mut self.output;
        match &mut self.side {
            Side::Server(connection) => {
                step(connection.process_tls_records(input), plaintext, output)
            }
            Side::Client(connection) => {
                step(connection.process_tls_records(input), plaintext, output)
            }
        }
    }

    /// Moves queued data into the output. rustls reads input only when nothing is queued, so no input is needed here.
    fn flush(&mut self) {
        while self.common().wants_write() {
            if let (_, Err(_)) = self.step(&mut [], &mut Vec::new()) {
                break;
            }
        }
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = match self.side {
            Side::Server(_) => "server",
            Side::Client(_) => "client",
        };
        formatter
            .debug_struct("TlsSession")
            .field("side", &side)
            .field("established", &self.established)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
