//! What the stack carries: transactions between a client stack and a server stack through real sockets, on one core.
//!
//! The workload is that of reSIProcate's `testStack`: so many REGISTERs, a window of them unanswered, each answered with 200
//! at once, spread over so many ports in turns. Everything is in it: encoding, parsing, both transaction machines with their timers,
//! transport, system calls.
//!
//! ```text
//! client stack (a worker) ── 127.1.0.1 ──▶ 127.0.0.1 ── server stack (a worker)      both pinned to one core
//! ```
//!
//! A port is a transport on both sides, as it is there. UDP: a socket of the client and a socket of the server, which speak to
//! nobody else. TCP: a listener of the server and a connection to it; opening the connection is part of the first transaction
//! over it. Each run has new stacks and new sockets.

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
    /// Datagrams.
    Udp,
    /// Connections in the clear.
    Tcp,
}

impl Transport {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Udp => Protocol::Udp,
            Self::Tcp => Protocol::Tcp,
        }
    }

    /// As URIs say it.
    const fn parameter(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// What the stacks wait in.
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

    /// Its name in tables.
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
    /// Between the stacks.
    pub transport: Transport,
    /// How many of them.
    pub ports: NonZeroU16,
    /// Of both stacks.
    pub event_loop: EventLoop,
    /// Transactions of a run.
    pub transactions: u64,
    /// Transactions that wait for their response at a time.
    pub window: u32,
    /// The core that both stacks are pinned to.
    pub cpu: usize,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Transactions per second.
    pub rate: f64,
    /// CPU microseconds of all processes per transaction, the kernel's share included.
    pub cpu: f64,
    /// Transactions without a 200.
    pub failed: u64,
    /// Requests and responses sent again.
    pub retransmitted: u64,
    /// Datagrams that found a receive buffer full, and messages that could not be sent.
    pub lost: u64,
    /// Processes that the stacks took.
    pub processes: usize,
}

impl Run {
    /// Whether the figure stands: every transaction succeeded.
    pub const fn is_clean(&self) -> bool {
        self.failed == 0
    }
}

/// Which processes a cell takes, with as many descriptors as this process may have.
///
/// # Errors
/// When there are more ports than descriptors.
pub fn plan(cell: &Cell) -> io::Result<Plan> {
    let limit = sip_runtime::raise_descriptor_limit();
    Plan::new(cell.transport, cell.ports, limit).map_err(io::Error::other)
}

/// Runs one cell once. `program` starts server stacks of their own where one process may not open that many descriptors.
///
/// # Errors
/// When there are more ports than descriptors or port numbers, the kernel does not have the event loop, or a run does not end.
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

/// How long a run may take: Timer F ends every transaction, and a thousand a second is a failure, too.
fn patience(transactions: u64) -> Duration {
    Duration::from_secs(60 + transactions / 1_000)
}

/// The first core that this process may use.
///
/// # Errors
/// When the kernel does not tell, or the process may use none.
pub fn first_cpu() -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    (0..CpuSet::MAX_CPU)
        .find(|cpu| allowed.is_set(*cpu))
        .ok_or_else(|| io::Error::other("no core may be used"))
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
            // Its CPU time is this process's.
            Self::Here(_) => Ok(()),
            Self::Elsewhere(remote) => remote.begin(),
        }
    }

    /// What it counted, and the CPU time of its own process since the beginning.
    fn end(self) -> io::Result<(side::Counts, Duration)> {
        match self {
            Self::Here(side) => Ok((side.end()?, Duration::ZERO)),
            Self::Elsewhere(remote) => remote.end(),
        }
    }
}
