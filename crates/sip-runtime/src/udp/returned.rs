//! Datagrams of ours that were returned as ICMP errors. The kernel keeps the errors in the socket's error queue (`IP_RECVERR`).
//!
//! With this option, the next send or receive on the socket fails once with the error of an earlier datagram. Such a failure does
//! not concern the datagram being sent or the socket.

use super::address::RawAddress;
use super::receive::last_error;
use super::send::empty_header;
use super::stamp::control_messages;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How often to retry a send that may have failed with the error of an earlier datagram. Another error may arrive in between.
pub(super) const REPEATS: usize = 2;

/// Bytes to read of a quoted datagram. Routers quote 8 to 576 bytes, and at most what fits into an IPv6 packet of 1,280 bytes.
const QUOTE: usize = 1_280;

/// Room for a `sock_extended_err`, the address of the reporting host, and a timestamp.
const CONTROL: usize = 256;

/// The kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IcmpError {
    /// The network is unreachable.
    Network,
    /// The host does not answer or is unreachable.
    Host,
    /// The host does not support UDP.
    Protocol,
    /// No socket is bound to the port.
    Port,
    /// A firewall prohibits it and reports so.
    Prohibited,
    /// The datagram exceeds the MTU of the path.
    TooLong,
    /// Any other error, such as an exceeded hop limit or a malformed header.
    Other,
}

impl IcmpError {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Host,
        Self::Protocol,
        Self::Port,
        Self::Prohibited,
        Self::TooLong,
        Self::Other,
    ];

    /// Its label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network_unreachable",
            Self::Host => "host_unreachable",
            Self::Protocol => "protocol_unreachable",
            Self::Port => "port_unreachable",
            Self::Prohibited => "prohibited",
            Self::TooLong => "too_long",
            Self::Other => "other",
        }
    }

    /// Whether the destination is unreachable. The other errors concern a single datagram or its path.
    pub(crate) const fn is_unreachable(self) -> bool {
        !matches!(self, Self::TooLong | Self::Other)
    }

    /// Maps type and code: RFC 792 and RFC 1812 section 5.2.7.1, RFC 4443 section 3.
    fn read(origin: u8, kind: u8, code: u8) -> Option<Self> {
        const V4: u8 = libc::SO_EE_ORIGIN_ICMP;
        const V6: u8 = libc::SO_EE_ORIGIN_ICMP6;
        match (origin, kind, code) {
            (V4, 3, 0 | 6 | 8 | 11) | (V6, 1, 0 | 2) => Some(Self::Network),
            (V4, 3, 1 | 7 | 12) | (V6, 1, 3) => Some(Self::Host),
            (V4, 3, 2) => Some(Self::Protocol),
            (V4, 3, 3) | (V6, 1, 4) => Some(Self::Port),
            (V4, 3, 9 | 10 | 13) | (V6, 1, 1 | 5 | 6) => Some(Self::Prohibited),
            (V4, 3, 4) | (V6, 2, _) => Some(Self::TooLong),
            (V4 | V6, _, _) => Some(Self::Other),
            // An error of the kernel itself, which the send call has already returned.
            _ => None,
        }
    }
}

/// A datagram that was returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Returned<'a> {
    /// The error and the destination of the datagram. `None` if this is not an ICMP error.
    pub(crate) error: Option<(IcmpError, SocketAddr)>,
    /// The part of the payload that the error quotes, often only 8 bytes.
    pub(crate) quote: &'a [u8],
}

/// Makes the kernel keep returned datagrams. It costs nothing while there are none.
pub(super) fn ask_for_returned(socket: BorrowedFd<'_>, is_ipv4: bool) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let (level, option) = if is_ipv4 {
        (libc::IPPROTO_IP, libc::IP_RECVERR)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    };
    #[expect(unsafe_code, reason = "no safe wrapper of IP_RECVERR exists")]
    // SAFETY: pointer and length describe `on`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// Whether a send or receive may have failed with the error of an earlier datagram. These are the errors to which the kernel
