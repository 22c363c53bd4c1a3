//! The command line of `tandem lab run`, and the options that it shares with `capacity` and `overload`.

mod check;
mod profile;

pub use profile::ProfileCommand;

use super::address::{own_address, server_address};
use super::arrivals::Spacing;
use super::cost::Costs;
use super::phones::Plan;
use super::profile::{CallShape, Profile};
use super::subscribers::{Pattern, Subscribers};
use super::timetable::Timetable;
use super::{Fleet, Run};
use clap::{Args, ValueEnum};
use profile::Handshakes;
use sip_transport::Protocol;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Generate traffic against a SIP server, or without one.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Process id of the server, to measure its CPU time and memory, children included. The warm-up then ends before the measurement
    /// begins.
    #[arg(long, global = true)]
    pid: Option<u32>,
    /// Time after the last unit during which the server's CPU time still counts, to include the cleanup of calls; 35s outlasts all
    /// transactions.
    #[arg(long, global = true, requires = "pid", value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    linger: Duration,
    /// Pause after the initial registration, in which the server saves it and returns memory.
    #[arg(long, global = true, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    settle: Duration,
    /// Write the figures of each second as CSV to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    traffic: Traffic,
}

/// The traffic of a run, and its reports.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of all profiles")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Traffic {
    #[command(subcommand)]
    profile: ProfileCommand,
    /// SIP server that receives all requests: an address or a name, with a port unless it is 5060.
    #[arg(long, global = true, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1:5060", value_parser = server_address)]
    server: SocketAddr,
    /// Let callers call callees directly, without a server, to measure the generator itself.
    #[arg(long, global = true)]
    direct: bool,
    /// Domain of the server, also the realm of its challenges.
    #[arg(long, global = true, default_value = "tandem.localhost")]
    domain: String,
    /// Transport of the requests (default: udp; for tls-churn, tls).
    #[arg(long, global = true, value_enum)]
    transport: Option<Transport>,
    /// Number of phones.
    #[arg(long, global = true, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=20_000_000))]
    phones: u32,
    /// Number of the first phone.
    #[arg(long, global = true, default_value_t = 0)]
    first: u32,
    /// Pattern of user names: {} is the phone's number, {:04} the number padded with zeros to four digits.
    #[arg(long, global = true, value_name = "PATTERN", default_value = "user{}")]
    user: Pattern,
    /// Pattern of passwords, as for --user; without a placeholder all phones share one password.
    #[arg(
        long,
        global = true,
        value_name = "PATTERN",
        default_value = "password{}",
        value_parser = Pattern::password
    )]
    password: Pattern,
    /// Units in progress at a time, instead of a rate: a unit begins when another one ends.
    #[arg(long, global = true, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Duration of the measurement (default: 30s; in a search, 60s per trial; for a scenario, the length of the scenario).
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Duration before the measurement in which units do not count (default: 0s; in a search, 35s plus the length of a call).
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    warm_up: Option<Duration>,
    /// Order in which phones take turns.
    #[arg(long, global = true, value_enum, default_value = "spread")]
    order: PhoneOrder,
    /// Spacing of arrivals within a second.
    #[arg(long, global = true, value_enum, default_value = "regular")]
    spacing: Spacing,
    /// Seed for random arrivals.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Sockets (or connections to the server) per address that the phones of a worker share.
    #[arg(long, global = true, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Number of consecutive local addresses for the phones.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    addresses: u16,
    /// Local port of the first socket; the other sockets have the ports after it (default: free ports). Gateways of the server can then be
    /// addresses of the phones. Requires one worker.
    #[arg(long, global = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    first_port: Option<u16>,
    /// First local address of the phones (default: the one that routes to the server).
    #[arg(long, global = true, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Threads that run the phones.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Processors to pin the threads to.
    #[arg(long, global = true, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Poll the sockets instead of sleeping until a message arrives, so that the server spends no CPU time on waking the generator; UDP
    /// only. All addresses then share --ports sockets.
    #[arg(long, global = true)]
    busy_poll: bool,
    /// Retransmit a request that causes an ICMP error, as phones do that a restart of the server must not disturb, instead of failing its
    /// unit at once.
    #[arg(long, global = true)]
    ignore_icmp: bool,
    /// Nonce policy: reuse a nonce, or have each unit challenged (default: reuse; in searches, and for itsp, fresh).
    #[arg(long, global = true, value_enum)]
    nonces: Option<Nonces>,
    /// Registration lifetime to request, in seconds.
    #[arg(long, global = true, default_value_t = 3_600)]
    expires: u32,
    /// Skip the initial registration: the phones are already registered.
    #[arg(long, global = true)]
    registered: bool,
    /// Register all phones first, also for a profile that does not need it.
    #[arg(long, global = true, conflicts_with = "registered")]
    register_first: bool,
    /// Do not deregister phones at the end.
    #[arg(long, global = true)]
    stay_registered: bool,
    /// Maximum number of units in progress; further units count as skipped.
    #[arg(long, global = true, default_value_t = 1_000_000)]
    most: usize,
    /// Write the report as JSON to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as an HTML page with plots to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not print a line for each second.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// Defaults of options.
struct Defaults {
    duration: Duration,
    /// Without the time that calls ring and talk.
    warm_up: Duration,
    fresh_nonces: bool,
}

impl Defaults {
    const RUN: Self = Self {
        duration: Duration::from_secs(30),
        warm_up: Duration::ZERO,
        fresh_nonces: false,
    };
    /// A transaction lives for 32 s (64*T1). Only after that do as many end as begin.
    const TRIAL: Self = Self {
        duration: Duration::from_secs(60),
        warm_up: Duration::from_secs(35),
        fresh_nonces: true,
    };

