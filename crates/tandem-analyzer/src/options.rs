//! The command line of the analyzer.

use crate::analysis::Bounds;
use crate::servers::ServerAddress;
use clap::{ArgGroup, Args};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of waiting bytes in all connections.
const CONNECTION_BYTES: usize = 64 << 20;
/// Maximum number of IP packets, of at most 64 KiB, with missing fragments.
const FRAGMENTED: usize = 1_024;
/// Largest bound of a histogram bucket.
const LONGEST_BUCKET: Duration = Duration::from_secs(1_000);
/// Default port of SIP.
const SIP: u16 = 5060;

/// Measure response times of a SIP server from the packets that enter and leave it.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["pcap", "interface"])))]
pub struct Arguments {
    /// Read a capture file (pcap or pcapng); - is standard input.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Capture on this interface, or on all with `any`.
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// Address of the server, with a port or for all ports; may be repeated.
    #[arg(long, required = true, value_name = "ADDRESS[:PORT]")]
    server: Vec<ServerAddress>,
    /// Ports to analyze, or `any` (default: for an interface, 5060 and the ports in --server; for a file, any).
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = port)]
    port: Vec<Port>,
    /// Write every response time to this file: CSV, or JSON lines if the name ends in .json, .jsonl or .ndjson.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Write every SIP message to this file, in the same formats.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Upper bounds of the histogram buckets in metrics.
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = bucket,
        default_values = ["100us", "250us", "500us", "1ms", "2500us", "5ms", "10ms", "25ms", "50ms", "100ms", "250ms", "500ms", "1s", "2500ms", "5s"])]
    buckets: Vec<u64>,
    /// Serve Prometheus metrics at this address while capturing.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "interface")]
    pub metrics: Option<SocketAddr>,
    /// Duration of the capture (default: until Ctrl-C).
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "interface")]
    duration: Option<Duration>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// How long to wait for a matching message.
    #[arg(long, value_name = "TIME", default_value = "32s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// Maximum number of remembered messages; each takes 40 to 90 bytes.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    remember: u32,
    /// Maximum number of TCP connections; each takes some 500 bytes.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    connections: u32,
    /// Size of the ring for captured packets in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u16).range(2..=2_048), requires = "interface")]
    ring: u16,
}

#[derive(Clone, Copy, Debug)]
enum Port {
    Any,
    One(u16),
}

/// The source of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A capture file.
    File(PathBuf),
    /// Standard input.
    Input,
    /// A network interface.
    Interface {
        /// Its name, or `any`.
        name: String,
        /// Size of the ring in MiB.
        ring: usize,
        /// Duration of the capture; `None`: until stopped.
        duration: Option<Duration>,
    },
}

/// A validated command line.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The source of packets.
    pub source: Source,
    /// The addresses of the server.
    pub servers: Vec<ServerAddress>,
    /// Ports to analyze; empty means all.
    pub ports: Vec<u16>,
    /// Upper bounds of buckets in nanoseconds, ascending.
    pub buckets: Vec<u64>,
    /// File for response times.
    pub samples: Option<PathBuf>,
    /// File for messages.
    pub messages: Option<PathBuf>,
    /// Limits of the tables.
    pub bounds: Bounds,
}

impl Arguments {
    /// Validates the arguments.
    ///
    /// # Errors
    /// The ports or buckets are invalid.
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
        if ports.len() > crate::capture::MAX_PORTS {
            return Err(mistake(
                "--port: more than 100 ports; use `--port any` for all",
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
        .ok_or_else(|| "use a port from 1 to 65535, or any".to_owned())
}

/// Parses a duration, as nanoseconds.
fn bucket(text: &str) -> Result<u64, String> {
    let bound = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if bound.is_zero() || bound > LONGEST_BUCKET {
        return Err("must be from 1ns to 1000s".to_owned());
    }
    Ok(bound.as_nanos() as u64)
}

fn mistake(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
