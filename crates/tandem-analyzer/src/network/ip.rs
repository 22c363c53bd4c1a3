//! IP packets, and the datagrams and segments in them.

use super::fragments::FragmentKey;
use super::half::Segment;
use super::{Path, Transport};
use crate::capture::Moment;
use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxIpv4Slice, LaxIpv6Slice, TcpSlice, UdpSlice};
use std::net::{IpAddr, SocketAddr};

/// An IP packet, or a fragment of one.
#[derive(Clone, Debug)]
pub struct IpPacket<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: IpNumber,
    /// The captured payload.
    pub payload: &'a [u8],
    /// Whether its end was not captured.
    pub cut_off: bool,
    /// The position in the packet, if this is a fragment.
    pub fragment: Option<Fragment>,
}

/// The position of a fragment in its packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Key of the packet.
    pub key: FragmentKey,
    /// Offset in bytes.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
}

/// The bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIp;

impl<'a> IpPacket<'a> {
    /// Reads the header and the extension headers.
    ///
    /// # Errors
    /// They are broken, cut off, or neither IPv4 nor IPv6.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotIp> {
        match bytes.first().map(|octet| octet >> 4) {
            Some(4) => Self::version_4(bytes),
            Some(6) => Self::version_6(bytes),
            _ => Err(NotIp),
        }
    }

    fn version_4(bytes: &'a [u8]) -> Result<Self, NotIp> {
        let Ok((packet, None)) = LaxIpv4Slice::from_slice(bytes) else {
            return Err(NotIp);
        };
        let (header, payload) = (packet.header(), packet.payload());
        let (source, destination) = (
            header.source_addr().into(),
            header.destination_addr().into(),
        );
        Ok(Self {
            source,
            destination,
            protocol: payload.ip_number,
            payload: payload.payload,
            cut_off: payload.incomplete,
            fragment: payload.fragmented.then(|| Fragment {
                key: FragmentKey {
                    source,
                    destination,
                    protocol: header.protocol().0,
                    identification: header.identification().into(),
                },
                offset: header.fragments_offset().byte_offset(),
                more: header.more_fragments(),
            }),
        })
    }

    fn version_6(bytes: &'a [u8]) -> Result<Self, NotIp> {
        let Ok((packet, None)) = LaxIpv6Slice::from_slice(bytes) else {
            return Err(NotIp);
        };
        let (header, payload) = (packet.header(), packet.payload());
        let (source, destination) = (
            header.source_addr().into(),
            header.destination_addr().into(),
        );
        let mut fragment = None;
        if payload.fragmented {
            for extension in packet.extensions().clone() {
                if let Ipv6ExtensionSlice::Fragment(header) = extension {
                    fragment = Some(Fragment {
                        key: FragmentKey {
                            source,
                            destination,
                            // The key in IPv6 does not include the protocol (RFC 8200 section 4.5).
                            protocol: 0,
                            identification: header.identification(),
                        },
                        offset: header.fragment_offset().byte_offset(),
                        more: header.more_fragments(),
                    });
                }
            }
        }
        Ok(Self {
            source,
            destination,
            protocol: payload.ip_number,
            payload: payload.payload,
            cut_off: payload.incomplete,
            fragment,
        })
    }
}

/// The payload of a complete IP packet.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// A datagram.
    Datagram {
        /// Source and destination.
        path: Path,
        /// The payload.
        payload: &'a [u8],
        /// Whether its end was not captured.
        cut_off: bool,
    },
    /// A segment of a connection.
    Segment {
        /// Source and destination.
        path: Path,
        /// The segment. The caller sets its moment.
        segment: Segment<'a>,
        /// Whether its end was not captured.
        cut_off: bool,
    },
    /// Neither UDP nor TCP.
    Other,
    /// Its header is broken or was not captured.
    Broken,
}

impl<'a> Carried<'a> {
    /// Parses the payload of an IP packet.
    pub fn parse(
        (source, destination): (IpAddr, IpAddr),
        protocol: IpNumber,
        payload: &'a [u8],
        cut_off: bool,
    ) -> Self {
        let path = |transport, from, to| Path {
            source: SocketAddr::new(source, from),
            destination: SocketAddr::new(destination, to),
            transport,
        };
        match protocol {
            IpNumber::UDP => {
                let Ok(datagram) = UdpSlice::from_slice_lax(payload) else {
                    return Self::Broken;
                };
                let promised = usize::from(datagram.length());
                Self::Datagram {
                    path: path(
                        Transport::Udp,
                        datagram.source_port(),
                        datagram.destination_port(),
                    ),
                    payload: datagram.payload(),
                    cut_off: cut_off || promised > payload.len(),
                }
            }
            IpNumber::TCP => {
                let Ok(segment) = TcpSlice::from_slice(payload) else {
                    return Self::Broken;
                };
                Self::Segment {
                    path: path(
                        Transport::Tcp,
                        segment.source_port(),
                        segment.destination_port(),
                    ),
                    segment: Segment {
                        moment: Moment::default(),
                        sequence: segment.sequence_number(),
                        acknowledgment: segment.ack().then(|| segment.acknowledgment_number()),
                        syn: segment.syn(),
                        fin: segment.fin(),
                        rst: segment.rst(),
                        payload: segment.payload(),
                    },
                    cut_off,
                }
            }
            _ => Self::Other,
        }
    }
}
