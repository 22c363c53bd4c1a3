//! One TLS session, either side: what comes from the socket goes in, what goes to the socket comes out.

use super::context::{TlsAcceptor, TlsConnector};
use super::error::{PlainText, TlsError};
use super::identities::PeerIdentities;
use super::records::{Step, close_notify, encrypt, step};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion};

/// First octet of a record with a handshake message (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// First octet of a record with an alert: how a server may answer the first message.
const ALERT: u8 = 21;
/// Capacity beyond its content that the cut record may keep, in bytes.
const SLACK: usize = 512;

/// What some octets of ciphertext brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Octets appended to the plaintext. Never more than octets of ciphertext came in since the last record ended.
    pub plaintext: usize,
    /// The handshake ended: [`TlsSession::send`] may be called, and the peer's identities are known.
    pub established: bool,
    /// The peer will send nothing more (`close_notify`).
    pub closed: bool,
}

/// A TLS session without its socket.
///
/// After each call that may have produced output ([`accept`](Self::accept) does not) ask [`take_output`](Self::take_output) for what is
/// to be sent, also where the call failed: it then holds the alert, and is the last that the peer should get.
pub struct TlsSession {
    side: Side,
    /// Ciphertext whose record, or handshake message, is not complete. Without any it owns no memory.
    incomplete: Vec<u8>,
    /// Handshake messages, tickets and alerts to be sent. Without any it owns no memory.
    output: Vec<u8>,
    identities: Option<Box<PeerIdentities>>,
    /// Why it failed: for whoever goes on all the same.
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
    /// The server's side of a new connection.
    ///
    /// # Errors
    /// [`TlsError::Ours`].
    pub fn accept(acceptor: &TlsAcceptor) -> Result<Self, TlsError> {
        let connection = UnbufferedServerConnection::new(acceptor.config())?;
        Ok(Self::new(Side::Server(Box::new(connection))))
    }

    /// The client's side of a new connection; its first message is output already. `name` is whom the server must prove to be: the domain
    /// of the URI that led to it (RFC 5922 section 7.3), not a name that DNS made of it; or an address.
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

    /// Takes what came from the socket, cut anywhere, and appends what it says to `plaintext`. The ciphertext is decrypted where it lies:
    /// afterwards it means nothing.
    ///
    /// # Errors
    /// Whose fault it is; the session is over then. Plaintext that came before is in `plaintext` all the same.
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

    /// Encrypts what is to be sent and appends it to `ciphertext`, after whatever output there was.
    ///
    /// # Errors
    /// [`TlsError::Ours`]: the handshake has not ended, or this side has closed the session, or it failed.
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

    /// Appends to `ciphertext` what the protocol itself has to say, and forgets it.
    pub fn take_output(&mut self, ciphertext: &mut Vec<u8>) {
        ciphertext.extend_from_slice(&self.output);
        self.output = Vec::new();
    }

    /// Whether [`take_output`](Self::take_output) has something.
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Ends this side: the peer learns that nothing was cut off (`close_notify`). Nothing is said after a failure, of which it knows, nor
    /// before the handshake has ended.
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

    /// Whether part of a record is kept.
    pub const fn is_in_record(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Bytes of memory that the part of a record takes, and what waits to be sent.
    pub const fn kept(&self) -> usize {
        self.incomplete.capacity() + self.output.capacity()
    }

    /// Whether the handshake goes on.
    pub const fn is_handshaking(&self) -> bool {
        !self.established
    }

    /// Who the peer is by its certificate (RFC 5922 section 7.1). `None` before the handshake has ended, and where the peer has shown none.
    pub fn peer_identities(&self) -> Option<&PeerIdentities> {
        self.identities.as_deref()
    }

    /// Whether the handshake took up an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What is spoken, as operators write it; empty before it is known.
    pub fn version(&self) -> &'static str {
        match self.common().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            _ => "",
        }
    }

    /// A peer that does not speak TLS is known by its first octet.
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

    /// Processes as many records as are complete. Returns how many octets of `input` are done with.
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

    /// Moves what is queued into the output. The protocol looks for input only when nothing is queued, so it needs none here.
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
