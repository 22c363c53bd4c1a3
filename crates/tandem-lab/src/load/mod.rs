//! One workload against one server: populate, warm up, measure.
//!
//! Arrivals are open-loop: units begin when they are due, however slow the server is. Latency counts from the due time of the first
//! message, so that a slow server cannot hide its delays. One thread plays callers and callees, each on sockets of their own. Every
//! figure comes with the number of messages that the kernel dropped or the generator sent late.

mod caller;
pub(crate) mod messages;
pub(crate) mod phone;
mod report;
mod socket;

pub use report::Report;

use crate::process::Processes;
use caller::{Caller, Counts};
use phone::Phone;
use socket::{Inbox, MOST_ADDRESSES, Socket};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The unit of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// A datagram of ordinary message length to `udp-floor`, which echoes it: the cost of the kernel.
    Floor,
    /// A NOTIFY keep-alive, answered statelessly.
    W1,
    /// A REGISTER refresh with digest authentication and a known nonce.
    W2,
    /// A REGISTER refresh that is challenged first.
    W2c,
    /// A call: INVITE, 100, 180, 200, ACK, BYE, 200, with location lookup and Record-Route.
    W3,
    /// The same call with 407 digest authentication.
    W4,
}

/// When units begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Units per second, each when it is due, however slow the server is.
    Rate(u32),
    /// A fixed number of units in progress: the maximum throughput of the server.
    Window(u32),
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The workload.
    pub workload: Workload,
    /// Address of the server.
    pub server: SocketAddr,
    /// Domain of the server.
    pub domain: String,
    /// Subscribers `user0`, … with passwords `password0`, …; all register first.
    pub users: u32,
    /// Whether each subscriber has an address of its own in 127/8. Otherwise all share one address.
    pub own_addresses: bool,
    /// When units begin.
    pub pace: Pace,
    /// Units before the measurement.
    pub warm_up: u64,
    /// Units in the measurement.
    pub count: u64,
    /// How long the cost is still measured after the last unit.
    pub linger: Duration,
    /// Process id of the server, to measure its cost.
    pub pid: Option<u32>,
}

/// Runs the workload.
pub fn run(options: &Options) -> io::Result<Report> {
    let mut load = Load::new(options)?;
    load.populate()?;
    load.drive(options.warm_up)?;
    load.begin_measurement();
    let processes = options.pid.map(Processes::family).transpose()?;
    if let Some(processes) = &processes {
        processes.wait_until_idle()?;
    }
    let before = processes.as_ref().map(Processes::cpu_time).transpose()?;
    let own = Processes::family(std::process::id())?;
    let own_before = own.cpu_time()?;
    let began = Instant::now();
    load.drive(options.count)?;
    let elapsed = began.elapsed();
    let own_cpu = own.cpu_time()?.saturating_sub(own_before);
    let server_cpu = match (&processes, before) {
        (Some(processes), Some(before)) => Some(processes.cpu_time()?.saturating_sub(before)),
        _ => None,
    };
    let memory = processes.as_ref().map(Processes::memory).transpose()?;
    let clean_up = match &processes {
        Some(processes) => Some(clean_up_time(processes, options.linger)?),
        None => None,
    };
    Ok(Report::new(
        options,
        &load,
        &Measured {
            elapsed,
            server_cpu,
            clean_up,
            own_cpu,
            memory,
        },
    ))
}

/// The cost of a run.
struct Measured {
    elapsed: Duration,
    /// Of the server, under load.
    server_cpu: Option<Duration>,
    /// Of the server afterwards.
    clean_up: Option<Duration>,
    own_cpu: Duration,
    /// Of the server: at the end of the load, and at the peak.
    memory: Option<(u64, u64)>,
}

/// CPU time for the deferred cleanup of calls: the time spent during `linger`, less the idle cost of the server in the same time.
fn clean_up_time(processes: &Processes, linger: Duration) -> io::Result<Duration> {
    const AT_REST: Duration = Duration::from_secs(2);
    if linger.is_zero() {
        return Ok(Duration::ZERO);
    }
    let begin = processes.cpu_time()?;
    std::thread::sleep(linger);
    let lingered = processes.cpu_time()?;
    std::thread::sleep(AT_REST);
    let rested = processes.cpu_time()?;
    let at_rest = rested
        .saturating_sub(lingered)
        .mul_f64(linger.as_secs_f64() / AT_REST.as_secs_f64());
    Ok(lingered.saturating_sub(begin).saturating_sub(at_rest))
}

/// Units to begin before polling the sockets.
const BEGUN_AT_ONCE: u64 = 8;

/// Registrations in progress at a time during the initial registration.
const AT_A_TIME: u64 = 64;

/// Callers and callees with their sockets.
#[derive(Debug)]
pub(crate) struct Load {
    workload: Workload,
    pace: Pace,
    users: u32,
    caller_socket: Socket,
    phone_socket: Socket,
    caller: Caller,
    phone: Phone,
    caller_inbox: Inbox,
    phone_inbox: Inbox,
    /// Units that began more than a millisecond late.
    late: u64,
}

