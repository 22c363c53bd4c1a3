//! Frames (RFC 6455 section 5.2): what their header says, and writing them.
use super::close::CloseCode;
use super::decoder::FrameError;
use super::mask;

/// Which end of a WebSocket somebody is: clients mask what they send, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that opened it.
    Client,
    /// The end that was connected to.
    Server,
}

/// What a frame is.
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

    /// Close, Ping or Pong: short, never fragmented, allowed between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// The longest payload of a control frame, in bytes.
pub(super) const MAX_CONTROL: usize = 125;

/// The bit that says: no fragment of this message follows.
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Lengths in the second octet that say: the length stands in the next two, the next eight octets.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// What the header of a received frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    pub(super) length: u64,
    pub(super) mask: Option<[u8; 4]>,
    /// Length of the header itself; `None`: the masking key has not arrived.
    pub(super) header: Option<usize>,
}

impl Received {
    /// Reads the header at the beginning of `buffered`; `None` where its length has not arrived. Only the first two octets, and
    /// then the length, are needed to refuse a frame. `sender` says whether there must be a mask.
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

/// The length of a payload, and how many octets behind the first two say it. It must be said in as few as possible.
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

/// The header of a whole (unfragmented) frame to be sent: for those who have the payload somewhere else and write both at once.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    octets: [u8; 14],
    length: usize,
}

impl FrameHeader {
    /// For a payload of that many bytes, with the masking key where a client sends it. The payload is not masked here.
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

/// Writes a whole frame. Clients give a masking key, random and fresh for each frame; servers give none. A Ping is answered by
/// a Pong with its payload.
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

/// Writes a SIP message: as text, or as binary where its body makes it no UTF-8 (RFC 7118 section 4.1 and RFC 6455 section 5.6:
/// a browser closes when text is not UTF-8).
pub fn write_message(into: &mut Vec<u8>, message: &[u8], mask: Option<[u8; 4]>) {
    write_frame(into, Opcode::of_message(message), message, mask);
}

/// Writes a Close frame, without a reason. The code of a Close that arrived is sent back (RFC 6455 section 5.5.1).
pub fn write_close(into: &mut Vec<u8>, code: Option<CloseCode>, mask: Option<[u8; 4]>) {
    let number = code.map(|code| code.number().to_be_bytes());
    let payload = number.as_ref().map_or(&[][..], |number| &number[..]);
    write_frame(into, Opcode::Close, payload, mask);
}

impl Opcode {
    /// What a SIP message is sent as: text if it is UTF-8, binary otherwise.
    pub fn of_message(message: &[u8]) -> Self {
        if std::str::from_utf8(message).is_ok() {
            Self::Text
        } else {
            Self::Binary
        }
    }
}
