//! Frames (RFC 6455 section 5.2): reading headers and writing frames.
use super::close::CloseCode;
use super::decoder::FrameError;
use super::mask;

/// The two ends of a WebSocket. Clients mask the frames that they send, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted the connection.
    Server,
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of RFC 6455 section 11.8")]
#[repr(u8)]
pub enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xa,
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0x0 => Some(Self::Continuation),
            0x1 => Some(Self::Text),
            0x2 => Some(Self::Binary),
            0x8 => Some(Self::Close),
            0x9 => Some(Self::Ping),
            0xa => Some(Self::Pong),
            _ => None,
        }
    }

    /// Whether this is Close, Ping or Pong: short, never fragmented, and allowed between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// The longest payload of a control frame, in bytes.
pub(super) const MAX_CONTROL: usize = 125;

/// Marks the last fragment of a message.
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Values in the second byte that mean: the next two or eight bytes hold the length.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// The header of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    pub(super) length: u64,
    pub(super) mask: Option<[u8; 4]>,
    /// Length of the header in bytes; `None` if the masking key is incomplete.
    pub(super) header: Option<usize>,
}

impl Received {
    /// Reads the header at the beginning of `buffered`; `None` if its length is incomplete. The first two bytes and the length
    /// are enough to reject a frame. `sender` determines whether there must be a mask.
    pub(super) fn read(buffered: &[u8], sender: Role) -> Result<Option<Self>, FrameError> {
        let Some(([first, second], rest)) = buffered.split_first_chunk::<2>() else {
            return Ok(None);
        };
        let opcode = Opcode::from_bits(first & 0x0f).ok_or(FrameError::Opcode)?;
        let is_final = first & FIN != 0;
        let is_masked = second & MASKED != 0;
        if first & RESERVED != 0 {
            return Err(FrameError::ReservedBits);
        }
        if is_masked != (sender == Role::Client) {
            return Err(FrameError::Mask);
        }
        let short = second & !MASKED;
        if opcode.is_control() && (!is_final || usize::from(short) > MAX_CONTROL) {
            return Err(FrameError::Control);
        }
        let Some((length, size)) = read_length(short, rest)? else {
            return Ok(None);
        };
        let key = rest.get(size..).and_then(<[u8]>::first_chunk::<4>).copied();
        let mask = key.filter(|_| is_masked);
        let header = if is_masked {
            mask.map(|_| 2 + size + 4)
        } else {
            Some(2 + size)
        };
        Ok(Some(Self {
            is_final,
            opcode,
            length,
            mask,
            header,
        }))
    }
}

/// The length of a payload, and how many bytes after the first two encode it. It must be in its shortest form.
fn read_length(short: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, FrameError> {
    let (length, size, least) = match short {
        LENGTH_16 => match rest.first_chunk::<2>() {
            Some(octets) => (u64::from(u16::from_be_bytes(*octets)), 2, 126),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.first_chunk::<8>() {
            Some(octets) => (u64::from_be_bytes(*octets), 8, 0x1_0000),
            None => return Ok(None),
        },
        short => (u64::from(short), 0, 0),
    };
    if length < least || length > u64::MAX >> 1 {
        return Err(FrameError::Length);
    }
    Ok(Some((length, size)))
}

/// The header of a complete (unfragmented) frame to send. Use it if the payload is in another buffer, to write both at once.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    octets: [u8; 14],
    length: usize,
}

impl FrameHeader {
    /// Creates a header for a payload of this many bytes. Clients pass the masking key. The payload is not masked here.
    pub fn new(opcode: Opcode, payload: usize, mask: Option<[u8; 4]>) -> Self {
        let mut header = Self {
            octets: [0; 14],
            length: 0,
        };
        let mask_bit = if mask.is_some() { MASKED } else { 0 };
        header.push(&[FIN | opcode as u8]);
        match (u8::try_from(payload), u16::try_from(payload)) {
            (Ok(length @ ..LENGTH_16), _) => header.push(&[mask_bit | length]),
            (_, Ok(length)) => {
                header.push(&[mask_bit | LENGTH_16]);
                header.push(&length.to_be_bytes());
            }
            _ => {
                header.push(&[mask_bit | LENGTH_64]);
                header.push(&(payload as u64).to_be_bytes());
            }
        }
        if let Some(key) = mask {
            header.push(&key);
        }
        header
    }

    /// Its bytes, at most fourteen.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, octets: &[u8]) {
        for (place, octet) in self.octets.iter_mut().skip(self.length).zip(octets) {
            *place = *octet;
        }
        self.length += octets.len();
    }
}

/// Writes a complete frame. Clients pass a masking key that is random and fresh for each frame; servers pass none. The answer to
/// a Ping is a Pong with the same payload.
pub fn write_frame(into: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>) {
    let header = FrameHeader::new(opcode, payload.len(), mask);
    into.reserve(header.as_bytes().len() + payload.len());
    into.extend_from_slice(header.as_bytes());
    let start = into.len();
    into.extend_from_slice(payload);
    if let (Some(key), Some(copy)) = (mask, into.get_mut(start..)) {
        mask::apply(copy, key);
    }
}

/// Writes a SIP message: as text, or as binary if its body is not UTF-8 (RFC 7118 section 4.1 and RFC 6455 section 5.6). A
/// browser closes the connection if text is not UTF-8.
pub fn write_message(into: &mut Vec<u8>, message: &[u8], mask: Option<[u8; 4]>) {
    write_frame(into, Opcode::of_message(message), message, mask);
}

/// Writes a Close frame without a reason. The answer to a Close has the same code (RFC 6455 section 5.5.1).
pub fn write_close(into: &mut Vec<u8>, code: Option<CloseCode>, mask: Option<[u8; 4]>) {
    let number = code.map(|code| code.number().to_be_bytes());
    let payload = number.as_ref().map_or(&[][..], |number| &number[..]);
    write_frame(into, Opcode::Close, payload, mask);
}

impl Opcode {
    /// The opcode for a SIP message: text if it is UTF-8, binary otherwise.
    pub fn of_message(message: &[u8]) -> Self {
        if std::str::from_utf8(message).is_ok() {
            Self::Text
        } else {
            Self::Binary
        }
    }
}
