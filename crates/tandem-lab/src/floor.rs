//! A server that sends each datagram back as its own response. Its cost is the kernel's share for one message in and one out, on this
//! machine today. No SIP server over plain sockets can cost less.

use rustix::net::sockopt;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// As large as the receive buffers of the servers that it is compared with, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Longest datagram, in bytes.
const LONGEST: usize = 65_536;
/// The beginning of a response. The rest of the start line becomes its reason phrase.
const STATUS: &[u8] = b"SIP/2.0 200 OK";

/// Serves until the socket fails.
///
/// # Errors
/// The address cannot be bound, or the socket fails.
pub fn serve(address: SocketAddr) -> io::Result<Infallible> {
    let socket = UdpSocket::bind(address)?;
    // If the kernel grants less, run with that.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER));
    let mut buffer = vec![0; LONGEST];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        let datagram = buffer.get_mut(..length).unwrap_or_default();
        respond_in_place(datagram);
        socket.send_to(datagram, from)?;
    }
}

/// Turns a request into its response, of the same length.
fn respond_in_place(request: &mut [u8]) {
    let end = request.iter().position(|byte| *byte == b'\r');
    let line = request.get_mut(..end.unwrap_or_default());
    if let Some((status, rest)) = line.and_then(|line| line.split_at_mut_checked(STATUS.len())) {
        status.copy_from_slice(STATUS);
        rest.fill(b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::Message;

    #[test]
    fn a_request_becomes_its_response_of_the_same_length() {
        let request = b"NOTIFY sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK1\r\n\
                        From: <sip:a@example.org>;tag=1\r\nTo: <sip:a@example.org>\r\nCall-ID: 1\r\nCSeq: 1 NOTIFY\r\n\
                        Content-Length: 0\r\n\r\n";
        let mut bytes = request.to_vec();
        respond_in_place(&mut bytes);
        let response = Message::parse(&bytes).expect("a response");
        assert!(!response.is_request());
        assert_eq!(response.status(), 200);
        assert_eq!(bytes.len(), request.len());
    }

    #[test]
    fn a_datagram_that_is_no_request_stays_as_it_is() {
        for datagram in [&b""[..], b"\r\n\r\n", b"short\r\n", b"no line"] {
            let mut bytes = datagram.to_vec();
            respond_in_place(&mut bytes);
            assert_eq!(bytes, datagram);
        }
    }
}
