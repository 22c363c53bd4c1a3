//! One of the two stacks: its worker, its orders and its counts.

use super::Cell;
use serde::{Deserialize, Serialize};
use sip_runtime::{Bound, Options, Running, Runtime, WorkerStats};
use sip_transport::{Counter, Listener, Node};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// First address of the server stack; it also uses the following ones.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// First address of the client stack.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Ports per address. The kernel searches for a free port number by trial, which takes long when most are in use.
const PORTS_OF_ADDRESS: u32 = 1_000;

/// How long an idle stack may take to report its counts.
const COUNTING: Duration = Duration::from_secs(10);

/// Orders for a stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// For the client stack: send all transactions. Its counts follow at the end.
    Begin,
    /// Report the counts.
    Count,
}

/// The counts of a stack.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) failed: u64,
    pub(super) retransmitted: u64,
    pub(super) lost: u64,
}

/// A running stack.
pub(super) struct Side {
    running: Running<Order>,
    told: Receiver<Counts>,
}

/// Opens this number of ports, from an address on.
pub(super) fn bind(cell: &Cell, first: Ipv4Addr, ports: u16) -> io::Result<Bound> {
    let listener = |port: u32| Listener {
        protocol: cell.transport.protocol(),
        address: (
            Ipv4Addr::from_bits(first.to_bits() + port / PORTS_OF_ADDRESS),
            0,
        )
            .into(),
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    };
    let mut options = Options {
        event_loop: cell.event_loop.kind(),
        cpus: vec![cell.cpu],
        // The other stack uses the core while this one sleeps, so messages are batched anyway.
        gather: Duration::ZERO,
        ..Options::default()
    };
    options.streams.max_per_peer = u32::MAX;
    options.streams.max_held_per_peer = usize::MAX;
    let listeners = (0..ports.into()).map(listener).collect();
    Runtime::bind(listeners, NonZeroU16::MIN, options).map_err(|error| {
        io::Error::other(format!(
            "cannot open {ports} ports from {first} on: {error} (the kernel chooses them from net.ipv4.ip_local_port_range)"
        ))
    })
}

impl Side {
    /// Starts the stack with its node.
    pub(super) fn start<N>(bound: Bound, node: impl FnMut(u16) -> N) -> io::Result<Self>
    where
        N: Node<Question = Counts, Record = Infallible, Control = Order> + Send + 'static,
    {
        let (tell, told) = channel();
        let questions = move |_, counts| tell.send(counts).map_err(|unsent| unsent.0);
        let running = bound.start(node, &questions)?;
        Ok(Self { running, told })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let listeners = self.running.listeners().iter();
        listeners.map(|listener| listener.address).collect()
    }

    pub(super) fn order(&self, order: Order) -> io::Result<()> {
        self.running.send(0, order).map_err(io::Error::other)
    }

    /// Waits for its counts.
    pub(super) fn wait(&self, patience: Duration) -> io::Result<Counts> {
        self.told.recv_timeout(patience).map_err(|_| {
            let seconds = patience.as_secs();
            io::Error::other(format!("the stack did not respond for {seconds} seconds"))
        })
    }

    /// Messages lost on the way to it and from it.
    pub(super) fn lost(&self) -> u64 {
        let stats = self.running.stats();
        let of_worker = |stats: &Arc<WorkerStats>| {
            let counters = [
                &stats.kernel_drops,
                &stats.receive_errors,
                &stats.send_buffer_full,
                &stats.send_errors,
                &stats.undeliverable,
            ];
            counters.map(Counter::value).iter().sum::<u64>()
        };
        stats.iter().map(of_worker).sum()
    }

    /// Stops the stack, and returns its counts.
    pub(super) fn end(self) -> io::Result<Counts> {
        self.order(Order::Count)?;
        let mut counts = self.wait(COUNTING)?;
        counts.lost += self.lost();
        self.stop();
        Ok(counts)
    }

    pub(super) fn stop(self) {
        self.running.stop();
    }
}
