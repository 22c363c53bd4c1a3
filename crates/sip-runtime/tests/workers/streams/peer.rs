//! A peer of a switch, with what it receives.

use super::switch::framed;
use crate::workers::script::{PATIENCE, eventually};
use sip_message::{Frame, Framer, Message};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

pub struct Peer<S = TcpStream> {
    pub stream: S,
    framer: Framer,
    buffer: Vec<u8>,
}

/// A connection with timeouts, so that no operation blocks forever.
pub fn connected(server: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(server).expect("connect"))
}

pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Accepts the next connection.
pub fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut accepted = None;
    eventually(|| {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.expect("a connection");
    stream.set_nonblocking(false).expect("a socket");
    patient(stream)
}

/// Makes the connection end with a reset.
pub fn reset_at_the_end(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).expect("linger");
}

impl Peer {
    pub fn of(server: SocketAddr) -> Self {
        Self::over(TcpStream::connect(server).expect("connect"))
    }

    /// A peer with the address 127.0.0.2.
    pub fn from_another_address(server: SocketAddr) -> Self {
        Self::from_host(2, server)
    }

    /// A peer with the address 127.0.0.`host`.
    pub fn from_host(host: u8, server: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddr::from(([127, 0, 0, host], 0))).expect("bind");
        connect(&socket, &server).expect("connect");
        Self::over(socket.into())
    }

    /// A peer with a small receive buffer.
    pub fn with_a_small_buffer(server: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_recv_buffer_size(&socket, 4_096).expect("a buffer");
        connect(&socket, &server).expect("connect");
        Self::over(socket.into())
    }

    pub fn over(stream: TcpStream) -> Self {
        Self::on(patient(stream))
    }
}

impl<S: Read + Write> Peer<S> {
    /// A peer on any stream, for example TLS.
    pub fn on(stream: S) -> Self {
        Self {
            stream,
            framer: Framer::new(65_536, 16 << 20),
            buffer: Vec::new(),
        }
    }

    pub fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).expect("sent");
        self.stream.flush().expect("sent");
    }

    /// The body of the next message.
    pub fn receive(&mut self) -> String {
        loop {
            match self.framer.next(&self.buffer).expect("framed") {
                Frame::Message(length) => {
                    let octets: Vec<u8> = self.buffer.drain(..length).collect();
                    let message = Message::parse(&octets).expect("a message");
                    return String::from_utf8(message.body().to_vec()).expect("text");
                }
                Frame::Incomplete => {}
                other => panic!("{other:?}"),
            }
            let mut octets = [0; 16_000];
            let count = self.stream.read(&mut octets).expect("more");
            assert!(count > 0, "closed");
            self.buffer.extend_from_slice(&octets[..count]);
        }
    }

    pub fn asks(&mut self, body: &str) -> String {
        self.send(&framed(body));
        self.receive()
    }

    /// Waits until the other side closes. Returns what arrived before.
    pub fn until_closed(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        match self.stream.read_to_end(&mut octets) {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                ) => {}
            Err(error) => panic!("{error}"),
        }
        octets
    }
}
