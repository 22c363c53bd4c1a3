//! Phones that follow no profile but do what they are told, one thing at a time: those of an agent.

use super::address::own_address;
use super::figures::{Figures, Kind};
use super::options::Transport;
use super::phones::{Order, Out, Phones, Plan, Stage};
use super::worker::{Losses, Workers};
use super::{CallShape, Counted, Fleet, Profile, Run, Spacing, Subscribers};
use sip_runtime::{Clock, Handle};
use sip_transport::Time;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Who the phones are, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where all requests go.
    pub server: SocketAddr,
    /// What they go over.
    pub transport: Transport,
    /// The address they come from; the one that the way to the server begins with when none is named.
    pub from: Option<IpAddr>,
    /// The phones, all of one name pattern.
    pub subscribers: Subscribers,
    /// Seconds that registrations ask for.
    pub expires: u32,
    /// Sockets that the phones of a worker share, or connections to the server.
    pub ports: u16,
    /// Threads that phones live on.
    pub workers: u16,
    /// Units in progress on each thread beyond which none begins.
    pub most: usize,
}

/// What one phone is told, or all of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Register(u32),
    Call {
        caller: u32,
        callee: u32,
        due: Time,
    },
    /// What calls are like that begin from now on.
    Shape(CallShape),
    /// End all calls as soon as they can be ended.
    HangUp,
}

/// The phones.
pub struct Commanded {
    workers: Workers,
    subscribers: Subscribers,
}

/// Gives commands to the phones, from any thread; it never blocks.
#[derive(Clone)]
pub struct Commander {
    handles: Vec<(Handle<Order>, Clock)>,
    first: u32,
    count: u32,
}

impl Commanded {
    /// Opens their sockets.
    ///
    /// # Errors
    /// No way leads to the server; sockets cannot be opened.
    pub fn start(settings: &Settings) -> io::Result<Self> {
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
            timetable: None,
            fleet: Fleet {
                protocol: settings.transport.protocol(),
                resume_sessions: true,
                first: address,
                addresses: 1,
                ports: settings.ports,
                workers: settings.workers,
                cpus: Vec::new(),
            },
            plan: Plan {
                server: Some(settings.server),
                subscribers: settings.subscribers.clone(),
                call: CallShape::default(),
                reuse_nonces: true,
                expires: settings.expires,
                most: settings.most,
            },
        };
        Ok(Self {
            workers: Workers::start(&run)?,
            subscribers: settings.subscribers.clone(),
        })
    }

    /// Who commands them.
    pub fn commander(&self) -> Commander {
        Commander {
            handles: self.workers.handles(),
            first: self.subscribers.first,
            count: self.subscribers.count,
        }
    }

    /// What they counted since the last time, and how many units are in progress. It blocks until all threads have answered.
    ///
    /// # Errors
    /// A thread says nothing for a long time.
    pub fn tell(&mut self) -> io::Result<(Figures, usize)> {
        self.workers.tell()
    }

    /// Ends their calls and their registrations, within that time.
    ///
    /// # Errors
    /// A thread says nothing for a long time.
    pub fn leave(mut self, within: Duration) -> io::Result<Counted> {
        self.workers.deregister(within)
    }

    /// What was lost on the way, since the start.
    pub fn losses(&self) -> Losses {
        self.workers.losses()
    }
}

impl Commander {
    /// Has a phone register. Whether it was told: there is no such phone, or its thread has more waiting than it may.
    pub fn register(&self, phone: u32) -> bool {
        self.command(phone, |_| Command::Register(phone))
    }

    /// Has a phone call another one, which need not be one of these. The call was due at `due`. Whether it was told, as for
    /// [`Commander::register`].
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

    /// What calls are like that begin from now on, and how those phones behave that are called from now on.
    pub fn shape(&self, shape: CallShape) {
        self.command_all(Command::Shape(shape));
    }

    /// Ends all calls: at once where they are up, as soon as they are where they are not.
    pub fn hang_up(&self) {
        self.command_all(Command::HangUp);
    }

    fn command(&self, phone: u32, command: impl FnOnce(&Clock) -> Command) -> bool {
        let Some(worker) = self.worker_of(phone) else {
            return false;
        };
        let Some((handle, clock)) = self.handles.get(worker) else {
            return false;
        };
        handle.send(0, Order::Do(command(clock))).is_ok()
    }

    fn command_all(&self, command: Command) {
        for (handle, _) in &self.handles {
            // A full inbox is full of calls, which will be counted.
            let _ = handle.send(0, Order::Do(command));
        }
    }

    /// The thread that a phone lives on: thread n begins with phone `count * n / threads`.
    fn worker_of(&self, phone: u32) -> Option<usize> {
        let place = phone
            .checked_sub(self.first)
            .filter(|place| *place < self.count)?;
        let threads = self.handles.len() as u64;
        Some((((u64::from(place) + 1) * threads - 1) / u64::from(self.count)) as usize)
    }
}

impl Phones {
    /// Does what one of them is told.
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