impl Load {
    fn new(options: &Options) -> io::Result<Self> {
        if options.own_addresses {
            let has_room = options.users <= MOST_ADDRESSES;
            if !(options.server.is_ipv4() && options.server.ip().is_loopback() && has_room) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "--own-addresses requires a server on the IPv4 loopback interface and at most {MOST_ADDRESSES} users"
                    ),
                ));
            }
        }
        let caller_socket = Socket::open(options.server, options.own_addresses)?;
        let phone_socket = Socket::open(options.server, options.own_addresses)?;
        let caller = Caller::new(options, caller_socket.local(), phone_socket.local());
        Ok(Self {
            workload: options.workload,
            pace: options.pace,
            users: options.users.max(2),
            caller_socket,
            phone_socket,
            caller,
            phone: Phone::default(),
            caller_inbox: Inbox::new(),
            phone_inbox: Inbox::new(),
            late: 0,
        })
    }

    pub(crate) fn counts(&self) -> &Counts {
        self.caller.counts()
    }

    pub(crate) const fn late(&self) -> u64 {
        self.late
    }

    pub(crate) fn kernel_drops(&self) -> u64 {
        self.caller_socket.kernel_drops() + self.phone_socket.kernel_drops()
    }

    /// Registers every subscriber, a few at a time. All must succeed.
    fn populate(&mut self) -> io::Result<()> {
        if matches!(self.workload, Workload::Floor | Workload::W1) {
            return Ok(());
        }
        for user in 0..self.users {
            while self.caller.in_progress() >= AT_A_TIME {
                self.poll()?;
            }
            self.caller
                .register(user, true, Instant::now(), &mut self.caller_socket)?;
        }
        self.finish()?;
        if self.caller.counts().failed > 0 {
            let message = format!(
                "{} of {} registrations failed (responses: {:?}): do the subscribers exist?",
                self.caller.counts().failed,
                self.users,
                self.caller.counts().responses
            );
            return Err(io::Error::other(message));
        }
        Ok(())
    }

    fn begin_measurement(&mut self) {
        self.caller.reset_counts();
        self.late = 0;
    }

    /// Begins `count` units at the configured pace and waits until they end.
    fn drive(&mut self, count: u64) -> io::Result<()> {
        match self.pace {
            Pace::Rate(rate) => self.drive_at_rate(count, rate.max(1)),
            Pace::Window(window) => self.drive_in_window(count, u64::from(window.max(1))),
        }?;
        self.finish()
    }

    fn drive_at_rate(&mut self, count: u64, rate: u32) -> io::Result<()> {
        let start = Instant::now();
        let mut begun = 0;
        while begun < count {
            let due_count = start.elapsed().as_nanos() * u128::from(rate) / 1_000_000_000 + 1;
            while begun < count && u128::from(begun) < due_count {
                let due = start + Duration::from_nanos(begun * 1_000_000_000 / u64::from(rate));
                if due.elapsed() > Duration::from_millis(1) {
                    self.late += 1;
                }
                self.begin_unit(begun, due)?;
                begun += 1;
                // Responses must not wait behind a burst of late units.
                self.receive()?;
            }
            self.poll()?;
        }
        Ok(())
    }

    fn drive_in_window(&mut self, count: u64, window: u64) -> io::Result<()> {
        let mut begun = 0;
        while begun < count {
            let room = window.saturating_sub(self.caller.in_progress());
            for _ in 0..room.min(count - begun).min(BEGUN_AT_ONCE) {
                self.begin_unit(begun, Instant::now())?;
                begun += 1;
            }
            self.poll()?;
        }
        Ok(())
    }

    fn begin_unit(&mut self, number: u64, due: Instant) -> io::Result<()> {
        let user = (number % u64::from(self.users)) as u32;
        let callee = (user + self.users / 2) % self.users;
        match self.workload {
            Workload::Floor => self.caller.floor(due, &mut self.caller_socket),
            Workload::W1 => self.caller.keep_alive(due, &mut self.caller_socket),
            Workload::W2 => self
                .caller
                .register(user, false, due, &mut self.caller_socket),
            Workload::W2c => self
                .caller
                .register(user, true, due, &mut self.caller_socket),
            Workload::W3 | Workload::W4 => {
                self.caller.call(user, callee, due, &mut self.caller_socket)
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        while self.caller.in_progress() > 0 {
            self.poll()?;
        }
        Ok(())
    }

    /// Handles received messages and expired timers. It never sleeps, because waking a sleeping generator would cost the server CPU time
    /// that counts as its own.
    fn poll(&mut self) -> io::Result<()> {
        if !self.receive()? {
            std::hint::spin_loop();
        }
        self.caller.expire(Instant::now(), &self.caller_socket)
    }

    fn receive(&mut self) -> io::Result<bool> {
        let mut any = false;
        let Self {
            caller,
            phone,
            caller_socket,
            phone_socket,
            caller_inbox,
            phone_inbox,
            ..
        } = self;
        loop {
            let mut received = false;
            if let Some(datagram) = phone_inbox.next(phone_socket)? {
                phone.answer(datagram, phone_socket)?;
                received = true;
            }
            if let Some(datagram) = caller_inbox.next(caller_socket)? {
                caller.receive(datagram.bytes, caller_socket)?;
                received = true;
            }
            if !received {
                return Ok(any);
            }
            any = true;
        }
    }
}
