//! The command line of `tandem lab agent`.

use crate::controller::protocol::MAX_PHONES;
use crate::run::{Pattern, Settings, Subscribers, Transport, server_address};
use anyhow::bail;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Play phones that a controller commands.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Address of the controller, host and port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8070")]
    pub controller: String,
    /// File with the controller's token, if it requires one.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name of this agent, unique at its controller (default: host name and process id).
    #[arg(long)]
    pub name: Option<String>,
    /// Maximum number of phones that this process plays; the controller chooses which.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PHONES)))]
    pub phones: u32,
    /// SIP server that receives all requests: an address or a name, with a port unless it is 5060.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1:5060", value_parser = server_address)]
    server: SocketAddr,
    /// Domain of the server, also the realm of its challenges.
    #[arg(long, default_value = "tandem.localhost")]
    domain: String,
    /// Transport of the requests.
    #[arg(long, value_enum, default_value = "udp")]
    transport: Transport,
    /// Pattern of user names: {} is the phone's number, {:04} the number padded with zeros to four digits.
    #[arg(long, value_name = "PATTERN", default_value = "user{}")]
    user: Pattern,
    /// Pattern of passwords, as for --user; without a placeholder all phones share one password.
    #[arg(long, value_name = "PATTERN", default_value = "password{}", value_parser = Pattern::password)]
    password: Pattern,
    /// Registration lifetime to request, in seconds; phones refresh after half of it.
    #[arg(long, default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(60..))]
    expires: u32,
    /// Sockets (or connections to the server) that the phones of one thread share.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Local address of the phones (default: the one that routes to the server).
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Threads that run the phones.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Maximum number of calls in progress per thread; further calls fail.
    #[arg(long, default_value_t = 100_000)]
    most: usize,
}

/// Longest name, in characters.
const LONGEST_NAME: usize = 64;

impl Arguments {
    /// The settings of the phones; the controller adds their numbers.
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        if !self.controller.contains(':') {
            bail!(
                "--controller {}: add a port, such as {}:8070",
                self.controller,
                self.controller
            );
        }
        if self.controller.contains('/') {
            bail!(
                "--controller {}: must be an address and a port only, such as 127.0.0.1:8070",
                self.controller
            );
        }
        Ok(Settings {
            server: self.server,
            transport: self.transport,
            from: self.from,
            subscribers: Subscribers {
                first: 0,
                count: 0,
                user: self.user.clone(),
                password: self.password.clone(),
                domain: self.domain.clone(),
            },
            expires: self.expires,
            ports: self.ports,
            workers: self.workers,
            most: self.most,
        })
    }

    /// The agent's name.
    pub(super) fn name(&self) -> anyhow::Result<String> {
        let own = || {
            let host = rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned();
            let host: String = host
                .chars()
                .filter(|letter| is_of_a_name(*letter))
                .take(48)
                .collect();
            format!("{host}-{}", std::process::id())
        };
        let name = self.name.clone().unwrap_or_else(own);
        if is_name(&name) {
            Ok(name)
        } else {
            bail!(
                "--name {name}: use letters, digits, `.`, `_` and `-`, {LONGEST_NAME} characters at most"
            )
        }
    }
}

/// Whether this is a valid name of an agent.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_of_a_name)
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}
