//! The threads that run the phones.

use super::arrivals::Arrivals;
use super::messages::{HASHER, Port};
use super::phones::{Order, Phones, Source, Told};
use super::timetable::{Due, Share};
use super::{Figures, Run};
use sip_runtime::tls::{SharedTls, TlsSettings};
use sip_runtime::{Bound, Clock, Handle, Options, Running, Runtime, WorkerStats};
use sip_transaction::{Limits, TimerSettings, Transactions};
use sip_transport::{Counter, Listener, ListenerId};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a worker may take to report its counts.
const COUNTING: Duration = Duration::from_secs(20);

/// Maximum number of transactions per worker. A call has two that live for half a minute.
const TRANSACTIONS: usize = 8_000_000;

/// All workers.
pub(super) struct Workers(Vec<Worker>);

struct Worker {
    running: Running<Order>,
    clock: Clock,
    told: Receiver<Box<Told>>,
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
    pub(super) fn start(run: &Run) -> io::Result<Self> {
        let salt = u64::from(std::process::id() & 0xffff) << 8;
        let workers = (0..run.fleet.workers).map(|index| Worker::start(run, index, salt));
        workers.collect::<io::Result<_>>().map(Self)
    }

    pub(super) fn order(&self, order: &Order) -> io::Result<()> {
        for worker in &self.0 {
            worker
                .running
                .send(0, order.clone())
                .map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Handles for orders from other threads, with the clock of each worker.
    pub(super) fn handles(&self) -> Vec<(Handle<Order>, Clock)> {
        let handle = |worker: &Worker| (worker.running.handle(), worker.clock);
        self.0.iter().map(handle).collect()
    }

    /// Starts the units of a run.
    pub(super) fn begin(&self, run: &Run) -> io::Result<()> {
        for (index, worker) in (0..).zip(&self.0) {
            let order = Order::Begin(sources(run, index), run.warm_up + run.duration);
            worker.running.send(0, order).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Counts since the last call, and units in progress.
    pub(super) fn tell(&mut self) -> io::Result<(Figures, usize)> {
        self.order(&Order::Tell)?;
        let mut figures = Figures::default();
        let mut in_progress = 0;
        for worker in &self.0 {
            let told = worker.told.recv_timeout(COUNTING).map_err(|_| {
                let seconds = COUNTING.as_secs();
                io::Error::other(format!("a worker did not respond for {seconds} seconds"))
            })?;
            figures.add(&told.figures);
            in_progress += told.in_progress;
        }
        Ok((figures, in_progress))
    }

    pub(super) fn losses(&self) -> Losses {
        let sum = |counters: &dyn Fn(&WorkerStats) -> u64| {
            let stats = self.0.iter().map(|worker| worker.running.stats());
            stats
                .map(|stats| stats.iter().map(|stats| counters(stats)).sum::<u64>())
                .sum()
        };
        let not_sent = |stats: &WorkerStats| {
            let counters = [
                &stats.send_buffer_full,
                &stats.send_errors,
                &stats.undeliverable,
            ];
            counters.map(Counter::value).iter().sum()
        };
        Losses {
            kernel_drops: sum(&|stats| stats.kernel_drops.value()),
            not_sent: sum(&not_sent),
        }
    }
}

impl Worker {
    fn start(run: &Run, index: u16, salt: u64) -> io::Result<Self> {
        let clock = Clock::start();
        let bound = bind(run, index, clock)?;
        let phones = phones(run, index, salt, &bound, &clock);
        let mut phones = Some(phones);
        let (tell, told) = channel();
        let questions = move |_, told| tell.send(told).map_err(|unsent| unsent.0);
        let running = bound.start(
            |_| phones.take().unwrap_or_else(|| unreachable!("one worker")),
            &questions,
        )?;
        Ok(Self {
            running,
            clock,
            told,
        })
    }
}

fn bind(run: &Run, index: u16, clock: Clock) -> io::Result<Bound> {
    let fleet = &run.fleet;
    let sockets = usize::from(fleet.ports) * usize::from(fleet.addresses);
    let addresses = (0..fleet.addresses).map(|place| further(fleet.first, place));
    let listeners = addresses.cycle().take(sockets).map(|address| Listener {
        protocol: fleet.protocol,
        address: SocketAddr::new(address, 0),
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    });
    let cpus = fleet.cpus.get(usize::from(index) % fleet.cpus.len().max(1));
    let mut options = Options {
        cpus: cpus.copied().into_iter().collect(),
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
        let context = settings.load(None).map_err(io::Error::other)?;
        options.streams.tls = Some(SharedTls::new(context));
    }
    Runtime::bind(listeners.collect(), NonZeroU16::MIN, options).map_err(io::Error::other)
}

/// The address `place` positions after `first`.
fn further(first: IpAddr, place: u16) -> IpAddr {
    match first {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(place.into())).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(place.into())).into(),
    }
}

/// The phones of this worker: the first one, and the one after the last.
fn own(run: &Run, index: u16) -> (u32, u32) {
    let (workers, subscribers) = (u64::from(run.fleet.workers), &run.plan.subscribers);
    let begin = |index: u64| (u64::from(subscribers.count) * index / workers) as u32;
    let index = u64::from(index);
    let first = subscribers.first;
    (first + begin(index), first + begin(index + 1))
}

fn phones(run: &Run, index: u16, salt: u64, bound: &Bound, clock: &Clock) -> Phones {
    let (from, until) = own(run, index);
    let ports = (0..).map(ListenerId).zip(bound.listeners());
    let ports = ports.map(|(id, listener)| Port::new(listener, id));
    let limits = Limits {
        servers: 0,
        clients: TRANSACTIONS,
        bytes: usize::MAX,
        amplification: 3,
    };
    let now = clock.now();
    Phones::new(
        run.plan.clone(),
        ports.collect(),
        (from, until - from),
        Transactions::new(now, TimerSettings::default(), limits, *HASHER, 0),
        (salt | u64::from(index), now),
    )
}

/// The traffic of this worker.
fn sources(run: &Run, index: u16) -> Vec<Source> {
    let (from, until) = own(run, index);
    let activities = run.profile.activities.iter().zip(0_u64..);
    let sources = activities.map(|(activity, place)| Source {
        kind: activity.kind,
        arrivals: match &run.timetable {
            Some(timetable) => Due::Planned(Share::new(timetable.clone(), from..until)),
            None => Due::Paced(Box::new(Arrivals::new(
                activity.rate.share(usize::from(run.fleet.workers)),
                run.spacing,
                run.seed ^ (place << 32) ^ u64::from(index) << 48,
            ))),
        },
    });
    sources.collect()
}
