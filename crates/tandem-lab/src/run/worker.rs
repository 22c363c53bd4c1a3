//! The threads that run the phones.

use super::arrivals::Arrivals;
use super::messages::{HASHER, Port};
use super::phones::{Order, Phones, Source, Told};
use super::polling::{self, Polling};
use super::shared::Shared;
use super::timetable::{Due, Share};
use super::{Figures, Run};
use anyhow::anyhow;
use sip_runtime::tls::{SharedTls, TlsSettings};
use sip_runtime::{Clock, Handle, Options, Running, Runtime, WorkerStats};
use sip_transaction::{Limits, TimerSettings, Transactions};
use sip_transport::{Counter, Listener, ListenerId, Time};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a worker may take to report its counts.
const COUNTING: Duration = Duration::from_secs(20);

/// Maximum number of transactions per worker. A call has two that live for half a minute.
const TRANSACTIONS: usize = 8_000_000;

/// The bits of a unit's number that distinguish runs, of the 64 less those of its thread and of the thread's counter.
const SALT: u64 = 0xffff;

/// All workers.
pub(super) struct Workers(Vec<Worker>);

struct Worker {
    thread: Thread,
    clock: Clock,
    told: Receiver<Box<Told>>,
}

/// How the thread of a worker waits for messages.
enum Thread {
    /// It sleeps until a message arrives.
    Sleeping(Running<Order>),
    /// It never sleeps.
    Polling(Polling),
}

/// Messages lost on the way to the phones and from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Losses {
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub kernel_drops: u64,
    /// Messages that could not be sent.
    pub not_sent: u64,
}

impl Losses {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            kernel_drops: self.kernel_drops - before.kernel_drops,
            not_sent: self.not_sent - before.not_sent,
        }
    }
}

impl Workers {
    pub(super) fn start(run: &Run) -> anyhow::Result<Self> {
        // Tells the Call-IDs of this run from those of others, also on other machines.
        let salt = RandomState::new().hash_one(0_u8) & SALT;
        let clock = Clock::start();
        let threads = 0..run.fleet.workers;
        let bound = threads.clone().map(|index| Bound::open(run, index, clock));
        let bound = bound.collect::<anyhow::Result<Vec<_>>>()?;
        let ports = bound.iter().map(Bound::ports).collect();
        let shared = Arc::new(Shared::new(run.division(), ports));
        let workers = threads.zip(bound).map(|(index, bound)| {
            let phones = phones(run, (&shared, index), (salt, clock.now()));
            bound.start(phones, clock)
        });
        workers.collect::<anyhow::Result<_>>().map(Self)
    }

    pub(super) fn order(&self, order: &Order) -> anyhow::Result<()> {
        for worker in &self.0 {
            worker.order(order.clone())?;
        }
        Ok(())
    }

    /// Handles for orders from other threads, with the clock of each worker. Polling threads have none.
    pub(super) fn handles(&self) -> Vec<(Handle<Order>, Clock)> {
        let handle = |worker: &Worker| match &worker.thread {
            Thread::Sleeping(running) => Some((running.handle(), worker.clock)),
            Thread::Polling(_) => None,
        };
        self.0.iter().filter_map(handle).collect()
    }

    /// Starts the units of a run.
    pub(super) fn begin(&self, run: &Run) -> anyhow::Result<()> {
        for (index, worker) in (0..).zip(&self.0) {
            worker.order(Order::Begin(
                sources(run, index),
                run.warm_up + run.duration,
            ))?;
        }
        Ok(())
    }

    /// Counts since the last call, and units in progress.
    pub(super) fn tell(&mut self) -> anyhow::Result<(Figures, usize)> {
        self.order(&Order::Tell)?;
        let mut figures = Figures::default();
        let mut in_progress = 0;
        for worker in &self.0 {
            let told = worker.told.recv_timeout(COUNTING).map_err(|_| {
                let seconds = COUNTING.as_secs();
                anyhow!("a worker did not respond for {seconds} seconds")
            })?;
            figures.add(&told.figures);
            in_progress += told.in_progress;
        }
        Ok((figures, in_progress))
    }

    pub(super) fn losses(&self) -> Losses {
        let losses = self.0.iter().map(Worker::losses);
        losses.fold(Losses::default(), |sum, more| Losses {
            kernel_drops: sum.kernel_drops + more.kernel_drops,
            not_sent: sum.not_sent + more.not_sent,
        })
    }
}

/// The sockets of a worker, not yet read.
enum Bound {
    Sleeping(Box<sip_runtime::Bound>),
    Polling(polling::Bound),
}

impl Bound {
    fn open(run: &Run, index: u16, clock: Clock) -> anyhow::Result<Self> {
        let cpus = &run.fleet.cpus;
        let cpu = cpus.get(usize::from(index) % cpus.len().max(1)).copied();
        if run.fleet.polls {
            return polling::Bound::open(run, cpu).map(Self::Polling);
        }
        let bound = bind(run, cpu, clock)?;
        Ok(Self::Sleeping(Box::new(bound)))
    }

