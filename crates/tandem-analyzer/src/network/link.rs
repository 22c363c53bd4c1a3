//! Link-layer headers: Ethernet and its VLAN tags, the "cooked" headers of Linux, the loopback header of BSD.

use crate::capture::LinkType;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and its predecessor.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Maximum number of VLAN tags.
const MAX_TAGS: usize = 4;

/// The IP packet in a captured frame; `None` if it is something else, or is cut off.
pub fn ip_of(link: LinkType, bytes: &[u8]) -> Option<&[u8]> {
    match link {
        LinkType::RawIp => Some(bytes),
        LinkType::Ethernet => behind_tags(number(bytes, 12)?, bytes.get(14..)?),
        LinkType::LinuxSll => behind_tags(number(bytes, 14)?, bytes.get(16..)?),
        LinkType::LinuxSll2 => behind_tags(number(bytes, 0)?, bytes.get(20..)?),
        // Address families differ between systems, but the IP header has the version.
        LinkType::Null => bytes.get(4..),
        LinkType::Other(_) => None,
    }
}

fn behind_tags(mut ether_type: u16, mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..MAX_TAGS {
        match ether_type {
            IPV4 | IPV6 => return Some(rest),
            tag if VLAN.contains(&tag) => {
                ether_type = number(rest, 2)?;
                rest = rest.get(4..)?;
            }
            _ => return None,
        }
    }
    None
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let octets = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}
