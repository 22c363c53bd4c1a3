//! Where packets come from: a file, or an interface of this machine.

pub mod file;
mod filter;
mod ring;

pub use filter::{Filter, MOST_PORTS};
pub use ring::{Drops, Ring};

/// When a packet was captured: nanoseconds since 1970.
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

    /// Nanoseconds from `earlier` to this; negative where the clock went back between.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Which packet, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Number of the packet in the capture; the first is 1, as Wireshark counts.
    pub frame: u64,
    /// When it was captured.
    pub time: Time,
}

/// What a packet begins with, by its number in the registry of link types (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// BSD loopback: the address family in the byte order of the machine that captured (0), or of the network (108).
    Null,
    /// Ethernet, with or without VLAN tags (1).
    Ethernet,
    /// An IP packet (12, 14, 101, 228, 229).
    RawIp,
    /// Linux "cooked" capture (113).
    LinuxSll,
    /// Linux "cooked" capture, version 2 (276).
    LinuxSll2,
    /// What is not read.
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
    /// Which, and when.
    pub moment: Moment,
    /// What it begins with.
    pub link: LinkType,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Whether more of it was on the wire.
    pub truncated: bool,
}
