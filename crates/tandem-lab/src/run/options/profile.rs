//! The profiles on the command line.

use super::super::arrivals::Rate;
use super::super::figures::Kind;
use super::super::profile::{CallShape, Profile};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Units per second without `--rate`.
const USUAL_RATE: f64 = 100.0;

/// The profiles, each with its own options.
#[derive(Clone, Debug, Subcommand)]
pub enum ProfileCommand {
    /// Send OPTIONS to the server itself, or through it.
    Options {
        /// Rate of requests.
        #[command(flatten)]
        pace: Pace,
        /// Send each request to another phone, through the server.
        #[arg(long)]
        to_phones: bool,
    },
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
        /// Share of their traffic to generate: 0.25 is a quarter, from all phones.
        #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
        share: f64,
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
    /// Send datagrams of 600 bytes to `tandem bench floor`, which sends them back: the cost of the kernel.
    Echo(Pace),
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

/// Rate of units.
#[derive(Clone, Copy, Debug, Args)]
pub struct Pace {
    /// Units per second (default: 100).
    #[arg(long, allow_negative_numbers = true)]
    pub(super) rate: Option<f64>,
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
    pub(super) every: Option<Duration>,
}

impl Pace {
    fn rate(self) -> Rate {
        let rate = self.rate.unwrap_or(USUAL_RATE);
        match self.every {
            Some(every) => Rate::Steps {
                from: rate,
                step: self.step,
                every,
            },
            None => Rate::Constant(rate),
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

impl ProfileCommand {
    /// Whether the profile is the same traffic at any rate, so that a rate can be searched.
    pub(crate) const fn has_rate(&self) -> bool {
        match self {
            Self::Options { .. }
            | Self::KeepAlive(_)
            | Self::Register(_)
            | Self::Echo(_)
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

    /// The name in reports.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Options { .. } => "options",
            Self::KeepAlive(_) => "keep-alive",
            Self::Register(_) => "register",
            Self::Call { .. } => "call",
            Self::Scenario { .. } => "scenario",
            Self::Itsp { .. } => "itsp",
            Self::Sbc { .. } => "sbc",
            Self::TlsChurn { .. } => "tls-churn",
            Self::Echo(_) => "echo",
            Self::Scan(_) => "scan",
            Self::ReregisterStorm { .. } => "reregister-storm",
            Self::Populate { .. } => "populate",
        }
    }

    /// The pace of a profile whose units may also begin in a closed loop.
    pub(super) const fn pace(&self) -> Option<&Pace> {
        match self {
            Self::Options { pace, .. }
            | Self::KeepAlive(pace)
            | Self::Register(pace)
            | Self::Echo(pace)
            | Self::Scan(pace)
            | Self::Call { pace, .. }
            | Self::TlsChurn { pace, .. } => Some(pace),
            Self::Scenario { .. }
            | Self::Itsp { .. }
            | Self::Sbc { .. }
            | Self::ReregisterStorm { .. }
            | Self::Populate { .. } => None,
        }
    }

    /// The traffic of this many phones in this time.
    pub(super) fn traffic(&self, phones: u32, duration: Duration) -> Profile {
        let only = |kind, pace: Pace| Profile::only(kind, pace.rate(), CallShape::default());
        let calls = |rate, ringing, talking| {
            let call = CallShape { ringing, talking };
            Profile::only(Kind::Call, rate, call)
        };
        match *self {
            Self::Options { pace, .. } => only(Kind::Options, pace),
            Self::KeepAlive(pace) => only(Kind::KeepAlive, pace),
            Self::Register(pace) => only(Kind::Register, pace),
            Self::Echo(pace) => only(Kind::Echo, pace),
            Self::Scan(pace) => only(Kind::Attack, pace),
            Self::TlsChurn { pace, .. } => only(Kind::Connection, pace),
            Self::Call {
                pace,
                ringing,
                talking,
            } => calls(pace.rate(), ringing, talking),
            Self::Scenario {
                ringing, talking, ..
            } => calls(Rate::Constant(0.0), ringing, talking),
            Self::Itsp { subscribers, share } => {
                let mut profile = Profile::provider(subscribers);
                profile.set_rate(profile.rate() * share);
                profile
            }
            Self::Sbc { rate, concurrent } => Profile::border(rate, concurrent),
            Self::ReregisterStorm { within } => Profile::storm(phones, within),
            Self::Populate { sample: 0, .. } => Profile::default(),
            Self::Populate { sample, .. } => {
                let rate = f64::from(sample) / duration.as_secs_f64().max(1e-3);
                calls(Rate::Constant(rate), Duration::ZERO, Duration::ZERO)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traffic_of_a_provider_keeps_its_mixture() {
        let traffic = |share| {
            let command = ProfileCommand::Itsp {
                subscribers: 1_000_000,
                share,
            };
            command.traffic(1_000_000, Duration::ZERO)
        };
        let rates = |profile: Profile| -> Vec<f64> {
            let activities = profile.activities.iter();
            activities.map(|activity| activity.rate.at(0.0)).collect()
        };
        assert_eq!(traffic(1.0), Profile::provider(1_000_000));
        let quarter: Vec<f64> = rates(traffic(1.0)).iter().map(|rate| rate / 4.0).collect();
        assert_eq!(rates(traffic(0.25)), quarter);
    }
}
