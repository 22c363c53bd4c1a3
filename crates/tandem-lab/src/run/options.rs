//! The command line of a run.

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

/// Traffic against a SIP server, or against itself.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Arguments {
    #[command(subcommand)]
    profile: ProfileCommand,
    /// The server: where all requests go. An address or a name, and a port unless it is 5060.
    #[arg(long, global = true, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1:5060", value_parser = server_address)]
    server: SocketAddr,
    /// Callers call callees directly, without a server: what the generator can do by itself.
    #[arg(long, global = true)]
    direct: bool,
    /// The server's domain, which is the realm of its challenges, too.
    #[arg(long, global = true, default_value = "tandem.localhost")]
    domain: String,
    /// What requests go over: UDP unless named, of tls-churn TLS.
    #[arg(long, global = true, value_enum)]
    transport: Option<Transport>,
    /// How many phones.
    #[arg(long, global = true, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=20_000_000))]
    phones: u32,
    /// Number of the first phone.
    #[arg(long, global = true, default_value_t = 0)]
    first: u32,
    /// Names of the phones. {} stands for the number, {:04} for the number with zeros up to four digits.
    #[arg(long, global = true, value_name = "PATTERN", default_value = "user{}")]
    user: Pattern,
    /// Passwords of the phones, written like their names; without a number all phones have the same.
    #[arg(
        long,
        global = true,
        value_name = "PATTERN",
        default_value = "password{}",
        value_parser = Pattern::password
    )]
    password: Pattern,
    /// How long units begin that are counted: 30s; in trials of a search 60s; a scenario says so itself.
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// How long units begin before those that are counted: 0s; in trials of a search 35s, and as long as a call takes.
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    warm_up: Option<Duration>,
    /// How the units of a second lie in it.
    #[arg(long, global = true, value_enum, default_value = "regular")]
    spacing: Spacing,
    /// Makes random spacing repeatable.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Sockets that the phones of a worker share, or connections to the server, at each address.
    #[arg(long, global = true, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Addresses that phones send from: so many in a row.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    addresses: u16,
    /// The first address that phones send from; the one that the way to the server begins with when none is named.
    #[arg(long, global = true, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Threads that phones live on. Calls are made between phones of one thread.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Processors for the threads.
    #[arg(long, global = true, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Whether a nonce serves more than one request, or each is challenged anew: reuse; in searches, and for itsp, fresh.
    #[arg(long, global = true, value_enum)]
    nonces: Option<Nonces>,
    /// Seconds that registrations ask for.
    #[arg(long, global = true, default_value_t = 3_600)]
    expires: u32,
    /// Phones are registered already: do not register them first.
    #[arg(long, global = true)]
    registered: bool,
    /// Phones do not deregister at the end.
    #[arg(long, global = true)]
    stay_registered: bool,
    /// Units in progress beyond which none begins: those are counted as skipped.
    #[arg(long, global = true, default_value_t = 1_000_000)]
    most: usize,
    /// Write the report there, as JSON.
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the seconds of the run there, as CSV.
    #[arg(long, global = true, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the report there, as a page with plots.
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// No line for each second.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// What a run consists of.
#[derive(Clone, Debug, Subcommand)]
pub enum ProfileCommand {
    /// OPTIONS for the server itself.
    Options(Pace),
    /// NOTIFY keep-alives.
    KeepAlive(Pace),
    /// REGISTER.
    Register(Pace),
    /// Calls: INVITE, 100, 180, 200, ACK, BYE, 200, with 407 where the server asks for it.
    Call {
        /// How often they begin.
        #[command(flatten)]
        pace: Pace,
        /// From 180 to 200.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        ringing: Duration,
        /// From ACK to BYE.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        talking: Duration,
    },
    /// The calls of a scenario file: its callers, its callees, its times.
    Scenario {
        /// The file; `tandem lab scenario` makes one.
        file: PathBuf,
        /// From 180 to 200.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        ringing: Duration,
        /// From ACK to BYE.
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        talking: Duration,
    },
    /// The mixture of a provider: keep-alives, refreshed registrations and calls of so many subscribers, all challenged.
    Itsp {
        /// How many; they are the phones.
        #[arg(long, value_parser = clap::value_parser!(u32).range(2..=20_000_000))]
        subscribers: u32,
    },
    /// Calls of a border element: so many begin each second, so many are up at a time.
    Sbc {
        /// Calls per second.
        #[arg(long, default_value_t = 1_000.0)]
        rate: f64,
        /// Calls that are up at a time, once as many have begun as end.
        #[arg(long, default_value_t = 60_000)]
        concurrent: u32,
    },
    /// Connections that come and go: opened, with a handshake, for one OPTIONS, and closed. As many at a time as there are --ports (and
    /// --addresses). --server names the port that speaks TLS, often 5061.
    TlsChurn {
        /// How often they begin.
        #[command(flatten)]
        pace: Pace,
        /// Whether TLS sessions begin anew or are taken up again.
        #[arg(long, value_enum, default_value = "full")]
        handshakes: Handshakes,
    },
    /// Attacks: OPTIONS of a scanner, REGISTER with guessed passwords, INVITE to far away, noise. They should come to nothing.
    Scan(Pace),
    /// All phones register again within a time, as after an outage.
    ReregisterStorm {
        /// The time.
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
        within: Duration,
    },
    /// Register all phones as fast as the server answers, and call some of them to see that they are there.
    Populate {
        /// Registrations in progress at a time, of each thread.
        #[arg(long, default_value_t = 256)]
        at_a_time: u32,
        /// Calls afterwards, to phones all over.
        #[arg(long, default_value_t = 1_000)]
        sample: u32,
    },
}

