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
mod session;
mod subscribers;
#[cfg(test)]
mod tests;
mod timetable;
mod worker;

pub(crate) use address::{own_address, server_address};
pub(crate) use arrivals::Arrivals;
pub use arrivals::{Rate, Spacing};
pub use commanded::{Commanded, Commander, Settings};
pub use figures::{Cohort, Delay, Ends, Figures, Kind};
pub use options::{Arguments, ProfileCommand, Transport};
pub use profile::{Activity, CallShape, Profile};
pub use report::{Counted, DelaySummary, Populated, Report, Second};
pub(crate) use session::Session;
pub use session::run;
pub use subscribers::{Pattern, Subscribers};
pub use worker::Losses;

use phones::Plan;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use timetable::Timetable;

/// A run, with all that it needs.
#[derive(Clone, Debug)]
pub struct Run {
    /// As it is called in reports.
    pub name: String,
    /// What begins.
    pub profile: Profile,
    /// How long units begin that are not counted yet, before those that are.
    pub warm_up: Duration,
    /// How long units begin that are counted.
    pub duration: Duration,
    /// How units lie within a second.
    pub spacing: Spacing,
    /// Makes the random ones repeatable.
    pub seed: u64,
    /// Whether all phones are registered first, and how many at a time.
    pub populate: Option<u32>,
    /// Whether phones stay registered when it is over.
    pub stay_registered: bool,
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

    /// The same with its last kind beginning at that rate, and without the others.
    #[must_use]
    pub(crate) fn with_rate(&self, rate: Rate) -> Self {
        let mut run = self.clone();
        run.profile.only_last_at(rate);
        run
    }

    /// The delay that it is about.
    pub fn main_delay(&self) -> Delay {
        self.profile.main_delay()
    }

    /// The delay that says how long users wait, from when a unit was due.
    pub(crate) fn delay_from_due(&self) -> Delay {
        match self.main_delay() {
            Delay::Response if self.profile.call.ringing.is_zero() => Delay::Answer,
            delay => delay,
        }
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
