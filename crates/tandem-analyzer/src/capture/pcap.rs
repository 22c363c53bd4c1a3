//! Writes messages into a capture file (pcap), each as one UDP datagram over IP. Programs that read captures can thus show messages
//! that were encrypted on the wire.

use etherparse::PacketBuilder;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// A file in the byte order of this header, with times in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// The version of the format.
const VERSION: [u16; 2] = [2, 4];
/// Longest packet, in bytes.
const LONGEST_PACKET: u32 = 262_144;
/// Packets begin with their IP header.
const RAW_IP: u32 = 101;
/// Longest payload of a UDP datagram over IPv4, in bytes.
const LONGEST_PAYLOAD: usize = 65_507;
/// Time to live of the packets, which no router sees.
const TTL: u8 = 64;

/// Writes a capture file.
#[derive(Debug)]
pub struct PcapWriter<W> {
    output: W,
    packet: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header of the file.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(mut output: W) -> io::Result<Self> {
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_le_bytes());
        header.extend(VERSION.iter().flat_map(|number| number.to_le_bytes()));
        // Time zone and accuracy, which are always zero.
        header.extend([0; 8]);
        header.extend(LONGEST_PACKET.to_le_bytes());
        header.extend(RAW_IP.to_le_bytes());
        output.write_all(&header)?;
        Ok(Self {
            output,
            packet: Vec::new(),
        })
    }

    /// Writes one message. `time` is in microseconds since 1970. A message longer than a datagram is cut: the result is false.
    ///
    /// # Errors
    /// Writing fails.
    pub fn message(
        &mut self,
        time: u64,
        from: SocketAddr,
        to: SocketAddr,
        message: &[u8],
    ) -> io::Result<bool> {
        let payload = message.get(..LONGEST_PAYLOAD).unwrap_or(message);
        let packet = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ipv4(from.octets(), to.octets(), TTL)
            }
            (from, to) => PacketBuilder::ipv6(octets(from), octets(to), TTL),
        };
        self.packet.clear();
        let packet = packet.udp(from.port(), to.port());
        let written = packet.write(&mut self.packet, payload);
        written.map_err(io::Error::other)?;
        let length = (self.packet.len() as u32).to_le_bytes();
        let seconds = ((time / 1_000_000) as u32).to_le_bytes();
        let micros = ((time % 1_000_000) as u32).to_le_bytes();
        for field in [seconds, micros, length, length] {
            self.output.write_all(&field)?;
        }
        self.output.write_all(&self.packet)?;
        Ok(payload.len() == message.len())
    }

    /// Passes everything written so far to the file.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// An IPv6 address; an IPv4 address as the IPv6 address that is mapped to it.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
