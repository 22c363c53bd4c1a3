//! Reads capture files: pcap (microseconds, nanoseconds, both byte orders) and pcapng, in one pass, also from a pipe.

use super::{LinkType, Moment, Packet, Time};
use pcap_parser::pcapng::{InterfaceDescriptionBlock, OptionCode};
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::io::{self, Read};

/// Bytes per read: few enough to stay in the processor's cache until they are processed.
const BUFFER: usize = 1 << 18;
/// Largest block of a file, in bytes.
const LARGEST: usize = 1 << 26;
/// Maximum number of interfaces per section.
const MAX_INTERFACES: usize = 65_536;

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After the last packet.
    Whole,
    /// In the middle of a packet, for example because the capture was killed.
    CutOff,
    /// The caller stopped reading.
    Stopped,
}

/// Passes each packet of a capture file to `take`, until it returns false.
///
/// # Errors
/// Reading fails, or the file is not a capture file or is broken. The message names the last packet.
pub fn read<'r>(
    input: impl Read + Send + 'r,
    mut take: impl FnMut(Packet<'_>) -> bool,
) -> io::Result<End> {
    let mut reader = match create_reader(BUFFER, FullReads(input)) {
        Ok(reader) => reader,
        Err(error) => return Err(no_capture(&error)),
    };
    let mut file = File::default();
    let mut capacity = BUFFER;
    loop {
        let before = reader.data().len();
        let too_small = match reader.next() {
            Ok((length, block)) => {
                if !file.block(&block, &mut take)? {
                    return Ok(End::Stopped);
                }
                reader.consume_noshift(length);
                continue;
            }
            Err(PcapError::Eof) => return Ok(End::Whole),
            Err(PcapError::UnexpectedEof) if before == 0 => return Ok(End::Whole),
            Err(PcapError::UnexpectedEof) => return Ok(End::CutOff),
            Err(PcapError::Incomplete(_)) => false,
            Err(PcapError::BufferTooSmall) => true,
            Err(PcapError::ReadError) => return Err(file.broken("reading failed")),
            Err(_) => return Err(file.broken("invalid data")),
        };
        if too_small {
            capacity *= 2;
            if capacity > LARGEST || !reader.grow(capacity) {
                return Err(file.broken("the next block claims to be longer than 64 MiB"));
            }
        }
        let refilled = reader.refill();
        refilled.map_err(|_| file.broken("reading failed"))?;
        if reader.data().len() == before && !too_small && !reader.reader_exhausted() {
            return Err(file.broken("invalid data"));
        }
    }
}

/// Reads until the buffer is full, because a pipe returns small pieces.
struct FullReads<R>(R);

impl<R: Read> Read for FullReads<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

fn no_capture<I>(error: &PcapError<I>) -> io::Error {
    let what = match error {
        PcapError::Eof => "the file is empty",
        PcapError::ReadError => "reading failed",
        PcapError::Incomplete(_) => "the file ends within its header",
        _ => {
            "this is not a capture file: use pcap or pcapng (if compressed: `zcat FILE | tandem analyze --pcap -`)"
        }
    };
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// State from the headers of a file.
#[derive(Default)]
struct File {
    frames: u64,
    /// For a pcap file: its link type, and whether its times have nanoseconds.
    header: Option<(LinkType, bool)>,
    /// Interfaces of the current pcapng section, by number.
    interfaces: Vec<Interface>,
    big_endian: bool,
}

impl File {
    /// Processes a block. Returns whether to continue.
    fn block(
        &mut self,
        block: &PcapBlockOwned<'_>,
        take: &mut impl FnMut(Packet<'_>) -> bool,
    ) -> io::Result<bool> {
        let (link, time, bytes, original) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.header = Some(clock_of(header));
                return Ok(true);
            }
            PcapBlockOwned::Legacy(packet) => {
                let (link, nanoseconds) = self.header.unwrap_or((LinkType::Ethernet, false));
                let unit = if nanoseconds { 1 } else { 1_000 };
                let time = Time::new(packet.ts_sec.into(), i64::from(packet.ts_usec) * unit);
                (link, time, packet.data, packet.origlen)
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                self.interfaces.clear();
                self.big_endian = section.big_endian();
                return Ok(true);
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return Err(self.broken("a section has more than 65,536 interfaces"));
                }
                let described = Interface::new(interface, self.big_endian);
                self.interfaces.push(described);
                return Ok(true);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = usize::try_from(packet.if_id).unwrap_or(usize::MAX);
                let Some(interface) = self.interfaces.get(interface) else {
                    return Err(
                        self.broken("the next packet names an interface that is not described")
                    );
                };
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                // The block has padding after the packet.
                let length = usize::try_from(packet.caplen).unwrap_or(usize::MAX);
                let bytes = packet.data.get(..length).unwrap_or(packet.data);
                (interface.link, interface.time(ticks), bytes, packet.origlen)
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let Some(interface) = self.interfaces.first() else {
                    return Err(self.broken("a packet comes before its interface is described"));
                };
                let length = usize::try_from(packet.origlen).unwrap_or(usize::MAX);
                let length = length.min(interface.longest);
                let bytes = packet.data.get(..length).unwrap_or(packet.data);
                // Simple packets have no time.
                (interface.link, Time::default(), bytes, packet.origlen)
            }
            PcapBlockOwned::NG(_) => return Ok(true),
        };
        self.frames += 1;
        let moment = Moment {
            frame: self.frames,
            time,
        };
        Ok(take(Packet {
            moment,
            link,
            bytes,
            truncated: usize::try_from(original).is_ok_and(|original| bytes.len() < original),
        }))
    }

    fn broken(&self, what: &str) -> io::Error {
        let message = format!("{what}, after packet {}", self.frames);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}

fn clock_of(header: &PcapHeader) -> (LinkType, bool) {
    // The upper bits describe a frame check sequence, which is not needed here.
    let number = header.network.0 & 0x0fff_ffff;
    (
        LinkType::from_number(number),
        header.is_nanosecond_precision(),
    )
}

/// An interface of a pcapng file.
struct Interface {
    link: LinkType,
    /// Maximum number of captured bytes per packet.
    longest: usize,
    /// Clock ticks per second.
    resolution: u128,
    /// Offset of the clock in seconds.
    offset: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Self {
        let offset = block
            .options
            .iter()
            .find(|option| option.code == OptionCode::IfTsoffset);
        let offset = offset.and_then(|option| <[u8; 8]>::try_from(option.value.get(..8)?).ok());
        let offset = offset.map_or(0, |octets| {
            if big_endian {
                i64::from_be_bytes(octets)
            } else {
                i64::from_le_bytes(octets)
            }
        });
        Self {
            link: LinkType::from_number(block.linktype.0),
            longest: match block.snaplen {
                0 => usize::MAX,
                octets => usize::try_from(octets).unwrap_or(usize::MAX),
            },
            resolution: resolution(block.if_tsresol),
            offset,
        }
    }

    fn time(&self, ticks: u64) -> Time {
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / self.resolution;
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        Time(Time::new(self.offset, 0).0.saturating_add(nanoseconds))
    }
}

/// Ticks per second: a negative power of ten, or of two if the first bit is set. Finer resolutions than 2^-63 or 10^-19 do not exist.
fn resolution(value: u8) -> u128 {
    let exponent = u32::from(value & 0x7f);
    if value & 0x80 == 0 {
        10_u128.pow(exponent.min(19))
    } else {
        1 << exponent.min(63)
    }
}
