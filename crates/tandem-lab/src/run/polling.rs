//! A thread of phones that never sleeps while units are in progress: it polls its sockets.
//!
//! A message to a sleeping thread costs its sender the CPU time of waking it, and on the loopback interface the sender is the server under
//! test. Each message leaves in a system call of its own, from the address of its phone. One socket serves any number of local addresses,
//! because the CPU time that the kernel takes to deliver to one of thousands of sockets would also be the server's.

use super::messages::Port;
use super::phones::{Order, Phones, Told};
use super::socket::{Inbox, Socket};
use super::worker::{Losses, further};
use super::{Fleet, Run};
use anyhow::bail;
use rustix::thread::{CpuSet, sched_setaffinity};
use sip_runtime::Clock;
use sip_transport::{Counter, Flow, Listener, ListenerId, Node, Output, Protocol};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How long the thread sleeps at a time while nothing is in progress.
const REST: Duration = Duration::from_millis(1);
/// How often the kernel's counters of dropped datagrams are read.
const DROPS_EVERY: Duration = Duration::from_secs(1);

/// The sockets of a polling thread, not yet read.
pub(super) struct Bound {
    sockets: Vec<Socket>,
    fleet: Fleet,
    cpu: Option<usize>,
}

/// A polling thread. It ends when this is dropped.
pub(super) struct Polling {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    lost: Arc<Lost>,
}

#[derive(Default)]
struct Lost {
    kernel_drops: Counter,
    not_sent: Counter,
}

impl Bound {
    /// Opens one socket per port of the run. Each serves all of the run's addresses. The thread will run on `cpu`, if given.
    pub(super) fn open(run: &Run, cpu: Option<usize>) -> anyhow::Result<Self> {
        let has_addresses = run.fleet.addresses > 1;
        let open = |place| {
            let port = run.fleet.port(place);
            Socket::open(SocketAddr::new(run.fleet.first, port), has_addresses)
        };
        Ok(Self {
            sockets: (0..run.fleet.ports)
                .map(open)
                .collect::<anyhow::Result<_>>()?,
            fleet: run.fleet.clone(),
            cpu,
        })
    }

    /// A port for each socket and address. Consecutive ones have consecutive addresses.
    pub(super) fn ports(&self) -> Arc<[Port]> {
        let addresses = 0..self.fleet.addresses;
        let places = self.sockets.iter().flat_map(|socket| {
            let address = |place| SocketAddr::new(further(self.fleet.first, place), socket.port());
            addresses.clone().map(address)
        });
        let port = |(address, id): (SocketAddr, u16)| {
            let listener = Listener {
                protocol: Protocol::Udp,
                address,
                prefix_length: 8,
                advertised: address.to_string(),
                behind_balancer: false,
            };
            Port::new(&listener, ListenerId(id))
        };
        places.zip(0..=u16::MAX).map(port).collect()
    }

    /// Starts the thread.
    pub(super) fn start(
        self,
        phones: Phones,
        clock: Clock,
        told: Sender<Box<Told>>,
    ) -> anyhow::Result<Polling> {
        let (sender, orders) = channel();
        let lost = Arc::<Lost>::default();
        let poller = Poller {
            phones,
            inboxes: self.sockets.iter().map(|_| Inbox::new()).collect(),
            sockets: self.sockets,
            fleet: self.fleet,
            output: Output::default(),
            orders,
            told,
            clock,
            lost: Arc::clone(&lost),
            drops_read: Instant::now(),
        };
        let cpu = self.cpu;
        let thread = Builder::new().name("phones".into()).spawn(move || {
            pin(cpu);
            poller.run();
        })?;
        Ok(Polling {
            orders: Some(sender),
            thread: Some(thread),
            lost,
        })
    }
}

impl Polling {
    pub(super) fn send(&self, order: Order) -> anyhow::Result<()> {
        let sent = self.orders.as_ref().map(|orders| orders.send(order));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => bail!("a thread of phones has ended"),
        }
    }

    pub(super) fn losses(&self) -> Losses {
        Losses {
            kernel_drops: self.lost.kernel_drops.value(),
            not_sent: self.lost.not_sent.value(),
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

fn pin(cpu: Option<usize>) {
    let mut set = CpuSet::new();
    if let Some(cpu) = cpu.filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None, &set) {
            eprintln!("cannot pin a thread of phones to processor {cpu}: {error}");
        }
    }
}

struct Poller {
    phones: Phones,
    sockets: Vec<Socket>,
    /// One per socket.
    inboxes: Vec<Inbox>,
    fleet: Fleet,
    output: Output<Box<Told>>,
    orders: Receiver<Order>,
    told: Sender<Box<Told>>,
    clock: Clock,
    lost: Arc<Lost>,
    drops_read: Instant,
}

impl Poller {
    fn run(mut self) {
        loop {
            match self.orders.try_recv() {
                Ok(order) => {
                    self.count_drops();
                    let now = self.clock.now();
                    self.phones.control(now, order, &mut self.output);
                    self.deliver();
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            let has_received = self.receive();
            let now = self.clock.now();
            if self.phones.next_deadline().is_some_and(|due| due <= now) {
                self.phones.expire(now, &mut self.output);
                self.deliver();
            } else if !has_received && self.phones.is_at_rest() {
                sleep(REST);
            }
        }
    }

    /// Handles one datagram of each socket in turn, until all sockets are empty. Returns whether there was one.
    fn receive(&mut self) -> bool {
        let mut has_received = false;
        loop {
            let mut is_empty = true;
            for place in 0..self.sockets.len() {
                is_empty &= !self.receive_from(place);
            }
            if is_empty {
                return has_received;
            }
            has_received = true;
        }
    }

    fn receive_from(&mut self, place: usize) -> bool {
        let (socket, inbox) = (&self.sockets[place], &mut self.inboxes[place]);
        let Some(datagram) = inbox.next(socket) else {
            return false;
        };
        let address = datagram.to.and_then(|to| self.fleet.place_of(to));
        let port = place as u16 * self.fleet.addresses + address.unwrap_or_default();
        let flow = Flow::to(ListenerId(port), datagram.from);
        let now = self.clock.now();
        let output = &mut self.output;
        self.phones.receive(now, flow, datagram.bytes, output);
        self.deliver();
        true
    }

    fn deliver(&mut self) {
        if self.output.is_empty() {
            return;
        }
        for message in self.output.outgoing() {
            let (place, address) = self.origin_of(message.flow.listener);
            let bytes = self.output.bytes().get(message.range.clone());
            let sent =
                self.sockets[place].send(bytes.unwrap_or_default(), message.flow.remote, address);
            if sent.is_err() {
                self.lost.not_sent.add(1);
            }
        }
        for told in self.output.drain_questions() {
            // The run may have ended.
            let _ = self.told.send(told);
        }
        self.output.clear();
    }

    /// The socket and the local address of a port.
    fn origin_of(&self, port: ListenerId) -> (usize, IpAddr) {
        let (port, addresses) = (port.0, self.fleet.addresses);
        let address = further(self.fleet.first, port % addresses);
        (usize::from(port / addresses), address)
    }

    fn count_drops(&mut self) {
        if self.drops_read.elapsed() < DROPS_EVERY {
            return;
        }
        self.drops_read = Instant::now();
        let drops = self.sockets.iter().map(Socket::kernel_drops).sum();
        self.lost.kernel_drops.set(drops);
    }
}
