//! PROXY protocol, version 2 (the binary header of `HAProxy`'s specification): a balancer in front sends the client's address.
//!
//! Only read it on listeners that are configured for it: any client that can connect to such a listener can claim any source.
use std::fmt;
use std::net::SocketAddr;

/// The longest header that is accepted, in bytes. Addresses need 52; the rest are TLVs such as the client's certificate.
pub const MAX_HEADER: usize = 4096;

/// The result of reading the beginning of a stream buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// Not enough bytes yet; call again when more have arrived.
    Incomplete,
    /// A complete header.
    Header {
        /// Length of the header in bytes. The client's data follows.
        consumed: usize,
        /// Both ends of the client's connection. `None`: use the addresses of the connection itself, because the balancer speaks
        /// for itself (LOCAL, a health check) or its client has no Internet address.
        addresses: Option<Addresses>,
    },
}

/// Both ends of the connection that the balancer forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address of the balancer that it connected to.
    pub destination: SocketAddr,
}

/// Why there is no valid header. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// The stream begins with other data.
    Missing,
    /// The text header of version 1.
    Version1,
    /// An unknown version, command, address family or transport.
    Unknown,
    /// The header is too short for the addresses it announces.
    TooShort,
    /// The header is longer than [`MAX_HEADER`].
    TooLong,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => {
                "no PROXY protocol header: is the listener behind a balancer that sends one?"
            }
            Self::Version1 => "PROXY protocol version 1: set the balancer to version 2",
            Self::Unknown => {
                "unknown version, command or address family in the PROXY protocol header"
            }
            Self::TooShort => "PROXY protocol header too short for its addresses",
            Self::TooLong => "PROXY protocol header too long",
        })
    }
}

impl std::error::Error for ProxyError {}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const SIGNATURE_1: &[u8; 6] = b"PROXY ";

/// Version and command, in the byte after the signature.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// Reads the header from all bytes buffered so far. Takes constant time.
pub fn read(buffered: &[u8]) -> Result<ProxyHeader, ProxyError> {
    let Some((signature, rest)) = buffered.split_first_chunk::<12>() else {
        return begins(buffered).map(|()| ProxyHeader::Incomplete);
    };
    if signature != SIGNATURE {
        begins(signature)?;
    }
    let &[command, family, high, low, ref rest @ ..] = rest else {
        return Ok(ProxyHeader::Incomplete);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let consumed = SIGNATURE.len() + 4 + length;
    check(command, family, length)?;
    if consumed > MAX_HEADER {
        return Err(ProxyError::TooLong);
    }
    let Some(rest) = rest.get(..length) else {
        return Ok(ProxyHeader::Incomplete);
    };
    let addresses = match family {
        _ if command == LOCAL => None,
        0x11 | 0x12 => addresses::<4>(rest),
        0x21 | 0x22 => addresses::<16>(rest),
        _ => None,
    };
    Ok(ProxyHeader::Header {
        consumed,
        addresses,
    })
}

/// Checks whether this can be the beginning of a header. The first wrong byte is rejected. Version 1 has an error of its own.
fn begins(bytes: &[u8]) -> Result<(), ProxyError> {
    if bytes.starts_with(SIGNATURE_1) {
        Err(ProxyError::Version1)
    } else if SIGNATURE.starts_with(bytes) || SIGNATURE_1.starts_with(bytes) {
        Ok(())
    } else {
        Err(ProxyError::Missing)
    }
}

/// Checks version, command, family and transport, and that the addresses fit into the header.
fn check(command: u8, family: u8, length: usize) -> Result<(), ProxyError> {
    let needed = match (command, family) {
        // Nothing to check: `read` ignores the rest of these headers.
        (LOCAL, _) | (PROXY, 0x00) => 0,
        (PROXY, 0x11 | 0x12) => 12,
        (PROXY, 0x21 | 0x22) => 36,
        (PROXY, 0x31 | 0x32) => 216,
        _ => return Err(ProxyError::Unknown),
    };
    if length < needed {
        return Err(ProxyError::TooShort);
    }
    Ok(())
}

/// Reads source and destination address, then source and destination port.
fn addresses<const N: usize>(block: &[u8]) -> Option<Addresses>
where
    std::net::IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let &[a, b, c, d, ..] = rest else {
        return None;
    };
    Some(Addresses {
        source: SocketAddr::new((*source).into(), u16::from_be_bytes([a, b])),
        destination: SocketAddr::new((*destination).into(), u16::from_be_bytes([c, d])),
    })
}
