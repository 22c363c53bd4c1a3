//! The command line of `tandem lab run`.

use super::address::{own_address, server_address};
use super::arrivals::{Rate, Spacing};
use super::figures::Kind;
use super::phones::Plan;
use super::profile::{CallShape, Profile};
use super::subscribers::{Pattern, Subscribers};
use super::timetable::Timetable;
use super::{Fleet, Run};
use clap::{Args, Subcommand, ValueEnum};
use sip_transport::Protocol;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Generate traffic against a SIP server, or without one.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Arguments {
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
    /// Duration of the measurement (default: 30s; in a search, 60s per trial; for a scenario, the length of the scenario).
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Duration before the measurement in which units do not count (default: 0s; in a search, 35s plus the length of a call).
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    warm_up: Option<Duration>,
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
    /// First local address of the phones (default: the one that routes to the server).
    #[arg(long, global = true, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Threads that run the phones; calls stay within a thread.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Processors to pin the threads to.
    #[arg(long, global = true, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Nonce policy: reuse a nonce, or have each unit challenged (default: reuse; in searches, and for itsp, fresh).
    #[arg(long, global = true, value_enum)]
    nonces: Option<Nonces>,
    /// Registration lifetime to request, in seconds.
    #[arg(long, global = true, default_value_t = 3_600)]
    expires: u32,
    /// Skip the initial registration: the phones are already registered.
    #[arg(long, global = true)]
    registered: bool,
    /// Do not deregister phones at the end.
    #[arg(long, global = true)]
    stay_registered: bool,
    /// Maximum number of units in progress; further units count as skipped.
    #[arg(long, global = true, default_value_t = 1_000_000)]
    most: usize,
    /// Write the report as JSON to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the figures of each second as CSV to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the report as an HTML page with plots to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not print a line for each second.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The profiles.
#[derive(Clone, Debug, Subcommand)]
pub enum ProfileCommand {
    /// Send OPTIONS to the server itself.
    Options(Pace),
    /// Send NOTIFY keep-alives.
    KeepAlive(Pace),
    /// Send REGISTER.
    Register(Pace),
    /// Make calls: INVITE, 100, 180, 200, ACK, BYE, 200, with 407 if the server asks for credentials.
    Call {
        /// Rate of calls.
        #[command(flatten)]
        pace: Pace,
        /// Ringing time, from 180 to 200.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        ringing: Duration,
        /// Talking time, from ACK to BYE.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        talking: Duration,
    },
    /// Play a scenario file: its callers, callees and times.
    Scenario {
        /// Scenario file, as written by `tandem lab scenario generate`.
        file: PathBuf,
        /// Ringing time, from 180 to 200.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        ringing: Duration,
        /// Talking time, from ACK to BYE.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        talking: Duration,
    },
    /// Generate the traffic of a provider: keep-alives, registration refreshes and calls of its subscribers, all challenged.
    Itsp {
        /// Number of subscribers, which is also the number of phones.
        #[arg(long, value_parser = clap::value_parser!(u32).range(2..=20_000_000))]
        subscribers: u32,
    },
    /// Generate the calls of a session border controller: many long calls at a time.
    Sbc {
        /// Calls per second.
        #[arg(long, default_value_t = 1_000.0)]
        rate: f64,
        /// Calls in progress in the steady state.
        #[arg(long, default_value_t = 60_000)]
        concurrent: u32,
    },
    /// Open connections for one OPTIONS each, with a handshake, and close them; at most --ports times --addresses at a time. --server
    /// names the TLS port, often 5061.
    TlsChurn {
        /// Rate of connections.
        #[command(flatten)]
        pace: Pace,
        /// Full TLS handshakes or resumed sessions.
        #[arg(long, value_enum, default_value = "full")]
        handshakes: Handshakes,
    },
    /// Attack the server with scans (OPTIONS), guessed passwords (REGISTER), toll fraud (INVITE) and noise; it should reject or ignore
    /// them.
    Scan(Pace),
    /// Register all phones again within a given time, as after an outage.
    ReregisterStorm {
        /// Time for all registrations.
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
        within: Duration,
    },
    /// Register all phones as fast as the server responds, then call a sample of them.
    Populate {
        /// Registrations in progress at a time, per thread.
        #[arg(long, default_value_t = 256)]
        at_a_time: u32,
        /// Number of calls to registered phones afterwards.
        #[arg(long, default_value_t = 1_000)]
        sample: u32,
    },
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

/// Rate of units.
#[derive(Clone, Copy, Debug, Args)]
pub struct Pace {
    /// Units per second.
    #[arg(long, default_value_t = 100.0, allow_negative_numbers = true)]
    rate: f64,
    /// Increase per step in units per second; may be negative.
    #[arg(
        long,
        requires = "every",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    step: f64,
    /// Duration of a step.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    every: Option<Duration>,
}

impl Pace {
    fn rate(self) -> Rate {
        match self.every {
            Some(every) => Rate::Steps {
                from: self.rate,
                step: self.step,
                every,
            },
            None => Rate::Constant(self.rate),
        }
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

/// Kind of TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Handshakes {
    /// A full handshake.
    Full,
    /// A resumed session, if the server allows it.
    Resumed,
}

/// Nonce policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nonces {
    /// Reuse a nonce while the server accepts it.
    Reuse,
    /// Use a nonce once: every unit is challenged.
    Fresh,
}

impl ProfileCommand {
    /// Whether the profile is the same traffic at any rate, so that a rate can be searched.
    pub(crate) const fn has_rate(&self) -> bool {
        match self {
            Self::Options(_)
            | Self::KeepAlive(_)
            | Self::Register(_)
            | Self::Call { .. }
            | Self::Itsp { .. }
            | Self::Sbc { .. }
            | Self::TlsChurn { .. } => true,
            Self::Scenario { .. }
            | Self::Scan(_)
            | Self::ReregisterStorm { .. }
            | Self::Populate { .. } => false,
        }
    }
}

impl Arguments {
    /// Whether a rate can be searched for the profile.
    pub(crate) const fn has_rate(&self) -> bool {
        self.profile.has_rate()
    }

    /// The run.
    ///
    /// # Errors
    /// There is no route to the server, the profile needs a server, or a rate is invalid.
    pub fn run(&self) -> io::Result<Run> {
        self.run_with(&Defaults::RUN)
    }

    /// A run for the trials of a search: longer than the lifetime of a transaction, with every unit challenged.
    pub(crate) fn trial(&self) -> io::Result<Run> {
        self.run_with(&Defaults::TRIAL)
    }

    fn run_with(&self, defaults: &Defaults) -> io::Result<Run> {
        let (name, profile) = self.profile(defaults);
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
        let populate = match self.profile {
            ProfileCommand::Populate { at_a_time, .. } => Some(at_a_time.max(1)),
            _ if self.registered || self.direct => None,
            _ => profile.needs_registrations().then_some(64),
        };
        let fresh = defaults.fresh_nonces || matches!(self.profile, ProfileCommand::Itsp { .. });
        let duration = match self.profile {
            ProfileCommand::ReregisterStorm { within } => within,
            _ => match &timetable {
                // One second more, so that a thread that starts late does not miss the last call.
                Some(timetable) => timetable.duration() + Duration::from_secs(1),
                None => self.duration.unwrap_or(defaults.duration),
            },
        };
        Ok(Run {
            name: name.to_owned(),
            plan: Plan {
                server: (!self.direct).then_some(self.server),
                subscribers,
                call: profile.call,
                reuse_nonces: self.nonces.map_or(!fresh, |nonces| nonces == Nonces::Reuse),
                expires: self.expires,
                most: self.most,
            },
            warm_up: self
                .warm_up
                .unwrap_or_else(|| defaults.warm_up(profile.call)),
            profile,
            duration,
            spacing: self.spacing,
            seed: self.seed,
            populate,
            stay_registered: self.stay_registered,
            timetable,
            fleet: Fleet {
                protocol: self.protocol(),
                resume_sessions: !matches!(
                    self.profile,
                    ProfileCommand::TlsChurn {
                        handshakes: Handshakes::Full,
                        ..
                    }
                ),
                first: self.own_address()?,
                addresses: self.addresses,
                ports: self.ports,
                workers: self.workers,
                cpus: self.cpus.clone(),
            },
        })
    }

    fn phones(&self) -> u32 {
        match self.profile {
            ProfileCommand::Itsp { subscribers } => subscribers,
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

    fn profile(&self, defaults: &Defaults) -> (&'static str, Profile) {
        let none = CallShape::default();
        match self.profile {
            ProfileCommand::Options(pace) => {
                ("options", Profile::only(Kind::Options, pace.rate(), none))
            }
            ProfileCommand::KeepAlive(pace) => (
                "keep-alive",
                Profile::only(Kind::KeepAlive, pace.rate(), none),
            ),
            ProfileCommand::Register(pace) => {
                ("register", Profile::only(Kind::Register, pace.rate(), none))
            }
            ProfileCommand::Call {
                pace,
                ringing,
                talking,
            } => {
                let call = CallShape { ringing, talking };
                ("call", Profile::only(Kind::Call, pace.rate(), call))
            }
            ProfileCommand::Scenario {
                ringing, talking, ..
            } => {
                let call = CallShape { ringing, talking };
                let rate = Rate::Constant(0.0);
                ("scenario", Profile::only(Kind::Call, rate, call))
            }
            ProfileCommand::Itsp { subscribers } => ("itsp", Profile::provider(subscribers)),
            ProfileCommand::TlsChurn { pace, .. } => (
                "tls-churn",
                Profile::only(Kind::Connection, pace.rate(), none),
            ),
            ProfileCommand::Scan(pace) => ("scan", Profile::only(Kind::Attack, pace.rate(), none)),
            ProfileCommand::Sbc { rate, concurrent } => ("sbc", Profile::border(rate, concurrent)),
            ProfileCommand::ReregisterStorm { within } => {
                ("reregister-storm", Profile::storm(self.phones, within))
            }
            ProfileCommand::Populate { sample, .. } => {
                let rate = f64::from(sample)
                    / self
                        .duration
                        .unwrap_or(defaults.duration)
                        .as_secs_f64()
                        .max(1e-3);
                let calls = Profile::only(Kind::Call, Rate::Constant(rate), none);
                let profile = if sample > 0 {
                    calls
                } else {
                    Profile::default()
                };
                ("populate", profile)
            }
        }
    }

    fn check(&self, profile: &Profile) -> io::Result<()> {
        let only_calls = profile
            .activities
            .iter()
            .all(|activity| activity.kind == Kind::Call);
        if self.direct && (!only_calls || profile.activities.is_empty()) {
            return Err(mistake(
                "--direct supports calls only: other profiles need a server".into(),
            ));
        }
        let is_scenario = matches!(self.profile, ProfileCommand::Scenario { .. });
        if is_scenario && self.warm_up.is_some() {
            return Err(mistake(
                "--warm-up: every call of a scenario counts; use a longer scenario".into(),
            ));
        }
        if self.direct && is_scenario && self.workers > 1 {
            return Err(mistake(
                "--direct keeps calls within a thread: add --workers 1 for a scenario".into(),
            ));
        }
        let rates = profile
            .activities
            .iter()
            .map(|activity| activity.rate.at(0.0));
        for rate in rates {
            if !(0.0..=10_000_000.0).contains(&rate) {
                return Err(mistake(format!(
                    "the rate {rate} is out of range: use 0 to 10,000,000 units per second"
                )));
            }
        }
        let sockets = u32::from(self.ports) * u32::from(self.addresses);
        if sockets > 65_535 {
            return Err(mistake(format!(
                "{sockets} sockets per worker are too many: --ports times --addresses must be at most 65,535"
            )));
        }
        let is_churn = matches!(self.profile, ProfileCommand::TlsChurn { .. });
        let is_scan = matches!(self.profile, ProfileCommand::Scan(_));
        if is_scan && self.protocol() != Protocol::Udp {
            return Err(mistake(
                "scan requires --transport udp: noise would close shared connections".into(),
            ));
        }
        let resumes = matches!(
            self.profile,
            ProfileCommand::TlsChurn {
                handshakes: Handshakes::Resumed,
                ..
            }
        );
        if resumes && !self.protocol().is_secure() {
            return Err(mistake(
                "--handshakes resumed requires --transport tls or wss".into(),
            ));
        }
        if is_churn && !self.protocol().is_reliable() {
            return Err(mistake(
                "tls-churn requires --transport tls, tcp, wss or ws".into(),
            ));
        }
        if self.direct && self.protocol().is_reliable() {
            return Err(mistake("--direct requires --transport udp".into()));
        }
        let phones = self.phones();
        if phones < u32::from(self.workers) * 2 {
            return Err(mistake(format!(
                "{phones} phones are too few for {} workers: each worker needs two",
                self.workers
            )));
        }
        let needed = u64::from(sockets) * u64::from(self.workers);
        if is_churn && u64::from(phones) < needed {
            return Err(mistake(format!(
                "each connection needs a phone: use --phones {needed} or more (--ports times --addresses times --workers)"
            )));
        }
        if self.first.checked_add(phones).is_none() {
            return Err(mistake(format!(
                "{phones} phones from number {} exceed the largest number, {}",
                self.first,
                u32::MAX
            )));
        }
        Ok(())
    }

    /// The local address that the server sees.
    fn own_address(&self) -> io::Result<IpAddr> {
        self.from.map_or_else(|| own_address(self.server), Ok)
    }
}

fn mistake(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
