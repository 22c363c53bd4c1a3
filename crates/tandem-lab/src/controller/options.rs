//! The command line of `tandem lab controller`.

use super::plan::Division;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Command agents according to a scenario, and serve a page about it.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Address of the page, to which agents also connect; an address that other machines can reach requires --token-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8070")]
    pub listen: SocketAddr,
    /// Additional host name of the controller, beside localhost and literal addresses; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// File with the token that pages and agents must present: at least 16 visible characters.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Folder of the scenarios (*.csv), also for uploads.
    #[arg(long, value_name = "FOLDER", default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// How phones are divided among agents.
    #[arg(long, value_enum, default_value = "ranges")]
    pub division: Division,
    /// Registrations started per second, over all agents.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub registrations_per_second: u32,
    /// Default ringing time, from 180 to 200.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub ringing: Duration,
    /// Default talking time, from ACK to BYE.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub talking: Duration,
}
