//! A UDP socket that is polled, with a large buffer and any number of local addresses.

use anyhow::bail;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Required size of the receive buffer: a smaller one would drop messages and invalidate the run.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Longest datagram, or batch of datagrams that the kernel has coalesced (GRO).
const LONGEST: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Socket {
    udp: UdpSocket,
    /// With many addresses: sends from one of them.
    state: Option<UdpSocketState>,
    local: SocketAddr,
}

impl Socket {
    /// Opens a socket on any port of this address, or of all addresses of the machine.
    ///
    /// # Errors
    /// The address does not belong to the machine, or the kernel grants too small a receive buffer.
    pub(super) fn open(address: SocketAddr, has_all_addresses: bool) -> anyhow::Result<Self> {
        let bound = match address.ip() {
            IpAddr::V4(_) if has_all_addresses => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) if has_all_addresses => Ipv6Addr::UNSPECIFIED.into(),
            address => address,
        };
        let udp = UdpSocket::bind(SocketAddr::new(bound, address.port()))?;
        if sockopt::set_socket_recv_buffer_size_force(&udp, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&udp, RECEIVE_BUFFER)?;
        }
        let granted = sockopt::socket_recv_buffer_size(&udp)?;
        if granted < RECEIVE_BUFFER {
            bail!(
                "receive buffer is {granted} bytes, not {RECEIVE_BUFFER}: raise net.core.rmem_max"
            );
        }
        udp.set_nonblocking(true)?;
        let state = has_all_addresses.then(|| UdpSocketState::new((&udp).into()));
        Ok(Self {
            state: state.transpose()?,
            local: udp.local_addr()?,
            udp,
        })
    }

    pub(super) const fn port(&self) -> u16 {
        self.local.port()
    }

    /// Sends a datagram, from this address if the socket has all.
    pub(super) fn send(&self, message: &[u8], to: SocketAddr, from: IpAddr) -> io::Result<()> {
        loop {
            let sent = match &self.state {
                Some(state) => {
                    let transmit = Transmit {
                        destination: to,
                        ecn: None,
                        contents: message,
                        segment_size: None,
                        src_ip: Some(from),
                    };
                    state.try_send((&self.udp).into(), &transmit)
                }
                None => self.udp.send_to(message, to).map(drop),
            };
            match sent {
                // On loopback a full queue drains at once.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                sent => return sent,
            }
        }
    }

    /// Datagrams that the kernel dropped because the buffer was full.
    pub(super) fn kernel_drops(&self) -> u64 {
        // The last column of /proc/net/udp has the drops of each socket.
        let table = if self.local.is_ipv4() {
            "/proc/net/udp"
        } else {
            "/proc/net/udp6"
        };
        let port = format!(":{:04X}", self.local.port());
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let line = text.lines().find(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|address| address.ends_with(&port))
        });
        line.and_then(|line| line.split_whitespace().last()?.parse().ok())
            .unwrap_or(0)
    }
}

/// A received datagram.
pub(super) struct Datagram<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
}

/// The datagrams that a socket has received.
#[derive(Debug)]
pub(super) struct Inbox {
    buffers: [Box<[u8]>; BATCH_SIZE],
    meta: [RecvMeta; BATCH_SIZE],
    /// Number of filled buffers, index of the current one, and the offset in it.
    filled: usize,
    place: usize,
    offset: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            buffers: std::array::from_fn(|_| vec![0; LONGEST].into_boxed_slice()),
            meta: [RecvMeta::default(); BATCH_SIZE],
            filled: 0,
            place: 0,
            offset: 0,
        }
    }

    /// The next datagram, if there is one. The address that it was sent to is known if the socket has all.
    pub(super) fn next(&mut self, socket: &Socket) -> Option<Datagram<'_>> {
        if self.place == self.filled {
            self.place = 0;
            // An error of the socket is one of an earlier datagram; the next call reads on.
            self.filled = self.receive(socket).unwrap_or(0);
        }
        let (place, from) = (self.place, self.offset);
        if place == self.filled {
            return None;
        }
        let RecvMeta {
            len,
            stride,
            addr,
            dst_ip,
            ..
        } = self.meta[place];
        let until = (from + stride.max(1)).min(len);
        self.offset = until;
        if until == len {
            self.offset = 0;
            self.place += 1;
        }
        let bytes = self.buffers[place].get(from..until)?;
        Some(Datagram {
            bytes,
            from: addr,
            to: dst_ip,
        })
    }

    /// Receives into the buffers. Returns how many are filled.
    fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        if let Some(state) = &socket.state {
            let buffers = self.buffers.each_mut();
            let mut buffers = buffers.map(|buffer| IoSliceMut::new(buffer));
            return state.recv((&socket.udp).into(), &mut buffers, &mut self.meta);
        }
        let (length, from) = socket.udp.recv_from(&mut self.buffers[0])?;
        let meta = &mut self.meta[0];
        (meta.len, meta.stride, meta.addr) = (length, length, from);
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 2, 134, 159));

    fn server() -> (UdpSocket, SocketAddr) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("bound");
        (server, address)
    }

    /// The next datagram, and the address that it was sent to.
    fn wait_for(inbox: &mut Inbox, socket: &Socket) -> (Vec<u8>, Option<IpAddr>) {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(datagram) = inbox.next(socket) {
                return (datagram.bytes.to_vec(), datagram.to);
            }
            assert!(Instant::now() < until, "nothing came");
        }
    }

    #[test]
    fn a_socket_with_all_addresses_sends_from_the_one_that_is_asked_for_and_knows_where_it_was_reached()
     {
        let (server, at) = server();
        let loopback = Ipv4Addr::LOCALHOST.into();
        let (socket, mut inbox) = (
            Socket::open(SocketAddr::new(loopback, 0), true).expect("opened"),
            Inbox::new(),
        );
        for address in [loopback, OTHER] {
            socket.send(b"hello", at, address).expect("sent");
            let mut buffer = [0; 100];
            let (length, from) = server.recv_from(&mut buffer).expect("received");
            assert_eq!(from, SocketAddr::new(address, socket.port()));
            assert_eq!(&buffer[..length], b"hello");
            server.send_to(b"a", from).expect("sent");
            server.send_to(b"bc", from).expect("sent");
            for sent in ["a", "bc"] {
                let (bytes, to) = wait_for(&mut inbox, &socket);
                assert_eq!((bytes.as_slice(), to), (sent.as_bytes(), Some(address)));
            }
        }
    }

    #[test]
    fn a_socket_with_one_address_sends_from_it() {
        let (server, at) = server();
        let (socket, mut inbox) = (
            Socket::open(SocketAddr::new(OTHER, 0), false).expect("opened"),
            Inbox::new(),
        );
        socket.send(b"hello", at, OTHER).expect("sent");
        let (_, from) = server.recv_from(&mut [0; 100]).expect("received");
        assert_eq!(from, SocketAddr::new(OTHER, socket.port()));
        server.send_to(b"a", from).expect("sent");
        assert_eq!(wait_for(&mut inbox, &socket).0, b"a");
    }
}