    fn warm_up(&self, call: CallShape) -> Duration {
        if self.warm_up.is_zero() {
            return Duration::ZERO;
        }
        self.warm_up + call.ringing + call.talking
    }
}

/// Transport of requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP connections, one per port.
    Tcp,
    /// TLS connections; the server's certificate is not verified.
    Tls,
    /// WebSocket connections, one per port.
    Ws,
    /// WebSocket over TLS; the server's certificate is not verified.
    Wss,
}

impl Transport {
    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Udp => Protocol::Udp,
            Self::Tcp => Protocol::Tcp,
            Self::Tls => Protocol::Tls,
            Self::Ws => Protocol::Ws,
            Self::Wss => Protocol::Wss,
        }
    }
}

/// Order in which phones take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PhoneOrder {
    /// Consecutive phones are far apart, as if drawn at random. Their state is seldom in the caches of the server.
    #[default]
    Spread,
    /// By their numbers, as they registered.
    Ascending,
}

/// Nonce policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nonces {
    /// Reuse a nonce while the server accepts it.
    Reuse,
    /// Use a nonce once: every unit is challenged.
    Fresh,
}

impl Arguments {
    /// The run.
    ///
    /// # Errors
    /// There is no route to the server, the profile needs a server, or a rate is invalid.
    pub fn run(&self) -> anyhow::Result<Run> {
        let mut run = self.traffic.run_with(&Defaults::RUN)?;
        run.costs = self.pid.map(|process| Costs {
            process,
            linger: self.linger,
        });
        run.settle = self.settle;
        Ok(run)
    }

    /// The options of the traffic and of the reports.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl Traffic {
    /// Whether a rate can be searched for the profile.
    pub(crate) const fn has_rate(&self) -> bool {
        self.profile.has_rate() && self.window.is_none()
    }

    /// A run for the trials of a search: longer than the lifetime of a transaction, with every unit challenged.
    ///
    /// # Errors
    /// As for [`Arguments::run`].
    pub(crate) fn trial(&self) -> anyhow::Result<Run> {
        self.run_with(&Defaults::TRIAL)
    }

    fn run_with(&self, defaults: &Defaults) -> anyhow::Result<Run> {
        let duration = self.duration.unwrap_or(defaults.duration);
        let profile = self.profile.traffic(self.phones, duration);
        self.check(&profile)?;
        let subscribers = Subscribers {
            first: self.first,
            count: self.phones(),
            user: self.user.clone(),
            password: self.password.clone(),
            domain: self.domain.clone(),
        };
        let timetable = match &self.profile {
            ProfileCommand::Scenario { file, .. } => Some(Timetable::load(file, &subscribers)?),
            _ => None,
        };
        let fresh = defaults.fresh_nonces || matches!(self.profile, ProfileCommand::Itsp { .. });
        Ok(Run {
            name: self.profile.name().to_owned(),
            plan: Plan {
                server: (!self.direct).then_some(self.server),
                subscribers,
                call: profile.call,
                reuse_nonces: self.nonces.map_or(!fresh, |nonces| nonces == Nonces::Reuse),
                expires: self.expires,
                most: self.most,
                order: self.order,
                ignore_icmp: self.ignore_icmp,
                asks_phones: matches!(
                    self.profile,
                    ProfileCommand::Options {
                        to_phones: true,
                        ..
                    }
                ),
            },
            warm_up: self
                .warm_up
                .unwrap_or_else(|| defaults.warm_up(profile.call)),
            duration: match (&self.profile, &timetable) {
                (ProfileCommand::ReregisterStorm { within }, _) => *within,
                // One second more, so that a thread that starts late does not miss the last call.
                (_, Some(timetable)) => timetable.duration() + Duration::from_secs(1),
                _ => duration,
            },
            populate: self.populate(&profile),
            profile,
            spacing: self.spacing,
            seed: self.seed,
            stay_registered: self.stay_registered,
            window: self.window,
            settle: Duration::ZERO,
            costs: None,
            timetable,
            fleet: self.fleet()?,
        })
    }

    /// Registrations at a time before the run; `None`: the phones do not register.
    fn populate(&self, profile: &Profile) -> Option<u32> {
        match self.profile {
            ProfileCommand::Populate { at_a_time, .. } => Some(at_a_time.max(1)),
            _ if self.registered || self.direct => None,
            _ => (self.register_first || profile.needs_registrations()).then_some(64),
        }
    }

    fn fleet(&self) -> anyhow::Result<Fleet> {
        Ok(Fleet {
            protocol: self.protocol(),
            resume_sessions: !matches!(
                self.profile,
                ProfileCommand::TlsChurn {
                    handshakes: Handshakes::Full,
                    ..
                }
            ),
            first: self.from.map_or_else(|| own_address(self.server), Ok)?,
            addresses: self.addresses,
            ports: self.ports,
            first_port: self.first_port.unwrap_or(0),
            workers: self.workers,
            cpus: self.cpus.clone(),
            polls: self.busy_poll,
        })
    }

    fn phones(&self) -> u32 {
        match self.profile {
            ProfileCommand::Itsp { subscribers, .. } => subscribers,
            _ => self.phones,
        }
    }

    fn protocol(&self) -> Protocol {
        let is_churn = matches!(self.profile, ProfileCommand::TlsChurn { .. });
        let usual = if is_churn {
            Protocol::Tls
        } else {
            Protocol::Udp
        };
        self.transport.map_or(usual, Transport::protocol)
    }
}
