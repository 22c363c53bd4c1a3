//! Opens the sockets of all workers, before any of them reads.

use crate::driver::Driver;
use crate::inbox::Inbox;
use crate::options::Options;
use crate::running::{ControlPlane, Handle, Running};
use crate::stats::WorkerStats;
use crate::stream::{Listening, Shared};
use crate::udp::{Buffers, Sharing, SocketError, UdpSocket, steer};
use crate::worker::{Worker, WorkerContext, WorkerSocket};
use rustix::io::Errno;
use sip_transport::{Listener, Node, Protocol};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};
use tracing::warn;

/// How long in total to wait for addresses that are still in use. The kernel closes the sockets of a process that had an
/// `io_uring` only a moment after the process has exited, and its successor must not fail because of that.
const FOR_PREDECESSORS: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The entry point: [`Runtime::bind`].
#[derive(Debug)]
pub enum Runtime {}

impl Runtime {
    /// Opens one socket per listener and worker.
    ///
    /// Each listener needs a concrete address (see [`expand_wildcard`](crate::expand_wildcard)). Port 0 lets the kernel choose a
    /// port, the same for all workers. An empty `advertised` becomes the bound address. If an address is in use, binding is
    /// retried for up to one second in total.
    ///
    /// # Errors
    /// See [`BindError`]. On error, no socket stays open.
    pub fn bind(
        mut listeners: Vec<Listener>,
        workers: NonZeroU16,
        options: Options,
    ) -> Result<Bound, BindError> {
        let mut workers: Vec<Vec<WorkerSocket>> = (0..workers.get()).map(|_| Vec::new()).collect();
        let patient_until = Instant::now() + FOR_PREDECESSORS;
        for listener in &mut listeners {
            let sockets = open_listener(listener, workers.len(), &options, patient_until)?;
            for (worker, socket) in workers.iter_mut().zip(sockets) {
                worker.push(socket);
            }
        }
        // Start listening only now: all sockets are bound, so no other process can bind these addresses.
        for (listener, place) in listeners.iter().zip(0..) {
            let sockets = workers.iter().filter_map(|sockets| sockets.get(place));
            for socket in sockets {
                if let WorkerSocket::Streams(listening) = socket {
                    listening.start().map_err(failed(listener))?;
                }
            }
        }
        Ok(Bound {
            listeners,
            workers,
            options,
        })
    }
}

/// Opens the sockets of one listener, one per worker, and fills in the port that the kernel chose.
fn open_listener(
    listener: &mut Listener,
    workers: usize,
    options: &Options,
    patient_until: Instant,
) -> Result<Vec<WorkerSocket>, BindError> {
    if listener.address.ip().is_unspecified() {
        return Err(BindError::Wildcard {
            protocol: listener.protocol,
            address: listener.address,
        });
    }
    // Binding the first socket fails if another process already uses the address. The other sockets then share the address with it.
    let (first, others) = match (options.share_port, workers) {
        (true, _) => (Sharing::Shared, Sharing::Shared),
        (false, 1) => (Sharing::Exclusive, Sharing::Exclusive),
        (false, _) => (Sharing::SharedLater, Sharing::Shared),
    };
    let (socket, address) = loop {
        match open_socket(listener, first, options) {
            Err(BindError::InUse { .. }) if Instant::now() < patient_until => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            opened => break opened?,
        }
    };
    listener.address = address;
    if let WorkerSocket::Datagrams(socket) = &socket {
        warn_of_small_buffer(address, socket.receive_buffer(), options.receive_buffer);
    }
    let mut sockets = vec![socket];
    for _ in 1..workers {
        sockets.push(open_socket(listener, others, options)?.0);
    }
    // With a shared port, the group may contain other processes' sockets, which would get our datagrams.
    if options.steering && !options.share_port {
        steer_datagrams(address, &sockets);
    }
    if listener.advertised.is_empty() {
        listener.advertised = address.to_string();
    }
    Ok(sockets)
}

