//! UDP sockets with large buffers towards one server. Phones share one local address, or each has an address of its own.

use crate::run::own_address;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Required size of the receive buffer: a smaller one would drop messages and invalidate the run.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Longest datagram, or train of datagrams that the kernel has coalesced (GRO).
const LONGEST: usize = 1 << 16;
/// The address of phone 0 if each phone has its own; the others follow. All of 127/8 belongs to the loopback interface.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 0);
/// Number of phones that fit there.
pub(crate) const MOST_ADDRESSES: u32 = 0x00f0_0000;

/// The address of a phone with its own address.
pub(crate) fn address_of_phone(number: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(FIRST) + number % MOST_ADDRESSES).into()
}

#[derive(Debug)]
pub(crate) struct Socket {
    udp: UdpSocket,
    /// With an address per phone: sends from an address, and tells which one received.
    state: Option<UdpSocketState>,
    server: SocketAddr,
    local: SocketAddr,
}

impl Socket {
    /// Opens a socket on any port: on the address that the server sees, or for an address per phone.
    pub(crate) fn open(server: SocketAddr, own_addresses: bool) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            ([0; 4], 0).into()
        } else {
            ([0_u16; 8], 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        let local = SocketAddr::new(own_address(server)?, socket.local_addr()?.port());
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
        }
        let granted = sockopt::socket_recv_buffer_size(&socket)?;
        if granted < RECEIVE_BUFFER {
            let message = format!(
                "receive buffer is {granted} bytes, not {RECEIVE_BUFFER}: raise net.core.rmem_max"
            );
            return Err(io::Error::other(message));
        }
        socket.set_nonblocking(true)?;
        let state = own_addresses.then(|| UdpSocketState::new((&socket).into()));
        Ok(Self {
            state: state.transpose()?,
            udp: socket,
            server,
            local,
        })
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends to the server, from this address if phones have their own.
    pub(crate) fn send(&self, message: &[u8], from: IpAddr) -> io::Result<()> {
        loop {
            let sent = match &self.state {
                Some(state) => {
                    let transmit = Transmit {
                        destination: self.server,
                        ecn: None,
                        contents: message,
                        segment_size: None,
                        src_ip: Some(from),
                    };
                    state.try_send((&self.udp).into(), &transmit)
                }
                None => self.udp.send_to(message, self.server).map(drop),
            };
            match sent {
                // On loopback a full queue drains at once.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                sent => return sent,
            }
        }
    }

    /// Datagrams that the kernel dropped because the buffer was full.
    pub(crate) fn kernel_drops(&self) -> u64 {
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

/// The datagrams that a socket has received.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffers: [Box<[u8]>; BATCH_SIZE],
    meta: [RecvMeta; BATCH_SIZE],
    /// Number of filled buffers, index of the current one, and the offset in it.
    filled: usize,
    place: usize,
    offset: usize,
}

/// A datagram and its destination address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) to: IpAddr,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            buffers: std::array::from_fn(|_| vec![0; LONGEST].into_boxed_slice()),
            meta: [RecvMeta::default(); BATCH_SIZE],
            filled: 0,
            place: 0,
            offset: 0,
        }
    }

    /// The next datagram, if there is one.
    pub(crate) fn next(&mut self, socket: &Socket) -> io::Result<Option<Datagram<'_>>> {
        if self.place == self.filled {
            self.place = 0;
            self.filled = self.receive(socket)?;
        }
        let (place, from) = (self.place, self.offset);
        if place == self.filled {
            return Ok(None);
        }
        let RecvMeta { len, stride, .. } = self.meta[place];
        let until = (from + stride.max(1)).min(len);
        self.offset = until;
        if until == len {
            self.offset = 0;
            self.place += 1;
        }
        let to = self.meta[place].dst_ip.unwrap_or(socket.local.ip());
        let bytes = self.buffers[place].get(from..until);
        Ok(bytes.map(|bytes| Datagram { bytes, to }))
    }

    /// Receives into the buffers. Returns how many are filled.
    fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        let received = match &socket.state {
            Some(state) => {
                let buffers = self.buffers.each_mut();
                let mut buffers = buffers.map(|buffer| IoSliceMut::new(buffer));
                state.recv((&socket.udp).into(), &mut buffers, &mut self.meta)
            }
            None => socket.udp.recv(&mut self.buffers[0]).map(|length| {
                let meta = &mut self.meta[0];
                (meta.len, meta.stride, meta.dst_ip) = (length, length, None);
                1
            }),
        };
        match received {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(0)
            }
            received => received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait_for(inbox: &mut Inbox, socket: &Socket) -> (Vec<u8>, IpAddr) {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(datagram) = inbox.next(socket).expect("received") {
                return (datagram.bytes.to_vec(), datagram.to);
            }
            assert!(Instant::now() < until, "nothing came");
        }
    }

    #[test]
    fn each_phone_sends_from_its_own_address_and_is_reached_there() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = server.local_addr().expect("bound");
        let (socket, mut inbox) = (Socket::open(at, true).expect("opened"), Inbox::new());
        let mut buffer = [0; 100];
        for phone in [0, 1, 255, 256, 99_999] {
            let address = address_of_phone(phone);
            socket.send(b"hello", address).expect("sent");
            let (length, from) = server.recv_from(&mut buffer).expect("received");
            assert_eq!(from, SocketAddr::new(address, socket.local().port()));
            assert_eq!(&buffer[..length], b"hello");
            server.send_to(b"a", from).expect("sent");
            server.send_to(b"bc", from).expect("sent");
            assert_eq!(wait_for(&mut inbox, &socket), (b"a".to_vec(), address));
            assert_eq!(wait_for(&mut inbox, &socket), (b"bc".to_vec(), address));
        }
        assert_eq!(address_of_phone(99_999).to_string(), "127.2.134.159");
    }

    #[test]
    fn phones_that_share_an_address_send_from_that_which_the_server_sees() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = server.local_addr().expect("bound");
        let (socket, mut inbox) = (Socket::open(at, false).expect("opened"), Inbox::new());
        socket.send(b"hello", address_of_phone(7)).expect("sent");
        let (_, from) = server.recv_from(&mut [0; 100]).expect("received");
        assert_eq!(from, socket.local());
        server.send_to(b"a", from).expect("sent");
        assert_eq!(wait_for(&mut inbox, &socket), (b"a".to_vec(), from.ip()));
    }
}
