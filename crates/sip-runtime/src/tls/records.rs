//! Performs the steps of rustls' unbuffered interface: decrypts and encrypts records and provides the buffers.

use rustls::Error;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

/// The result of one step of the protocol.
pub(super) enum Step {
    /// There may be more to do.
    Again,
    /// The peer has closed its side.
    Closed,
    /// Nothing more to do without more input.
    Idle,
}

/// Performs one step. Returns how much input was consumed.
pub(super) fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let mut used = status.discard;
    let step = status.state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                used += record.discard;
                plaintext.extend_from_slice(record.payload);
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(mut message) => {
            append(output, |room| message.encode(room)).map(|()| Step::Again)
        }
        ConnectionState::TransmitTlsData(message) => {
            message.done();
            Ok(Step::Again)
        }
        ConnectionState::PeerClosed => Ok(Step::Closed),
        ConnectionState::BlockedHandshake
        | ConnectionState::WriteTraffic(_)
        | ConnectionState::Closed => Ok(Step::Idle),
        _ => Err(Error::General(
            "early data, which is never offered".to_owned(),
        )),
    });
    (used, step)
}

/// Encrypts in the one state that allows it. Every established session is in it once its input and output are processed.
pub(super) fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: &[u8],
    ciphertext: &mut Vec<u8>,
) -> Result<(), Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => {
            append(ciphertext, |room| traffic.encrypt(plaintext, room))
        }
        _ => Err(Error::HandshakeNotComplete),
    }
}

/// Writes `close_notify`, in the same state.
pub(super) fn close_notify<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    ciphertext: &mut Vec<u8>,
) -> Result<(), Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => {
            append(ciphertext, |room| traffic.queue_close_notify(room))
        }
        _ => Ok(()),
    }
}

/// Lets rustls write to the end of a buffer, which grows by the size that rustls requests.
fn append<E: RoomWanted>(
    buffer: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<(), Error> {
    let end = buffer.len();
    let wanted = match write(&mut []) {
        Ok(_) => return Ok(()),
        Err(error) => error.room()?,
    };
    buffer.resize(end + wanted, 0);
    let written = write(buffer.get_mut(end..).unwrap_or_default());
    let written = written.map_err(|_| Error::EncryptError);
    buffer.truncate(end + written.as_ref().map_or(0, |written| *written));
    written.map(|_| ())
}

/// An error that may only say how much room is needed.
trait RoomWanted {
    /// The size needed in bytes, or the actual error.
    fn room(&self) -> Result<usize, Error>;
}

impl RoomWanted for EncodeError {
    fn room(&self) -> Result<usize, Error> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Ok(*required_size),
            Self::AlreadyEncoded => Err(Error::General(self.to_string())),
        }
    }
}

impl RoomWanted for EncryptError {
    fn room(&self) -> Result<usize, Error> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Ok(*required_size),
            Self::EncryptExhausted => Err(Error::EncryptError),
        }
    }
}