/// Lets the kernel deliver each datagram to the home worker of its call, if it can.
fn steer_datagrams(address: SocketAddr, sockets: &[WorkerSocket]) {
    let (Some(WorkerSocket::Datagrams(first)), workers @ 2..) = (sockets.first(), sockets.len())
    else {
        return;
    };
    if let Err(error) = steer(first.as_fd(), workers as u16) {
        warn!(
            %address,
            %error,
            "the kernel cannot steer datagrams to the worker of their call ({}): workers pass them to each other, which costs more CPU",
            if error.kind() == std::io::ErrorKind::OutOfMemory {
                "net.core.optmem_max is too small"
            } else {
                "set udp.steering = false to turn steering off"
            }
        );
    }
}

/// Opens one socket. Returns it with the address it is bound to.
fn open_socket(
    listener: &Listener,
    sharing: Sharing,
    options: &Options,
) -> Result<(WorkerSocket, SocketAddr), BindError> {
    let asked = listener.address;
    if listener.protocol == Protocol::Udp {
        let buffers = Buffers {
            receive: options.receive_buffer,
            send: options.send_buffer,
        };
        let socket = UdpSocket::open(asked, sharing, buffers).map_err(failed(listener))?;
        let address = socket.address().map_err(failed(listener))?;
        return Ok((WorkerSocket::Datagrams(socket), address));
    }
    let socket =
        Listening::open(asked, sharing, options.streams.keep_alive).map_err(failed(listener))?;
    let address = socket.address().map_err(failed(listener))?;
    Ok((WorkerSocket::Streams(socket), address))
}

fn failed(listener: &Listener) -> impl Fn(SocketError) -> BindError {
    let (protocol, address) = (listener.protocol, listener.address);
    move |error| BindError::from_socket(protocol, address, error)
}

fn warn_of_small_buffer(address: SocketAddr, granted: usize, asked: usize) {
    if granted < asked {
        warn!(
            %address,
            granted,
            asked,
            "the kernel grants a smaller receive buffer than configured, so bursts may be lost: \
             raise net.core.rmem_max"
        );
    }
}

/// Every socket of every worker, bound but not read yet. The kernel queues what arrives.
pub struct Bound {
    listeners: Vec<Listener>,
    /// The sockets of each worker, in the order of the listeners.
    workers: Vec<Vec<WorkerSocket>>,
    options: Options,
}

impl Bound {
    /// The listeners with the addresses that their sockets are bound to. A [`ListenerId`] is an index into this list.
    ///
    /// [`ListenerId`]: sip_transport::ListenerId
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Starts the worker threads. `node` builds the node of each worker. It runs on the calling thread, before the first datagram
    /// is read. `control_plane` is cloned for each worker.
    ///
    /// # Errors
    /// If the kernel does not support the requested event loop, or the machine is out of descriptors, memory or
    /// threads. Workers that are already running are stopped.
    pub fn start<N, C>(
        self,
        mut node: impl FnMut(u16) -> N,
        control_plane: &C,
    ) -> io::Result<Running<N::Control>>
    where
        N: Node + Send + 'static,
        N::Question: Send + 'static,
        N::Record: Send + 'static,
        N::Control: Send + 'static,
        C: ControlPlane<N::Question, N::Record>,
    {
        let Self {
            listeners,
            workers,
            mut options,
        } = self;
        options.event_loop = options.event_loop.settle()?;
        let inboxes = open_inboxes(workers.len(), &options)?;
        let stats: Arc<[Arc<WorkerStats>]> = workers.iter().map(|_| Arc::default()).collect();

        let connections = Arc::new(Shared::default());
        let shared_listeners: Arc<[Listener]> = listeners.clone().into();
        let mut ready = Vec::with_capacity(workers.len());
        for ((index, sockets), stats) in (0_u16..).zip(workers).zip(&*stats) {
            let context = WorkerContext {
                index,
                sockets,
                inboxes: Arc::clone(&inboxes),
                stats: Arc::clone(stats),
                control_plane: control_plane.clone(),
                listeners: Arc::clone(&shared_listeners),
                connections: Arc::clone(&connections),
            };
            ready.push(Worker::new(node(index), context, &options)?);
        }
        let mut running = Running::new(inboxes, stats, listeners);
        for worker in ready {
            running.spawn(worker)?;
        }
        Ok(running)
    }

