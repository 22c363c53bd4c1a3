//! The results of `stats.summary`, `transactions.stats`, `proxy.stats` and `targets.dead` as text.
use super::table::Table;
use super::text::{duration, memory};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Deserialize)]
pub(super) struct Summary {
    uptime_seconds: u64,
    requests: Counts,
    responses_sent: Counts,
    responses_received: Counts,
    dropped: Counts,
    transactions: LiveTransactions,
    forwarding: u64,
    parked: u64,
    unacknowledged: u64,
    registrations: u64,
    registered_addresses: u64,
    unsaved_addresses: u64,
    kernel_drops: u64,
    resident_memory_bytes: u64,
    cpu_seconds: f64,
}

#[derive(Deserialize)]
struct LiveTransactions {
    server: u64,
    client: u64,
}

/// Counters by method, status code or reason, without zeros.
#[derive(Deserialize)]
#[serde(transparent)]
struct Counts(BTreeMap<String, u64>);

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self
            .0
            .iter()
            .map(|(label, count)| format!("{label}: {count}"))
            .collect();
        formatter.write_str(if counts.is_empty() { "none" } else { "" })?;
        formatter.write_str(&counts.join(", "))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LiveTransactions { server, client } = self.transactions;
        let mut facts = Table::default();
        facts.row([&"uptime", &duration(self.uptime_seconds)]);
        facts.row([&"requests", &self.requests]);
        facts.row([&"responses received", &self.responses_received]);
        facts.row([&"responses sent", &self.responses_sent]);
        facts.row([&"dropped", &self.dropped]);
        facts.row([&"kernel drops", &self.kernel_drops]);
        facts.row([
            &"live transactions",
            &format!("server: {server}, client: {client}"),
        ]);
        facts.row([&"forwarded requests", &self.forwarding]);
        facts.row([&"parked requests", &self.parked]);
        facts.row([&"waiting for ACK", &self.unacknowledged]);
        facts.row([&"registrations", &self.registrations]);
        facts.row([&"registered addresses", &self.registered_addresses]);
        facts.row([&"unsaved addresses", &self.unsaved_addresses]);
        facts.row([&"memory", &memory(self.resident_memory_bytes)]);
        facts.row([&"CPU time", &format!("{:.1}s", self.cpu_seconds)]);
        facts.fmt(formatter)
    }
}

/// The result of `transactions.stats`.
#[derive(Deserialize)]
pub(super) struct Workers {
    total: Transactions,
    workers: Vec<Transactions>,
}

/// Counters of the transaction layer.
#[derive(Deserialize)]
struct Transactions {
    servers_created: u64,
    servers_live: u64,
    clients_created: u64,
    clients_live: u64,
    requests_retransmitted: u64,
    responses_retransmitted: u64,
    timeouts: u64,
    full: u64,
}

impl fmt::Display for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "WORKER",
            "SERVER TOTAL",
            "SERVER LIVE",
            "CLIENT TOTAL",
            "CLIENT LIVE",
            "RETRANSMITTED",
            "TIMEOUTS",
            "TABLE FULL",
        ]);
        let mut row = |name: &dyn fmt::Display, counts: &Transactions| {
            table.row([
                name,
                &counts.servers_created,
                &counts.servers_live,
                &counts.clients_created,
                &counts.clients_live,
                &(counts.requests_retransmitted + counts.responses_retransmitted),
                &counts.timeouts,
                &counts.full,
            ]);
        };
        for (number, counts) in self.workers.iter().enumerate() {
            row(&number, counts);
        }
        row(&"total", &self.total);
        table.fmt(formatter)
    }
}

/// The result of `proxy.stats`.
#[derive(Deserialize)]
pub(super) struct Forwarded {
    created: u64,
    ended: u64,
    live: u64,
    parked: u64,
    refused_full: u64,
}

impl fmt::Display for Forwarded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::default();
        facts.row([&"created", &self.created]);
        facts.row([&"ended", &self.ended]);
        facts.row([&"live", &self.live]);
        facts.row([&"parked", &self.parked]);
        facts.row([&"refused: table full", &self.refused_full]);
        facts.fmt(formatter)
    }
}

/// The result of `targets.dead`.
#[derive(Deserialize)]
pub(super) struct DeadTargets {
    targets: Vec<DeadTarget>,
}

#[derive(Deserialize)]
struct DeadTarget {
    transport: String,
    address: String,
    why: String,
    tried_again_in: u64,
}

impl fmt::Display for DeadTargets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.targets.is_empty() {
            return writeln!(formatter, "no failed servers");
        }
        let mut table = Table::new(["TRANSPORT", "ADDRESS", "FAILURE", "TRIED AGAIN IN"]);
        for target in &self.targets {
            table.row([
                &target.transport,
                &target.address,
                &target.why,
                &duration(target.tried_again_in),
            ]);
        }
        table.fmt(formatter)
    }
}