    fn ports(&self) -> Arc<[Port]> {
        match self {
            Self::Polling(bound) => bound.ports(),
            Self::Sleeping(bound) => {
                let listeners = (0..).map(ListenerId).zip(bound.listeners());
                let port = |(id, listener)| Port::new(listener, id);
                listeners.map(port).collect()
            }
        }
    }

    fn start(self, phones: Phones, clock: Clock) -> anyhow::Result<Worker> {
        let (tell, told) = channel();
        let thread = match self {
            Self::Polling(bound) => Thread::Polling(bound.start(phones, clock, tell)?),
            Self::Sleeping(bound) => {
                let mut phones = Some(phones);
                let phones = |_| phones.take().unwrap_or_else(|| unreachable!("one worker"));
                let questions = move |_, told| tell.send(told).map_err(|unsent| unsent.0);
                Thread::Sleeping(bound.start(phones, &questions)?)
            }
        };
        Ok(Worker {
            thread,
            clock,
            told,
        })
    }
}

impl Worker {
    fn order(&self, order: Order) -> anyhow::Result<()> {
        match &self.thread {
            Thread::Sleeping(running) => {
                let sent = running.send(0, order);
                sent.map_err(|unsent| anyhow!("{unsent}"))
            }
            Thread::Polling(polling) => polling.send(order),
        }
    }

    fn losses(&self) -> Losses {
        let running = match &self.thread {
            Thread::Sleeping(running) => running,
            Thread::Polling(polling) => return polling.losses(),
        };
        let stats = running.stats();
        let sum = |counter: fn(&WorkerStats) -> &Counter| -> u64 {
            stats.iter().map(|stats| counter(stats).value()).sum()
        };
        Losses {
            kernel_drops: sum(|stats| &stats.kernel_drops),
            not_sent: sum(|stats| &stats.send_buffer_full)
                + sum(|stats| &stats.send_errors)
                + sum(|stats| &stats.undeliverable),
        }
    }
}

fn bind(run: &Run, cpu: Option<usize>, clock: Clock) -> anyhow::Result<sip_runtime::Bound> {
    let fleet = &run.fleet;
    let places = (0..fleet.ports).flat_map(|port| {
        let addresses = (0..fleet.addresses).map(|place| further(fleet.first, place));
        addresses.map(move |address| SocketAddr::new(address, fleet.port(port)))
    });
    let listeners = places.map(|address| Listener {
        protocol: fleet.protocol,
        address,
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    });
    let mut options = Options {
        cpus: cpu.into_iter().collect(),
        receive_buffer: 8 << 20,
        clock,
        ..Options::default()
    };
    options.streams.max_per_peer = u32::MAX;
    options.streams.max_held_per_peer = usize::MAX;
    options.streams.is_client = true;
    if fleet.protocol.is_secure() {
        let settings = TlsSettings {
            verify_servers: false,
            resume_sessions: fleet.resume_sessions,
            ..TlsSettings::default()
        };
        let context = settings.load(None)?;
        options.streams.tls = Some(SharedTls::new(context));
    }
    Ok(Runtime::bind(
        listeners.collect(),
        NonZeroU16::MIN,
        options,
    )?)
}

/// The address `place` positions after `first`.
pub(super) fn further(first: IpAddr, place: u16) -> IpAddr {
    match first {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(place.into())).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(place.into())).into(),
    }
}

fn phones(run: &Run, own: (&Arc<Shared>, u16), (salt, now): (u64, Time)) -> Phones {
    let limits = Limits {
        servers: 0,
        clients: TRANSACTIONS,
        bytes: usize::MAX,
        amplification: 3,
    };
    let mut timers = TimerSettings::default();
    if run.fleet.polls {
        // A transaction that is over need not wait for duplicates of its response (Timer K). The memory of hundreds of thousands of
        // them would cost a thread that must keep up with the server. A duplicate then counts as late.
        timers.t4 = Duration::ZERO;
    }
    Phones::new(
        run.plan.clone(),
        own,
        Transactions::new(now, timers, limits, *HASHER, 0),
        (salt, now),
    )
}

/// The part of a window that one of the workers has.
fn share(window: u32, index: u16, workers: u16) -> usize {
    let until = |index: u64| u64::from(window) * index / u64::from(workers);
    (until(u64::from(index) + 1) - until(u64::from(index))) as usize
}

/// The traffic of this worker.
fn sources(run: &Run, index: u16) -> Vec<Source> {
    let own = run.division().phones(index);
    let activities = run.profile.activities.iter().zip(0_u64..);
    let sources = activities.map(|(activity, place)| Source {
        kind: activity.kind,
        arrivals: match (&run.timetable, run.window) {
            (Some(timetable), _) => Due::Planned(Share::new(timetable.clone(), own.clone())),
            (None, Some(window)) => Due::Window(share(window, index, run.fleet.workers)),
            (None, None) => Due::Paced(Box::new(Arrivals::new(
                activity.rate.share(usize::from(run.fleet.workers)),
                run.spacing,
                run.seed ^ (place << 32) ^ u64::from(index) << 48,
            ))),
        },
    });
    sources.collect()
}
