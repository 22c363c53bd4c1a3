//! Throughput of the stack: transactions between a client stack and a server stack over real sockets, on one core.
//!
//! The workload is that of reSIProcate's `testStack`: a number of REGISTER requests, with a window of them outstanding, each answered
//! with 200 at once, over a number of ports in turn. The cost includes everything: encoding, parsing, both transaction machines with
//! their timers, transport, system calls.
//!
//! ```text
//! client stack (a worker) ── 127.1.0.1 ──▶ 127.0.0.1 ── server stack (a worker)      both pinned to one core
//! ```
//!
//! A port is a transport on both sides, as in `testStack`. UDP: a socket of the client and a socket of the server, which exchange
//! messages only with each other. TCP: a listener of the server and a connection to it; opening the connection is part of the first
//! transaction over it. Each run has new stacks and new sockets.

mod client;
mod plan;
mod remote;
mod server;
mod side;
mod statistics;
mod table;

pub use plan::{Plan, PlanError};
pub use remote::{Program, serve};
pub use statistics::Statistics;
pub use table::{Row, table};

use crate::process::own_cpu_time;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};
use side::Side;
use sip_runtime::EventLoopKind;
use sip_transport::Protocol;
use std::io;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// A transport between the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP without TLS.
    Tcp,
}

impl Transport {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Udp => Protocol::Udp,
            Self::Tcp => Protocol::Tcp,
        }
    }

    /// The transport parameter of URIs.
    const fn parameter(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// The event loop of both stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named by the system call")]
pub enum EventLoop {
    Epoll,
    Poll,
    IoUring,
}

impl EventLoop {
    const fn kind(self) -> EventLoopKind {
        match self {
            Self::Epoll => EventLoopKind::Epoll,
            Self::Poll => EventLoopKind::Poll,
            Self::IoUring => EventLoopKind::IoUring,
        }
    }

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Poll => "poll",
            Self::IoUring => "io_uring",
        }
    }
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Transport between the stacks.
    pub transport: Transport,
    /// Number of ports.
    pub ports: NonZeroU16,
    /// Event loop of both stacks.
    pub event_loop: EventLoop,
    /// Transactions per run.
    pub transactions: u64,
    /// Outstanding transactions.
    pub window: u32,
    /// The core that both stacks are pinned to.
    pub cpu: usize,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Transactions per second.
    pub rate: f64,
    /// CPU time of all processes per transaction in microseconds, including the kernel's share.
    pub cpu: f64,
    /// Transactions without a 200.
    pub failed: u64,
    /// Retransmitted requests and responses.
    pub retransmitted: u64,
    /// Datagrams dropped at a full receive buffer, and messages that could not be sent.
    pub lost: u64,
    /// Number of processes.
    pub processes: usize,
}

impl Run {
    /// Whether the run is valid: every transaction succeeded.
    pub const fn is_clean(&self) -> bool {
        self.failed == 0
    }
}

/// Divides a cell among processes, with the descriptor limit of this process.
///
/// # Errors
/// There are more ports than descriptors.
pub fn plan(cell: &Cell) -> io::Result<Plan> {
    let limit = sip_runtime::raise_descriptor_limit();
    Plan::new(cell.transport, cell.ports, limit).map_err(io::Error::other)
}

/// Runs one cell once. `program` starts separate server stacks if one process may not open enough descriptors.
///
/// # Errors
/// There are more ports than descriptors or port numbers, the kernel does not support the event loop, or a run does not end.
pub fn run(cell: &Cell, program: &Program) -> io::Result<Run> {
    let plan = plan(cell)?;
    let mut servers = plan
        .servers
        .iter()
        .map(|ports| {
            let cell = Cell {
                ports: *ports,
                ..*cell
            };
            if plan.is_one_process {
                Server::here(&cell)
            } else {
                remote::Remote::start(&cell, program).map(Server::Elsewhere)
            }
        })
        .collect::<io::Result<Vec<_>>>()?;
    let targets = servers.iter().flat_map(Server::addresses).collect();
    let client = client::start(cell, targets)?;
    for server in &mut servers {
        server.begin()?;
    }
    let cpu = own_cpu_time();
    let begun = Instant::now();
    client.order(side::Order::Begin)?;
    let mut counts = client.wait(patience(cell.transactions))?;
    let elapsed = begun.elapsed();
    let mut cpu = own_cpu_time().saturating_sub(cpu);
    counts.lost += client.lost();
    client.stop();
    let processes = if plan.is_one_process {
        1
    } else {
        1 + servers.len()
    };
    for server in servers {
        let (of_server, cpu_elsewhere) = server.end()?;
        counts.retransmitted += of_server.retransmitted;
        counts.lost += of_server.lost;
        cpu += cpu_elsewhere;
    }
    let transactions = cell.transactions as f64;
    Ok(Run {
        rate: transactions / elapsed.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / transactions,
        failed: counts.failed,
        retransmitted: counts.retransmitted,
        lost: counts.lost,
        processes,
    })
}

/// Timeout of a run. Timer F ends every transaction, and fewer than a thousand a second is a failure as well.
fn patience(transactions: u64) -> Duration {
    Duration::from_secs(60 + transactions / 1_000)
}

/// The first core that this process may use.
///
/// # Errors
/// The kernel does not report the affinity, or it is empty.
pub fn first_cpu() -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    (0..CpuSet::MAX_CPU)
        .find(|cpu| allowed.is_set(*cpu))
        .ok_or_else(|| io::Error::other("this process may not use any core"))
}

enum Server {
    Here(Side),
    Elsewhere(remote::Remote),
}

impl Server {
    fn here(cell: &Cell) -> io::Result<Self> {
        server::start(cell).map(Self::Here)
    }

    fn addresses(&self) -> Vec<std::net::SocketAddr> {
        match self {
            Self::Here(side) => side.addresses(),
            Self::Elsewhere(remote) => remote.addresses().to_vec(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self {
            // Its CPU time is included in that of this process.
            Self::Here(_) => Ok(()),
            Self::Elsewhere(remote) => remote.begin(),
        }
    }

    /// Its counts, and the CPU time of its own process since the start.
    fn end(self) -> io::Result<(side::Counts, Duration)> {
        match self {
            Self::Here(side) => Ok((side.end()?, Duration::ZERO)),
            Self::Elsewhere(remote) => remote.end(),
        }
    }
}
