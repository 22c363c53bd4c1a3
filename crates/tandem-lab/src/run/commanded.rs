//! The phones of an agent: they have no profile, and execute individual commands.

use super::address::own_address;
use super::figures::{Figures, Kind};
use super::options::{PhoneOrder, Transport};
use super::phones::{Order, Out, Phones, Plan, Stage};
use super::shared::Division;
use super::worker::{Losses, Workers};
use super::{CallShape, Counted, Fleet, Profile, Run, Spacing, Subscribers};
use sip_runtime::{Clock, Handle};
use sip_transport::Time;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Identity and addresses of the phones.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where all requests go.
    pub server: SocketAddr,
    /// Transport of the requests.
    pub transport: Transport,
    /// Local address; by default, the one that routes to the server.
    pub from: Option<IpAddr>,
    /// The phones, with one name pattern.
    pub subscribers: Subscribers,
    /// Registration lifetime to request, in seconds.
    pub expires: u32,
    /// Sockets, or connections to the server, that the phones of a worker share.
    pub ports: u16,
    /// Threads that run the phones.
    pub workers: u16,
    /// Maximum number of units in progress per thread.
    pub most: usize,
}

/// A command for one phone, or for all.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Register(u32),
    Call {
        caller: u32,
        callee: u32,
        due: Time,
    },
    /// Ringing and talking times of calls from now on.
    Shape(CallShape),
    /// End all calls as soon as possible.
    HangUp,
}

/// The commanded phones.
pub struct Commanded {
    workers: Workers,
    division: Division,
}

/// Sends commands to the phones, from any thread, without blocking.
#[derive(Clone)]
pub struct Commander {
    handles: Vec<(Handle<Order>, Clock)>,
    division: Division,
}

impl Commanded {
    /// Opens the sockets of the phones.
    ///
    /// # Errors
    /// There is no route to the server, or sockets cannot be opened.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        let address = settings
            .from
            .map_or_else(|| own_address(settings.server), Ok)?;
        let run = Run {
            name: String::from("commanded"),
            profile: Profile::default(),
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            spacing: Spacing::Regular,
            seed: 0,
            populate: None,
            stay_registered: false,
            window: None,
            settle: Duration::ZERO,
            costs: None,
            timetable: None,
            fleet: Fleet {
                protocol: settings.transport.protocol(),
                resume_sessions: true,
                first: address,
                addresses: 1,
                ports: settings.ports,
                first_port: 0,
                workers: settings.workers,
                cpus: Vec::new(),
                polls: false,
            },
            plan: Plan {
                server: Some(settings.server),
                subscribers: settings.subscribers.clone(),
                call: CallShape::default(),
                reuse_nonces: true,
                asks_phones: false,
                expires: settings.expires,
                most: settings.most,
                order: PhoneOrder::default(),
                ignore_icmp: false,
            },
        };
        Ok(Self {
            workers: Workers::start(&run)?,
            division: run.division(),
        })
    }

    /// A handle for commands.
    pub fn commander(&self) -> Commander {
        Commander {
            handles: self.workers.handles(),
            division: self.division,
        }
    }

    /// Counts since the last call, and units in progress. Blocks until all threads have responded.
    ///
    /// # Errors
    /// A thread does not respond for a long time.
    pub fn tell(&mut self) -> anyhow::Result<(Figures, usize)> {
        self.workers.tell()
    }

    /// Ends all calls and registrations within this time.
    ///
    /// # Errors
    /// A thread does not respond for a long time.
    pub fn leave(mut self, within: Duration) -> anyhow::Result<Counted> {
        self.workers.deregister(within)
    }

    /// Messages lost since the start.
    pub fn losses(&self) -> Losses {
        self.workers.losses()
    }
}

impl Commander {
    /// Tells a phone to register. Returns false if there is no such phone, or the queue of its thread is full.
    pub fn register(&self, phone: u32) -> bool {
        self.command(phone, |_| Command::Register(phone))
    }

    /// Tells a phone to call another one, which may belong to another agent. The call was due at `due`. Returns false as
    /// [`Commander::register`] does.
    pub fn call(&self, caller: u32, callee: u32, due: Instant) -> bool {
        self.command(caller, |clock| {
            let waited = Instant::now().saturating_duration_since(due);
            let since_epoch = clock.now().saturating_since(Time::default());
            let due = Time::default() + since_epoch.saturating_sub(waited);
            Command::Call {
                caller,
                callee,
                due,
            }
        })
    }

    /// Sets the ringing and talking times of calls that begin or arrive from now on.
    pub fn shape(&self, shape: CallShape) {
        self.command_all(Command::Shape(shape));
    }

    /// Ends all calls: established ones at once, others as soon as they are established.
    pub fn hang_up(&self) {
        self.command_all(Command::HangUp);
    }

    fn command(&self, phone: u32, command: impl FnOnce(&Clock) -> Command) -> bool {
        let Some(thread) = self.division.thread(phone) else {
            return false;
        };
        let Some((handle, clock)) = self.handles.get(usize::from(thread)) else {
            return false;
        };
        handle.send(0, Order::Do(command(clock))).is_ok()
    }

    fn command_all(&self, command: Command) {
        for (handle, _) in &self.handles {
            // If the inbox is full, it is full of calls, which are counted.
            let _ = handle.send(0, Order::Do(command));
        }
    }
}

impl Phones {
    /// Executes the command of one phone.
    pub(super) fn command(&mut self, now: Time, command: Command, output: Out<'_>) {
        match command {
            Command::Register(phone) => {
                self.ask(now, now, Kind::Register, phone, output);
            }
            Command::Call {
                caller,
                callee,
                due,
            } => self.begin_unit(now, due, Kind::Call, Some((caller, callee)), output),
            Command::Shape(shape) => self.plan.call = shape,
            Command::HangUp => {
                self.plan.call = CallShape::default();
                let up = self.units.iter().filter_map(|(number, unit)| {
                    matches!(unit.stage, Stage::Up { leaving: false, .. }).then_some(*number)
                });
                for number in up.collect::<Vec<_>>() {
                    self.hang_up(now, number, output);
                }
            }
        }
    }
}
