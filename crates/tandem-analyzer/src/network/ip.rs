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
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What it carries.
    pub protocol: IpNumber,
    /// What it carries of that.
    pub payload: &'a [u8],
    /// Whether its end was not captured.
    pub cut_off: bool,
    /// Which part of which packet it is, where it is a fragment.
    pub fragment: Option<Fragment>,
}

/// Which part of which packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Which packet.
    pub key: FragmentKey,
    /// Where it begins, in octets.
    pub offset: u16,
    /// Whether others come behind.
    pub more: bool,
}

/// What cannot be read as an IP packet.
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
                            // RFC 8200 section 4.5: the identification says it without the protocol.
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

/// What a whole IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// A datagram.
    Datagram {
        /// From where to where.
        path: Path,
        /// Its octets.
        payload: &'a [u8],
        /// Whether its end was not captured.
        cut_off: bool,
    },
    /// A segment of a connection.
    Segment {
        /// From where to where.
        path: Path,
        /// The segment; its moment is for the caller to fill in.
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
    /// What is in the payload of an IP packet.
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
