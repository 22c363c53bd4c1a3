//! The command line of a controller.

use super::plan::Division;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Tells agents what to do, by a scenario, and shows a page about it.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Where the page is, and where agents connect. An address that other machines can reach requires `--token-file`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8070")]
    pub listen: SocketAddr,
    /// A name by which the controller may be addressed, beside localhost and literal addresses; can be given several times.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// The file with the token that pages and agents must show: 16 or more visible characters.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The folder with scenarios (*.csv). Uploads go there, too.
    #[arg(long, value_name = "FOLDER", default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// Which agent plays which phones.
    #[arg(long, value_enum, default_value = "ranges")]
    pub division: Division,
    /// Registrations that begin in a second, of all agents together.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub registrations_per_second: u32,
    /// From 180 to 200, as long as the page says nothing else.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub ringing: Duration,
    /// From ACK to BYE, as long as the page says nothing else.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub talking: Duration,
}
