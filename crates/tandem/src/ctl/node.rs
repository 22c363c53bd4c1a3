//! The results of `node.status`, `node.drain`, `config.reload`, `config.show` and `subscribers.count` as text.
use super::table::Table;
use super::text::duration;
use serde::Deserialize;
use std::fmt;

#[derive(Deserialize)]
pub(super) struct Status {
    phase: String,
    version: String,
    pid: u32,
    uptime_seconds: u64,
    configuration: Option<String>,
    node: String,
    database: Option<String>,
    domains: Vec<String>,
    listeners: Vec<Listener>,
    workers: u64,
    registrations: u64,
}

#[derive(Deserialize)]
struct Listener {
    transport: String,
    address: String,
    advertised: String,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::default();
        facts.row([&"phase", &self.phase]);
        facts.row([&"version", &self.version]);
        facts.row([&"process id", &self.pid]);
        facts.row([&"uptime", &duration(self.uptime_seconds)]);
        let file = self.configuration.as_deref();
        facts.row([&"configuration", &file.unwrap_or("built-in defaults")]);
        facts.row([&"node", &self.node]);
        let database = self.database.as_deref();
        facts.row([&"database", &database.unwrap_or("not yet open")]);
        facts.row([&"domains", &self.domains.join(", ")]);
        for listener in &self.listeners {
            facts.row([&"listener", listener]);
        }
        facts.row([&"workers", &self.workers]);
        facts.row([&"registrations", &self.registrations]);
        facts.fmt(formatter)
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.transport, self.address)?;
        if self.advertised.is_empty() || self.advertised == self.address {
            return Ok(());
        }
        write!(formatter, ", advertised as {}", self.advertised)
    }
}

/// The result of `node.drain`.
#[derive(Deserialize)]
pub(super) struct Drained {
    phase: String,
}

impl fmt::Display for Drained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "the server is {}", self.phase)
    }
}

/// The result of `config.reload`.
#[derive(Deserialize)]
pub(super) struct Reloaded {
    changed: Vec<String>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changed.is_empty() {
            return writeln!(formatter, "reloaded; no key changed");
        }
        writeln!(formatter, "reloaded; changed: {}", self.changed.join(", "))
    }
}

/// The result of `config.show`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Effective(toml::Table);

impl fmt::Display for Effective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The result of `subscribers.count`.
#[derive(Deserialize)]
pub(super) struct Subscribers {
    subscribers: u64,
}

impl fmt::Display for Subscribers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.subscribers)
    }
}
