//! The command line of `bench connections`.

use crate::run::{Pattern, Subscribers};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sip_transport::Protocol;
use std::net::SocketAddr;

/// The transport of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS 1.3.
    Tls,
}

impl Transport {
    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::Tcp,
            Self::Tls => Protocol::Tls,
        }
    }
}

/// How short-lived connections begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// TCP only, without a TLS handshake.
    Plain,
    /// Each with a full TLS handshake.
    Full,
    /// With resumed TLS sessions.
    Resumed,
}

/// Type of the key that the server's certificate must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// ECDSA on the curve P-256.
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

/// The server and how to reach it.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Address of the server, for the transport that is measured.
    #[arg(long, default_value = "127.0.0.1:5060")]
    pub(super) server: SocketAddr,
    /// Domain of the server; its subscribers must be user0, user1, … with passwords password0, password1, ….
    #[arg(long, default_value = "tandem.localhost")]
    pub(super) domain: String,
    /// Transport of the connections.
    #[arg(long, value_enum, default_value = "tcp")]
    pub(super) transport: Transport,
    /// Type of the key in the server's certificate.
    #[arg(long, value_enum, default_value = "p256")]
    pub(super) key: Key,
    /// Number of loopback addresses to connect from, 127.0.0.1 and up; one address has some 28,000 ports, and a server limits connections
    /// per address.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub(super) sources: u8,
    /// Send OPTIONS instead of REGISTER, for connections without registrations.
    #[arg(long)]
    pub(super) unregistered: bool,
}

impl Target {
    /// The server's subscribers.
    pub(super) fn subscribers(&self) -> Subscribers {
        Subscribers {
            first: 0,
            count: u32::MAX,
            user: Pattern::around("user", ""),
            password: Pattern::around("password", ""),
            domain: self.domain.clone(),
        }
    }

    /// The command line arguments with the same target, for a child process.
    pub(super) fn to_arguments(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let mut arguments = vec![
            format!("--server={}", self.server),
            format!("--domain={}", self.domain),
            format!("--transport={}", name(self.transport.to_possible_value())),
            format!("--key={}", name(self.key.to_possible_value())),
            format!("--sources={}", self.sources),
        ];
        if self.unregistered {
            arguments.push("--unregistered".into());
        }
        arguments
    }
}

/// The arguments of `bench connections`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// Process id of the server, to read CPU time and memory, children included.
    #[arg(long, required_unless_present = "admin")]
    pub(super) pid: Option<u32>,
    /// Tandem's admin interface: names the process, and must count as many connections as are held.
    #[arg(long)]
    pub(super) admin: Option<SocketAddr>,
    /// Connections to hold at each step; steps beyond the descriptor limit are skipped with a message.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000,5000,10000,19000,100000"
    )]
    pub(super) steps: Vec<u64>,
    /// Registrations to make first over one connection, to subtract the cost of a registration alone.
    #[arg(long, default_value_t = 10_000)]
    pub(super) registrations: u64,
    /// Calls to deliver to randomly chosen connections after the last step.
    #[arg(long, default_value_t = 1_000)]
    pub(super) calls: u64,
    /// Measure short-lived connections instead: connect, handshake, OPTIONS, close.
    #[arg(
        long = "handshakes",
        value_enum,
        value_name = "KIND",
        conflicts_with = "churn"
    )]
    pub(super) units: Option<Units>,
    /// Number of short-lived connections.
    #[arg(long, default_value_t = 20_000)]
    pub(super) count: u64,
    /// Short-lived connections at a time.
    #[arg(long, default_value_t = 32)]
    pub(super) window: u64,
    /// Measure calls while connections open and close at this rate per second.
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) churn: Option<u32>,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 10)]
    pub(super) seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of a process that holds connections.
#[derive(Clone, Debug, Args)]
pub struct HolderArguments {
    #[command(flatten)]
    pub(super) target: Target,
}
