//! The command line of the analyzer.

use crate::analysis::Bounds;
use crate::servers::ServerAddress;
use clap::{ArgGroup, Args};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Octets that may wait in all connections together.
const CONNECTION_BYTES: usize = 64 << 20;
/// IP packets, of at most 64 KiB, of which not all fragments have come.
const FRAGMENTED: usize = 1_024;
/// Port of SIP.
const SIP: u16 = 5060;

/// Response times of a SIP server, from the packets that come to it and leave it.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["pcap", "interface"])))]
pub struct Arguments {
    /// Read a capture file (pcap or pcapng); - is standard input.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Capture on an interface of this machine, or on all: any.
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// An address of the server whose response times are wanted; without a port, all ports of that address. May be repeated.
    #[arg(long, required = true, value_name = "ADDRESS[:PORT]")]
    server: Vec<ServerAddress>,
    /// Look at packets from or to these ports only; `any`: all. From an interface: 5060 and those of --server unless said otherwise; from
    /// a file: all.
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = port)]
    port: Vec<Port>,
    /// Write every response time there: CSV, or lines of JSON where the name ends in .json, .jsonl or .ndjson.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Write every SIP message there, in the same way.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Upper bounds of the histogram's buckets in metrics, in seconds.
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', value_parser = bucket,
        default_values = ["0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5"])]
    buckets: Vec<u64>,
    /// Serve Prometheus metrics there while capturing.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "interface")]
    pub metrics: Option<SocketAddr>,
    /// Capture for so long, instead of until Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "interface")]
    duration: Option<Duration>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// How long the other half of a message is awaited.
    #[arg(long, value_name = "TIME", default_value = "32s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// Messages that are remembered at a time; each takes 40 to 90 octets.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    remember: u32,
    /// TCP connections that are followed at a time; each takes some 500 octets.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    connections: u32,
    /// Memory in MiB that the kernel may fill with packets which are not yet looked at.
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u16).range(2..=2_048), requires = "interface")]
    ring: u16,
}

#[derive(Clone, Copy, Debug)]
enum Port {
    Any,
    One(u16),
}

/// Where packets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Input,
    /// An interface.
    Interface {
        /// Its name, or `any`.
        name: String,
        /// MiB of the ring.
        ring: usize,
        /// For how long; `None`: until told to end.
        duration: Option<Duration>,
    },
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where packets come from.
    pub source: Source,
    /// Whose response times.
    pub servers: Vec<ServerAddress>,
    /// Ports that are looked at; empty: all.
    pub ports: Vec<u16>,
    /// Upper bounds of buckets, in nanoseconds, growing.
    pub buckets: Vec<u64>,
    /// Where every response time goes.
    pub samples: Option<PathBuf>,
    /// Where every message goes.
    pub messages: Option<PathBuf>,
    /// Of the tables.
    pub bounds: Bounds,
}

impl Arguments {
    /// What is to be done.
    ///
    /// # Errors
    /// Ports or buckets make no sense.
    pub fn plan(&self) -> io::Result<Plan> {
        let source = match (&self.pcap, &self.interface) {
            (Some(path), _) if path.as_os_str() == "-" => Source::Input,
            (Some(path), _) => Source::File(path.clone()),
            (None, name) => Source::Interface {
                name: name.clone().unwrap_or_default(),
                ring: self.ring.into(),
                duration: self.duration,
            },
        };
        if !self.buckets.is_sorted_by(|one, next| one < next) {
            return Err(mistake(
                "--buckets: each bound must be larger than the one before it",
            ));
        }
        Ok(Plan {
            ports: self.ports(&source)?,
            source,
            servers: self.server.clone(),
            buckets: self.buckets.clone(),
            samples: self.samples.clone(),
            messages: self.messages.clone(),
            bounds: Bounds {
                messages: self.remember,
                lifetime: i64::try_from(self.patience.as_nanos()).unwrap_or(i64::MAX),
                connections: self.connections as usize,
                connection_bytes: CONNECTION_BYTES,
                fragmented: FRAGMENTED,
            },
        })
    }

    fn ports(&self, source: &Source) -> io::Result<Vec<u16>> {
        let any = self.port.iter().any(|port| matches!(port, Port::Any));
        let is_live = matches!(source, Source::Interface { .. });
        if any || (self.port.is_empty() && !is_live) {
            return Ok(Vec::new());
        }
        let named = self.port.iter().filter_map(|port| match port {
            Port::Any => None,
            Port::One(port) => Some(*port),
        });
        let of_servers = self.server.iter().filter_map(|server| server.port);
        let mut ports: Vec<u16> = named.chain(of_servers).collect();
        if self.port.is_empty() {
            ports.push(SIP);
        }
        ports.sort_unstable();
        ports.dedup();
        if ports.len() > crate::capture::MOST_PORTS {
            return Err(mistake(
                "--port: more than 100 ports; `--port any` looks at all",
            ));
        }
        Ok(ports)
    }
}

fn port(text: &str) -> Result<Port, String> {
    if text == "any" {
        return Ok(Port::Any);
    }
    let port = text.parse().ok().filter(|port| *port != 0);
    port.map(Port::One)
        .ok_or_else(|| "a port from 1 to 65535, or any".to_owned())
}

/// Seconds as nanoseconds.
fn bucket(text: &str) -> Result<u64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "seconds are wanted, such as 0.005".to_owned())?;
    let nanoseconds = (seconds * 1e9).round();
    if !(1.0..=1e12).contains(&nanoseconds) {
        return Err("from 0.000000001 to 1000 seconds".to_owned());
    }
    #[expect(clippy::cast_sign_loss, reason = "it was just looked at")]
    Ok(nanoseconds as u64)
}

fn mistake(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
