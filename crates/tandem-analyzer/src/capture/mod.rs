//! Sources of packets: a file, or an interface of this machine. Also writes files.

pub mod file;
mod filter;
mod pcap;
mod ring;

pub use filter::{Filter, MAX_PORTS};
pub use pcap::PcapWriter;
pub use ring::{Drops, Ring};

/// Capture time: nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// From seconds and nanoseconds.
    pub const fn new(seconds: i64, nanoseconds: i64) -> Self {
        Self(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    }

    /// Nanoseconds from `earlier` to this time; negative if the clock went back in between.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Number and time of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Number of the packet in the capture, from 1, as in Wireshark.
    pub frame: u64,
    /// Capture time.
    pub time: Time,
}

/// The link-layer header of a packet, by its number in the registry of link types (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// BSD loopback: the address family in the byte order of the capturing machine (0), or of the network (108).
    Null,
    /// Ethernet, with or without VLAN tags (1).
    Ethernet,
    /// An IP packet (12, 14, 101, 228, 229).
    RawIp,
    /// Linux "cooked" capture (113).
    LinuxSll,
    /// Linux "cooked" capture, version 2 (276).
    LinuxSll2,
    /// An unsupported type.
    Other(i32),
}

impl LinkType {
    /// From its number in a file.
    pub const fn from_number(number: i32) -> Self {
        match number {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Number and time.
    pub moment: Moment,
    /// The link-layer header.
    pub link: LinkType,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Whether the packet was longer on the wire.
    pub truncated: bool,
}
