//! `tandem lab run`: traffic of many phones against a server, or against themselves, counted exactly.
//!
//! Phones live in nodes on the project's own runtime, some thousands to a worker, each with requests of its own in transactions.
//! Units begin when they are due, however slow the server is (open loop), and delays count from when a message was due, so that a
//! server that stalls cannot hide it. What the generator itself adds, its lateness and its CPU, stands beside every figure.

mod address;
mod arrivals;
mod asking;
mod attacking;
mod callee;
mod caller;
mod commanded;
mod dialog;
mod figures;
mod html;
mod messages;
mod options;
mod phones;
mod profile;
mod report;
mod subscribers;
mod timetable;
mod worker;

pub(crate) use address::{own_address, server_address};
pub(crate) use arrivals::Arrivals;
pub use arrivals::{Rate, Spacing};
pub use commanded::{Commanded, Commander, Settings};
pub use figures::{Delay, Ends, Figures, Kind};
pub use options::{Arguments, ProfileCommand, Transport};
pub use profile::{Activity, CallShape, Profile};
pub use report::{DelaySummary, Populated, Report, Second};
pub use subscribers::{Pattern, Subscribers};
pub use worker::Losses;

use crate::process::own_cpu_time;
use phones::{Order, Plan};
use std::fmt::{self, Display};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use timetable::Timetable;
use worker::Workers;

/// How long units may take to end once none begins any more, beyond what a call takes: as long as a transaction lives, and a little.
const PATIENCE: Duration = Duration::from_secs(40);

/// A run, with all that it needs.
#[derive(Clone, Debug)]
pub struct Run {
    /// As it is called in reports.
    pub name: String,
    /// What begins.
    pub profile: Profile,
    /// How long units begin.
    pub duration: Duration,
    /// How units lie within a second.
    pub spacing: Spacing,
    /// Makes the random ones repeatable.
    pub seed: u64,
    /// Whether all phones are registered first, and how many at a time.
    pub populate: Option<u32>,
    /// The calls, where a scenario gives them.
    timetable: Option<Timetable>,
    fleet: Fleet,
    plan: Plan,
}

impl Run {
    /// Units per second; of a mixture, those of its last kind.
    pub fn rate(&self) -> f64 {
        self.profile.rate()
    }

    /// The same at another rate.
    #[must_use]
    pub fn at_rate(&self, rate: f64) -> Self {
        let mut run = self.clone();
        run.profile.set_rate(rate);
        run
    }

    /// The delay that it is about.
    pub fn main_delay(&self) -> Delay {
        self.profile.main_delay()
    }

    /// The server, where there is one.
    pub const fn server(&self) -> Option<SocketAddr> {
        self.plan.server
    }

    /// Whether requests go over connections.
    pub const fn is_stream(&self) -> bool {
        self.fleet.protocol.is_reliable()
    }
}

/// Where phones are.
#[derive(Clone, Debug)]
struct Fleet {
    protocol: sip_transport::Protocol,
    /// Whether TLS sessions are taken up again.
    resume_sessions: bool,
    /// The first of our addresses.
    first: IpAddr,
    /// How many, in a row.
    addresses: u16,
    /// Sockets, or connections, of each worker at each address.
    ports: u16,
    workers: u16,
    cpus: Vec<usize>,
}

/// Runs it. `tell` hears of every second, also while phones are registered.
///
/// # Errors
/// Sockets cannot be opened, or phones cannot be registered.
pub fn run(run: &Run, mut tell: impl FnMut(&dyn Display)) -> io::Result<Report> {
    Session::start(run, |registering| tell(registering))?.measure(run, |second| tell(second))
}

/// Phones that are there, registered where that was asked for: units can be begun again and again.
pub(crate) struct Session {
    workers: Workers,
    populated: Option<Populated>,
}

impl Session {
    /// Opens sockets, and registers phones.
    pub(crate) fn start(run: &Run, tell: impl FnMut(&Registering)) -> io::Result<Self> {
        let mut workers = Workers::start(run)?;
        let populate = |at_a_time| populate(&mut workers, at_a_time, tell);
        let populated = run.populate.map(populate).transpose()?;
        Ok(Self { workers, populated })
    }

    /// Begins units of a run that differs in nothing but these from the one that it was started with, and waits for their ends.
    pub(crate) fn measure(
        &mut self,
        run: &Run,
        mut tell: impl FnMut(&Second),
    ) -> io::Result<Report> {
        let workers = &mut self.workers;
        let mut report = Report::new(run, self.populated.take());
        if run.profile.activities.is_empty() {
            return Ok(report);
        }
        let call = run.plan.call;
        let patience = PATIENCE + call.ringing + call.talking;
        let lost_before = workers.losses();
        let (began, cpu) = (Instant::now(), own_cpu_time());
        workers.begin(run)?;
        let mut next = began;
        let mut ended = None;
        loop {
            next += Duration::from_secs(1);
            if ended.is_none() {
                next = next.min(began + run.duration);
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            if ended.is_none() && began.elapsed() >= run.duration {
                workers.order(&Order::End)?;
                ended = Some(Instant::now());
                report.measured(began.elapsed(), own_cpu_time().saturating_sub(cpu));
            }
            let (figures, in_progress) = workers.tell()?;
            tell(report.add(began.elapsed(), &figures, in_progress));
            if let Some(ended) = ended
                && (in_progress == 0 || ended.elapsed() > patience)
            {
                report.finish(in_progress, &workers.losses().since(lost_before));
                return Ok(report);
            }
        }
    }
}

/// How far phones are that register before a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registering {
    seconds: f64,
    registered: u64,
    failed: u64,
    left: usize,
    put_off: u64,
}

impl Display for Registering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7.1} s  registered {:>7}  failed {:>5}  to go {:>7}  put off {:>7}",
            self.seconds, self.registered, self.failed, self.left, self.put_off
        )
    }
}

/// Registers all phones. How many, and in what time.
fn populate(
    workers: &mut Workers,
    at_a_time: u32,
    mut tell: impl FnMut(&Registering),
) -> io::Result<Populated> {
    let began = Instant::now();
    workers.order(&Order::Populate(at_a_time))?;
    let mut figures = Figures::default();
    let mut next = Duration::from_secs(1);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let (part, in_progress) = workers.tell()?;
        figures.add(&part);
        if in_progress == 0 {
            break;
        }
        if began.elapsed() >= next {
            let ends = figures.ends(Kind::Register);
            tell(&Registering {
                seconds: began.elapsed().as_secs_f64(),
                registered: ends.succeeded,
                failed: ends.failed,
                left: in_progress,
                put_off: figures.put_off,
            });
            next += Duration::from_secs(1);
        }
    }
    let ends = figures.ends(Kind::Register);
    if ends.failed > 0 {
        return Err(io::Error::other(why_not_registered(&figures)));
    }
    Ok(Populated {
        phones: ends.succeeded,
        seconds: began.elapsed().as_secs_f64(),
        put_off: figures.put_off,
    })
}

fn why_not_registered(figures: &Figures) -> String {
    let ends = figures.ends(Kind::Register);
    let reasons = figures.failures.iter();
    let reasons: Vec<String> = reasons
        .map(|((_, reason), count)| format!("{reason}: {count}"))
        .collect();
    let was_heard = |(_, reason): &(&str, String)| !matches!(&**reason, "timeout" | "transport");
    let question = if figures.failures.keys().any(was_heard) {
        "do the subscribers exist, with these passwords, in that domain?"
    } else {
        "is there a server?"
    };
    format!(
        "{} of {} registrations failed ({}): {question}",
        ends.failed,
        ends.attempted,
        reasons.join(", ")
    )
}
