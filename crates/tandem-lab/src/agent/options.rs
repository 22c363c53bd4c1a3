//! The command line of an agent.

use crate::controller::protocol::MOST_PHONES;
use crate::run::{Pattern, Settings, Subscribers, Transport, server_address};
use clap::Args;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Phones that do what a controller tells them.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// The controller, host and port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8070")]
    pub controller: String,
    /// The file with the controller's token, where it requires one.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What this agent is called; no two of a controller may have the same name. Host name and process id when none is given.
    #[arg(long)]
    pub name: Option<String>,
    /// How many phones this process plays at most. Which ones, the controller says.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PHONES)))]
    pub phones: u32,
    /// The SIP server: where all requests go. An address or a name, and a port unless it is 5060.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1:5060", value_parser = server_address)]
    server: SocketAddr,
    /// The server's domain, which is the realm of its challenges, too.
    #[arg(long, default_value = "tandem.localhost")]
    domain: String,
    /// What requests go over.
    #[arg(long, value_enum, default_value = "udp")]
    transport: Transport,
    /// Names of the phones. {} stands for the number, {:04} for the number with zeros up to four digits.
    #[arg(long, value_name = "PATTERN", default_value = "user{}")]
    user: Pattern,
    /// Passwords of the phones, written like their names; without a number all phones have the same.
    #[arg(long, value_name = "PATTERN", default_value = "password{}", value_parser = Pattern::password)]
    password: Pattern,
    /// Seconds that registrations ask for; they are renewed after half of that.
    #[arg(long, default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(60..))]
    expires: u32,
    /// Sockets that the phones of a thread share, or connections to the server.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// The address that phones send from; the one that the way to the server begins with when none is named.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Threads that phones live on.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Calls in progress on each thread beyond which none begins: those fail.
    #[arg(long, default_value_t = 100_000)]
    most: usize,
}

/// Longest name.
const LONGEST_NAME: usize = 64;

impl Arguments {
    /// Who plays, but for which phones.
    pub(super) fn settings(&self) -> io::Result<Settings> {
        if !self.controller.contains(':') {
            return Err(mistake(format!(
                "--controller {}: a port is missing, as in {}:8070",
                self.controller, self.controller
            )));
        }
        if self.controller.contains('/') {
            return Err(mistake(format!(
                "--controller {}: only an address and a port, as in 127.0.0.1:8070",
                self.controller
            )));
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

    /// What the agent is called.
    pub(super) fn name(&self) -> io::Result<String> {
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
            Err(mistake(format!(
                "--name {name}: letters, digits, `.`, `_` and `-` make a name, {LONGEST_NAME} at most"
            )))
        }
    }
}

/// Whether an agent may be called that.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_of_a_name)
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}

fn mistake(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