/// What holds where the command line says nothing.
struct Defaults {
    duration: Duration,
    /// Before calls have rung and talked.
    warm_up: Duration,
    fresh_nonces: bool,
}

impl Defaults {
    const RUN: Self = Self {
        duration: Duration::from_secs(30),
        warm_up: Duration::ZERO,
        fresh_nonces: false,
    };
    /// A transaction lives for 32 s (64*T1): only behind that as many end as begin.
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

/// How often units begin.
#[derive(Clone, Copy, Debug, Args)]
pub struct Pace {
    /// Units per second.
    #[arg(long, default_value_t = 100.0, allow_negative_numbers = true)]
    rate: f64,
    /// More units per second with each step; fewer, where it is negative.
    #[arg(
        long,
        requires = "every",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    step: f64,
    /// How long a step lasts.
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

/// What requests go over.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Connections, as many as there are ports.
    Tcp,
    /// The same, encrypted. Whoever is there is believed to be the server.
    Tls,
    /// Web sockets, as many as there are ports.
    Ws,
    /// The same, encrypted.
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

/// How TLS sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Handshakes {
    /// Anew.
    Full,
    /// Where an earlier one was left, if the server allows it.
    Resumed,
}

/// How often a nonce serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nonces {
    /// As long as the server takes it.
    Reuse,
    /// Once: every unit is challenged.
    Fresh,
}

impl ProfileCommand {
    /// Whether it is the same traffic at any rate, and can fail for want of power.
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
    /// Whether a rate for it can be searched.
    pub(crate) const fn has_rate(&self) -> bool {
        self.profile.has_rate()
    }

    /// What is to be run.
    ///
    /// # Errors
    /// No way leads to the server; the profile needs one; a rate makes no sense.
    pub fn run(&self) -> io::Result<Run> {
        self.run_with(&Defaults::RUN)
    }

    /// The same for the trials of a search: longer than a transaction lives, and every unit challenged.
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
                // Nobody shall miss the last call because a thread began late.
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
                "--direct is for calls: everything else needs a server to ask".into(),
            ));
        }
        let is_scenario = matches!(self.profile, ProfileCommand::Scenario { .. });
        if is_scenario && self.warm_up.is_some() {
            return Err(mistake(
                "--warm-up: every call of a scenario counts; make a longer one".into(),
            ));
        }
        if self.direct && is_scenario && self.workers > 1 {
            return Err(mistake(
                "--direct calls stay within a thread, and a scenario's do not: --workers 1".into(),
            ));
        }
        let rates = profile
            .activities
            .iter()
            .map(|activity| activity.rate.at(0.0));
        for rate in rates {
            if !(0.0..=10_000_000.0).contains(&rate) {
                return Err(mistake(format!(
                    "{rate} units per second make no sense: from 0 to 10,000,000"
                )));
            }
        }
        let sockets = u32::from(self.ports) * u32::from(self.addresses);
        if sockets > 65_535 {
            return Err(mistake(format!(
                "{sockets} sockets for a worker are too many: --ports times --addresses may be 65,535"
            )));
        }
        let is_churn = matches!(self.profile, ProfileCommand::TlsChurn { .. });
        let is_scan = matches!(self.profile, ProfileCommand::Scan(_));
        if is_scan && self.protocol() != Protocol::Udp {
            return Err(mistake(
                "scan goes over UDP: noise would end the connections of the others".into(),
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
            return Err(mistake("--handshakes resumed is for TLS".into()));
        }
        if is_churn && !self.protocol().is_reliable() {
            return Err(mistake(
                "tls-churn opens connections: --transport tls, tcp, wss or ws".into(),
            ));
        }
        if self.direct && self.protocol().is_reliable() {
            return Err(mistake("--direct goes over UDP".into()));
        }
        let phones = self.phones();
        if phones < u32::from(self.workers) * 2 {
            return Err(mistake(format!(
                "{phones} phones are too few for {} workers: each needs two",
                self.workers
            )));
        }
        let needed = u64::from(sockets) * u64::from(self.workers);
        if is_churn && u64::from(phones) < needed {
            return Err(mistake(format!(
                "each of the connections at a time is a phone's: --phones {needed} or more (--ports times --addresses times --workers)"
            )));
        }
        if self.first.checked_add(phones).is_none() {
            return Err(mistake(format!(
                "there are no numbers for {phones} phones from {} on: they end at {}",
                self.first,
                u32::MAX
            )));
        }
        Ok(())
    }

    /// The address that the server sees.
    fn own_address(&self) -> io::Result<IpAddr> {
        self.from.map_or_else(|| own_address(self.server), Ok)
    }
}

fn mistake(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
