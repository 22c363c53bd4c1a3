//! `udp-floor ADDRESS`: echoes every datagram. Its cost is the kernel's share for one message in and one out, on this machine today. No
//! SIP server over plain sockets can cost less.

use rustix::net::sockopt;
use std::net::UdpSocket;
use std::process::ExitCode;

const RECEIVE_BUFFER: usize = 4 << 20;

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: udp-floor ADDRESS");
        return ExitCode::from(2);
    };
    match reflect(&address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udp-floor: {address}: {error}");
            ExitCode::from(1)
        }
    }
}

fn reflect(address: &str) -> std::io::Result<()> {
    let socket = UdpSocket::bind(address)?;
    // As large as the servers' buffers. If the kernel grants less, run with that.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER));
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(buffer.get(..length).unwrap_or_default(), from)?;
    }
}