/// maps ICMP messages.
pub(crate) fn may_be_of_another(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::MSGSIZE
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::OPNOTSUPP
            | Errno::ACCESS
            | Errno::PROTO
    )
}

/// Buffers for one entry of the error queue, reused by each system call.
pub(crate) struct ErrorQueue {
    quote: Box<[u8; QUOTE]>,
    control: Box<Control>,
}

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl ErrorQueue {
    pub(crate) fn new() -> Self {
        Self {
            quote: Box::new([0; QUOTE]),
            control: Box::new(Control([0; CONTROL])),
        }
    }

    /// Takes the next entry from a socket's error queue. `None` if the queue is empty.
    pub(crate) fn take(&mut self, socket: BorrowedFd<'_>) -> Option<Returned<'_>> {
        let mut destination = RawAddress::empty();
        let mut part = libc::iovec {
            iov_base: self.quote.as_mut_ptr().cast(),
            iov_len: QUOTE,
        };
        let mut header = empty_header();
        header.msg_name = (&raw mut destination).cast();
        header.msg_namelen = RawAddress::CAPACITY;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = self.control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL as _;
        #[expect(unsafe_code, reason = "no safe wrapper reads extended errors")]
        // SAFETY: the header points to memory of this call and of `self`, which is borrowed exclusively, each with its length.
        let length = unsafe {
            libc::recvmsg(
                socket.as_raw_fd(),
                &raw mut header,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        let length = usize::try_from(length).ok()?;
        #[expect(
            clippy::unnecessary_cast,
            reason = "its type is another one in other C libraries"
        )]
        let written = header.msg_controllen as usize;
        let control = self.control.0.get(..written).unwrap_or_default();
        Some(Returned {
            error: find(control).zip(destination.read()),
            quote: self.quote.get(..length).unwrap_or_default(),
        })
    }
}

/// Finds the error among the control messages.
fn find(control: &[u8]) -> Option<IcmpError> {
    let data = control_messages(control).find_map(|(level, kind, data)| {
        let is_error = matches!(
            (level, kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        is_error.then_some(data)
    })?;
    // A `sock_extended_err`: the error number, followed by origin, type and code in one byte each.
    let [_, _, _, _, origin, kind, code, ..] = *data else {
        return None;
    };
    IcmpError::read(origin, kind, code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::WorkerStats;
    use crate::udp::send::tests::{bound, outgoing};
    use crate::udp::{Expected, ReceiveBatch, SendBatch};
    use sip_transport::Outgoing;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

    /// A socket with the error queue turned on, one that receives, and an address where nothing listens.
    fn scene(address: &str) -> (UdpSocket, (UdpSocket, SocketAddr), SocketAddr) {
        let (sender, from) = bound(address);
        ask_for_returned(sender.as_fd(), from.is_ipv4()).expect("IP_RECVERR");
        let (_, nobody) = bound(address);
        (sender, bound(address), nobody)
    }

    /// The returned datagrams: error, destination and quoted payload.
    fn returned(socket: &UdpSocket) -> Vec<(IcmpError, SocketAddr, Vec<u8>)> {
        let mut queue = ErrorQueue::new();
        let mut found = Vec::new();
        while let Some(returned) = queue.take(socket.as_fd()) {
            let (error, to) = returned.error.expect("an ICMP error");
            found.push((error, to, returned.quote.to_vec()));
        }
        found
    }

    #[test]
    fn a_datagram_to_a_closed_port_returns_with_its_destination() {
        for address in FAMILIES {
            let (sender, _, nobody) = scene(address);
            assert_eq!(returned(&sender), []);
            sender.send_to(b"hello", nobody).expect("send");
            let expected = (IcmpError::Port, nobody, b"hello".to_vec());
            assert_eq!(returned(&sender), [expected]);
            let long = vec![b'x'; 4_000];
            sender.send_to(&long, nobody).expect("send");
            let [(_, _, quote)] = &*returned(&sender) else {
                panic!("one comes back")
            };
            assert!(quote.len() > 500 && long.starts_with(quote));
        }
    }

    #[test]
    fn an_error_of_another_datagram_costs_none_that_can_be_sent() {
        for address in FAMILIES {
            for gso_enabled in [false, true] {
                let (sender, (receiver, to), nobody) = scene(address);
                let mut bytes = Vec::new();
                let messages: Vec<Outgoing> = (0..20_usize)
                    .map(|number| {
                        let to = if number % 3 == 0 { nobody } else { to };
                        outgoing(to, &mut bytes, format!("{number:02}").as_bytes())
                    })
                    .collect();
                let stats = WorkerStats::default();
                let mut batch = SendBatch::new(gso_enabled);
                batch.send(sender.as_fd(), &messages, &bytes, &stats);
                assert!(batch.take_met_error());
                // The error of the first datagram fails the next send, single or batch.
                for next in [&messages[1..2], &messages[1..3]] {
                    batch.send(sender.as_fd(), &messages[..1], &bytes, &stats);
                    batch.send(sender.as_fd(), next, &bytes, &stats);
                }
                let mut buffer = [0; 10];
                for number in (0..20).filter(|number| number % 3 != 0).chain([1, 1, 2]) {
                    let length = receiver.recv(&mut buffer).expect("datagram");
                    assert_eq!(&buffer[..length], format!("{number:02}").as_bytes());
                }
                assert_eq!(
                    stats.send_errors.value() + stats.send_unreachable.value(),
                    0
                );
                // A GSO batch is returned message by message if it was segmented. The loopback device leaves it whole.
                let quotes = returned(&sender).into_iter().map(|it| it.2);
                assert_eq!(quotes.collect::<Vec<_>>().concat(), b"000306091215180000");
            }
        }
    }

    #[test]
    fn an_error_of_another_datagram_hides_none_that_arrived() {
        for address in FAMILIES {
            let (sender, (peer, _), nobody) = scene(address);
            let from = sender.local_addr().expect("address");
            peer.send_to(b"before", from).expect("send");
            sender.send_to(b"x", nobody).expect("send");
            let mut batch = ReceiveBatch::new().expect("mapping");
            for expected in [Expected::One, Expected::Many] {
                let error = batch.receive(sender.as_fd(), expected);
                if expected == Expected::One {
                    assert!(may_be_of_another(error.expect_err("the error of another")));
                } else {
                    assert_eq!(error, Ok(1), "it is said once");
                }
            }
        }
    }

    #[test]
    fn only_what_says_unreachable_counts() {
        let (v4, v6) = (libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6);
        for (origin, kind, code, expected) in [
            (v4, 3, 0, Some(IcmpError::Network)),
            (v4, 3, 1, Some(IcmpError::Host)),
            (v4, 3, 2, Some(IcmpError::Protocol)),
            (v4, 3, 3, Some(IcmpError::Port)),
            (v4, 3, 4, Some(IcmpError::TooLong)),
            (v4, 3, 13, Some(IcmpError::Prohibited)),
            (v4, 11, 0, Some(IcmpError::Other)),
            (v4, 12, 3, Some(IcmpError::Other)),
            (v6, 1, 0, Some(IcmpError::Network)),
            (v6, 1, 1, Some(IcmpError::Prohibited)),
            (v6, 1, 3, Some(IcmpError::Host)),
            (v6, 1, 4, Some(IcmpError::Port)),
            (v6, 2, 0, Some(IcmpError::TooLong)),
            (v6, 3, 3, Some(IcmpError::Other)),
            (libc::SO_EE_ORIGIN_LOCAL, 3, 3, None),
        ] {
            assert_eq!(IcmpError::read(origin, kind, code), expected);
        }
        let counts = IcmpError::ALL.map(IcmpError::is_unreachable);
        assert_eq!(counts, [true, true, true, true, true, false, false]);
    }
}
