//! What can be measured, as the command line says it.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::net::SocketAddr;

/// What runs over the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS 1.3.
    Tls,
}

impl Transport {
    /// As it stands in Via.
    pub(super) const fn via_token(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
        }
    }
}

/// How connections begin that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// No handshake but that of TCP.
    Plain,
    /// A full TLS handshake each.
    Full,
    /// TLS sessions are resumed.
    Resumed,
}

/// The key of the certificate that the server must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// ECDSA on the curve P-256.
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

/// The server and how it is reached.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The server's address, for the transport that is measured.
    #[arg(long, default_value = "127.0.0.1:5060")]
    pub(super) server: SocketAddr,
    /// The server's domain. Its subscribers must be user0, user1, … with passwords password0, password1, …
    #[arg(long, default_value = "tandem.localhost")]
    pub(super) domain: String,
    /// What runs over the connections.
    #[arg(long, value_enum, default_value = "tcp")]
    pub(super) transport: Transport,
    /// The key that the server must show.
    #[arg(long, value_enum, default_value = "p256")]
    pub(super) key: Key,
    /// Loopback addresses to connect from, 127.0.0.1 and up: one has some 28,000 ports, and a server has bounds for each.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub(super) sources: u8,
    /// Send OPTIONS instead of REGISTER: connections without registrations.
    #[arg(long)]
    pub(super) unregistered: bool,
}

impl Target {
    /// The same target for another process of this program.
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

/// What `bench connections` is told.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// The server's process: its CPU time and memory are read, with those of its children.
    #[arg(long, required_unless_present = "admin")]
    pub(super) pid: Option<u32>,
    /// Tandem's admin interface: it names the process, and must count as many connections as are held.
    #[arg(long)]
    pub(super) admin: Option<SocketAddr>,
    /// Connections held at each step; what the descriptor limit does not allow is left out, with a message.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000,5000,10000,19000,100000"
    )]
    pub(super) steps: Vec<u64>,
    /// Registrations made first, over one connection: what one costs by itself is taken off.
    #[arg(long, default_value_t = 10_000)]
    pub(super) registrations: u64,
    /// Calls delivered to connections drawn at random after the last step.
    #[arg(long, default_value_t = 1_000)]
    pub(super) calls: u64,
    /// Measure connections that come and go instead: connect, handshake, OPTIONS, close.
    #[arg(
        long = "handshakes",
        value_enum,
        value_name = "KIND",
        conflicts_with = "churn"
    )]
    pub(super) units: Option<Units>,
    /// How many of them come and go.
    #[arg(long, default_value_t = 20_000)]
    pub(super) count: u64,
    /// How many of them at a time.
    #[arg(long, default_value_t = 32)]
    pub(super) window: u64,
    /// Measure what becomes of calls while so many connections a second come and go.
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) churn: Option<u32>,
    /// For how many seconds.
    #[arg(long, default_value_t = 10)]
    pub(super) seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a holding process is told.
#[derive(Clone, Debug, Args)]
pub struct HolderArguments {
    #[command(flatten)]
    pub(super) target: Target,
}