    /// Makes a worker without a thread, for a program that drives it from its own event loop.
    ///
    /// # Errors
    /// If more than one worker was requested, if the event loop is not epoll, or if the machine is out of descriptors or memory.
    /// Only epoll has a descriptor that another event loop can wait for.
    pub fn drive<N, C>(self, node: N, control_plane: C) -> io::Result<Driver<N, C>>
    where
        N: Node,
        C: ControlPlane<N::Question, N::Record>,
    {
        let Self {
            listeners,
            workers,
            mut options,
        } = self;
        let Ok([sockets]) = <[Vec<WorkerSocket>; 1]>::try_from(workers) else {
            let reason = "a loop drives one worker: bind the sockets for one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        options.event_loop = options.event_loop.settle()?;
        let inboxes = open_inboxes(1, &options)?;
        let stats = Arc::<WorkerStats>::default();
        let context = WorkerContext {
            index: 0,
            sockets,
            inboxes: Arc::clone(&inboxes),
            stats: Arc::clone(&stats),
            control_plane,
            listeners: listeners.clone().into(),
            connections: Arc::default(),
        };
        let worker = Worker::new(node, context, &options)?;
        Driver::new(worker, Handle::new(inboxes), stats, listeners)
    }
}

fn open_inboxes<A>(count: usize, options: &Options) -> io::Result<Arc<[Inbox<A>]>> {
    let open = |_| {
        Inbox::open(
            options.waiting_answers,
            options.waiting_hand_overs,
            options.waiting_hand_over_bytes,
        )
    };
    (0..count).map(open).collect()
}

impl fmt::Debug for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Bound")
            .field("listeners", &self.listeners)
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

/// Why the sockets could not be opened. The cause is always the configuration or the machine.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket is bound there, even one that would share the port.
    InUse {
        /// The transport of the listener.
        protocol: Protocol,
        /// The address of the listener.
        address: SocketAddr,
    },
    /// The address is a wildcard.
    Wildcard {
        /// The transport of the listener.
        protocol: Protocol,
        /// The address of the listener.
        address: SocketAddr,
    },
    /// The kernel rejected it for another reason.
    Refused {
        /// The transport of the listener.
        protocol: Protocol,
        /// The address of the listener.
        address: SocketAddr,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BindError {
    fn from_socket(
        protocol: Protocol,
        address: SocketAddr,
        SocketError { step, errno }: SocketError,
    ) -> Self {
        match errno {
            Errno::ADDRINUSE => Self::InUse { protocol, address },
            _ => Self::Refused {
                protocol,
                address,
                step,
                source: errno.into(),
            },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { protocol, address } => {
                let list = if *protocol == Protocol::Udp {
                    "ss -lunp"
                } else {
                    "ss -ltnp"
                };
                write!(
                    formatter,
                    "{} {address} is in use: another process, or another listener of this one, is \
                     bound there (see `{list}`); stop it, or allow sharing the port",
                    protocol.via_token()
                )
            }
            Self::Wildcard { protocol, address } => {
                write!(
                    formatter,
                    "{} {address} is a wildcard: it must be expanded before binding",
                    protocol.via_token()
                )
            }
            Self::Refused {
                protocol,
                address,
                step,
                source,
            } => {
                let token = protocol.via_token();
                write!(formatter, "{token} {address}: cannot {step}: {source}")?;
                match Errno::from_io_error(source) {
                    Some(Errno::ADDRNOTAVAIL) => {
                        formatter.write_str("; no interface of this machine has this address")
                    }
                    Some(Errno::ACCESS) => {
                        formatter.write_str("; ports below 1024 need CAP_NET_BIND_SERVICE")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused { source, .. } => Some(source),
            _ => None,
        }
    }
}
