//! The thread and the socket of a gateway.

use super::calls::Calls;
use super::{Behaviour, Counts};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Receive buffer in bytes: some thousand requests, in case the thread waits for its processor.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Longest datagram, in bytes.
const LONGEST: usize = 65_536;
/// How soon the thread notices an order or a timer while nothing arrives.
const LOOK: Duration = Duration::from_millis(10);

/// A gateway. It ends when this is dropped.
#[derive(Debug)]
pub struct Agent {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    behaviour: Mutex<Behaviour>,
    counts: Mutex<Counts>,
    is_over: AtomicBool,
}

impl Agent {
    /// Starts a gateway at this address. With port 0, the kernel chooses the port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let socket = open(address).map_err(|error| {
            io::Error::new(error.kind(), format!("gateway at {address}: {error}"))
        })?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let gateway = Gateway {
            address,
            shared: Arc::clone(&shared),
            calls: Calls::new(address),
        };
        let thread = thread::Builder::new().name(format!("gateway-{}", address.port()));
        let thread = thread.spawn(move || gateway.serve(socket))?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does with all further datagrams. Its port is closed or open some milliseconds later.
    pub fn behave(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, its counts have shown that.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // If the kernel grants less, the gateway runs with that.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER));
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

/// What the thread owns.
struct Gateway {
    address: SocketAddr,
    shared: Arc<Shared>,
    calls: Calls,
}

impl Gateway {
    fn serve(mut self, socket: UdpSocket) {
        let mut socket = Some(socket);
        let mut buffer = vec![0; LONGEST];
        while !self.shared.is_over.load(Relaxed) {
            if self.behaviour() == Behaviour::Closed {
                socket = None;
                thread::sleep(LOOK);
                continue;
            }
            // Another program may have taken the port. The gateway then stays away.
            let Some(open) = socket.take().or_else(|| open(self.address).ok()) else {
                thread::sleep(LOOK);
                continue;
            };
            self.receive(&open, &mut buffer);
            socket = Some(open);
        }
    }

    fn behaviour(&self) -> Behaviour {
        *lock(&self.shared.behaviour)
    }

    /// Waits for a datagram, handles it, and sends what is due.
    fn receive(&mut self, socket: &UdpSocket, buffer: &mut [u8]) {
        let received = socket.recv_from(buffer);
        // It may have changed meanwhile.
        let behaviour = self.behaviour();
        let mut send = |bytes: &[u8], to| {
            // A response that cannot be sent is lost, as any datagram may be.
            let _ = socket.send_to(bytes, to);
        };
        let now = Instant::now();
        // An error means that nothing has arrived in time, or that an earlier response has caused an ICMP error.
        if let Ok((length, from)) = received {
            let datagram = buffer.get(..length).unwrap_or_default();
            self.calls
                .receive(now, datagram, from, behaviour, &mut send);
        }
        if !behaviour.is_away() {
            self.calls.expire(now, &mut send);
        }
        *lock(&self.shared.counts) = self.calls.counts;
    }
}
