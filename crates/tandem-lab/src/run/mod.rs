//! `tandem lab run`: traffic of many phones against a server, or against themselves, with exact counts.
//!
//! Phones live in nodes on the project's own runtime, some thousands per worker, with their requests in transactions. Units begin when
//! they are due, however slow the server is (open loop). Delays count from when a message was due, so that a slow server cannot hide
//! them. Every figure comes with the cost of the generator itself: its lateness and its CPU time.

mod address;
mod arrivals;
mod asking;
mod attacking;
mod callee;
mod caller;
mod commanded;
mod cost;
mod dialog;
mod figures;
mod html;
mod messages;
mod moments;
mod options;
mod phones;
mod polling;
mod profile;
mod report;
mod session;
mod shared;
mod socket;
mod subscribers;
#[cfg(test)]
mod tests;
mod timetable;
mod worker;

pub(crate) use address::server_address;
pub(crate) use arrivals::Arrivals;
pub use arrivals::{Rate, Spacing};
pub use commanded::{Commanded, Commander, Settings};
pub use cost::{Cost, Costs};
pub(crate) use dialog::Dialog;
pub use figures::{Cohort, Delay, Ends, Figures, Kind};
pub(crate) use messages::{Branch, Heading, Port, push_uri, respond};
pub use options::{Arguments, ProfileCommand, Traffic, Transport};
pub use profile::{Activity, CallShape, Profile};
pub use report::{Counted, DelaySummary, Populated, Report, Second};
pub(crate) use session::Session;
pub use session::run;
pub use subscribers::{Pattern, Subscribers};
pub use worker::Losses;

use phones::Plan;
use shared::Division;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use timetable::Timetable;

/// A run and its parameters.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name in reports.
    pub name: String,
    /// The traffic.
    pub profile: Profile,
    /// How long units are started before counting begins.
    pub warm_up: Duration,
    /// How long counted units are started.
    pub duration: Duration,
    /// Spacing of arrivals within a second.
    pub spacing: Spacing,
    /// Seed for random arrivals.
    pub seed: u64,
    /// Registrations in progress at a time for the initial registration; `None` skips it.
    pub populate: Option<u32>,
    /// Whether phones stay registered at the end.
    pub stay_registered: bool,
    /// Units in progress at a time, instead of the rates of the profile (closed loop).
    pub window: Option<u32>,
    /// Pause between the initial registration and the first unit.
    pub settle: Duration,
    /// The server whose cost is measured.
    pub costs: Option<Costs>,
    /// The calls of a scenario.
    timetable: Option<Timetable>,
    fleet: Fleet,
    plan: Plan,
}

impl Run {
    /// Units per second; for a mixture, those of its last kind.
    pub fn rate(&self) -> f64 {
        self.profile.rate()
    }

    /// The same run at another rate.
    #[must_use]
    pub fn at_rate(&self, rate: f64) -> Self {
        let mut run = self.clone();
        run.profile.set_rate(rate);
        run
    }

    /// The same run with only its last kind, at this rate.
    #[must_use]
    pub(crate) fn with_rate(&self, rate: Rate) -> Self {
        let mut run = self.clone();
        run.profile.only_last_at(rate);
        run
    }

    fn division(&self) -> Division {
        Division {
            first: self.plan.subscribers.first,
            count: self.plan.subscribers.count,
            threads: self.fleet.workers,
        }
    }

    /// The delay that the run is about.
    pub fn main_delay(&self) -> Delay {
        self.profile.main_delay()
    }

    /// The delay that users experience, from when a unit was due.
    pub(crate) fn delay_from_due(&self) -> Delay {
        match self.main_delay() {
            Delay::Response if self.profile.call.ringing.is_zero() => Delay::Answer,
            delay => delay,
        }
    }

    /// The server, unless callers call callees directly.
    pub const fn server(&self) -> Option<SocketAddr> {
        self.plan.server
    }

    /// Whether requests use connections.
    pub const fn is_stream(&self) -> bool {
        self.fleet.protocol.is_reliable()
    }
}

/// Local addresses and sockets of the phones.
#[derive(Clone, Debug)]
struct Fleet {
    protocol: sip_transport::Protocol,
    /// Whether to resume TLS sessions.
    resume_sessions: bool,
    /// The first local address.
    first: IpAddr,
    /// Number of consecutive addresses.
    addresses: u16,
    /// Sockets, or connections, per worker and address.
    ports: u16,
    /// The port of the first socket; 0: any free ports.
    first_port: u16,
    workers: u16,
    cpus: Vec<usize>,
    /// Whether the threads poll their sockets instead of sleeping until a message arrives.
    polls: bool,
}

impl Fleet {
    /// How many positions after the first local address this one is.
    fn place_of(&self, address: IpAddr) -> Option<u16> {
        let distance = match (address, self.first) {
            (IpAddr::V4(address), IpAddr::V4(first)) => {
                u128::from(u32::from(address).wrapping_sub(first.into()))
            }
            (IpAddr::V6(address), IpAddr::V6(first)) => {
                u128::from(address).wrapping_sub(first.into())
            }
            _ => return None,
        };
        let place = u16::try_from(distance).ok()?;
        (place < self.addresses).then_some(place)
    }

    /// The port of the socket at this place; 0: any free port.
    const fn port(&self, place: u16) -> u16 {
        if self.first_port == 0 {
            0
        } else {
            self.first_port.saturating_add(place)
        }
    }
}
