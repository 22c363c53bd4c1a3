//! `tandem-lab`: drives a workload against a server and prints its cost.

use clap::Parser;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tandem_lab::load::{self, Options, Pace, Workload};

/// Drive a workload against a SIP server over UDP and print its cost for the server.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Workload to run.
    #[arg(value_enum)]
    workload: Workload,
    /// Address of the server.
    #[arg(long, default_value = "127.0.0.1:5060")]
    server: SocketAddr,
    /// Domain of the server.
    #[arg(long, default_value = "tandem.localhost")]
    domain: String,
    /// Number of subscribers user0, user1, … with passwords password0, password1, …; all register first.
    #[arg(long, default_value_t = 1000)]
    users: u32,
    /// Give each subscriber an address of its own in 127/8; otherwise all share two sockets on one address.
    #[arg(long)]
    own_addresses: bool,
    /// Units started per second.
    #[arg(long, default_value_t = 1000, conflicts_with = "window")]
    rate: u32,
    /// Units in progress at a time, instead of a rate: measures the maximum throughput.
    #[arg(long)]
    window: Option<u32>,
    /// Units before the measurement.
    #[arg(long, default_value_t = 10_000)]
    warm_up: u64,
    /// Units in the measurement.
    #[arg(long, default_value_t = 50_000)]
    count: u64,
    /// Seconds after the last unit during which the server's CPU time still counts, to include the cleanup of calls; 35 outlasts all
    /// transactions.
    #[arg(long, default_value_t = 0)]
    linger: u64,
    /// Process id of the server, to read CPU time and memory, children included.
    #[arg(long)]
    pid: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Arguments {
        workload,
        server,
        domain,
        users,
        own_addresses,
        rate,
        window,
        warm_up,
        count,
        linger,
        pid,
        json,
    } = Arguments::parse();
    let options = Options {
        workload,
        server,
        domain,
        users,
        own_addresses,
        pace: window.map_or(Pace::Rate(rate), Pace::Window),
        warm_up,
        count,
        linger: Duration::from_secs(linger),
        pid,
    };
    match load::run(&options) {
        Ok(report) => {
            if json {
                println!("{}", serde_json::to_string(&report).unwrap_or_default());
            } else {
                println!("{report}");
            }
            if report.is_clean() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(1)
            }
        }
        Err(error) => {
            eprintln!("tandem-lab: {error}");
            ExitCode::from(2)
        }
    }
}
