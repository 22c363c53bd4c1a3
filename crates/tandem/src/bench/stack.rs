//! `tandem bench stack`: measures the stack without an application.

use crate::output::show;
use anyhow::anyhow;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::process::ExitCode;
use tandem_lab::stack::{self, Cell, EventLoop, Program, Row, Transport};

/// The parameters of the table's cells.
#[derive(Debug, clap::Args)]
pub struct StackArguments {
    /// Transport between the stacks (default: all).
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Number of ports that the transactions are spread over: for UDP a socket on each side, for TCP a listener and a connection to it.
    #[arg(long, value_delimiter = ',', default_values = ["1", "100", "1000", "10000"])]
    ports: Vec<NonZeroU16>,
    /// Event loop of both stacks (default: all).
    #[arg(long, value_enum, value_delimiter = ',')]
    event_loop: Vec<EventLoop>,
    /// Transactions per run.
    #[arg(long, default_value = "50000")]
    transactions: NonZeroU64,
    /// Maximum number of transactions that wait for their response.
    #[arg(long, default_value = "100")]
    window: NonZeroU32,
    /// Runs per cell; the cells take turns.
    #[arg(long, default_value = "5")]
    runs: NonZeroU32,
    /// Core for both stacks (default: the first one that the process may use).
    #[arg(long)]
    cpu: Option<usize>,
    /// Print JSON: an array of cells with all runs.
    #[arg(long)]
    json: bool,
}

/// Measures and prints. Fails if a cell cannot be measured or a transaction failed.
pub(super) fn run(arguments: &StackArguments) -> anyhow::Result<ExitCode> {
    let program = Program {
        path: std::env::current_exe()?,
        arguments: ["bench", "stack-server"].map(Into::into).to_vec(),
    };
    let mut rows: Vec<Row> = cells(arguments)?
        .into_iter()
        .map(|cell| Row {
            cell,
            runs: Vec::new(),
        })
        .collect();
    // Reports an impossible cell before the first run.
    for row in &rows {
        stack::plan(&row.cell)?;
    }
    for round in 1..=arguments.runs.get() {
        for row in &mut rows {
            let Cell {
                transport,
                ports,
                event_loop,
                ..
            } = row.cell;
            let run = stack::run(&row.cell, &program).map_err(|error| {
                let cell = format!("{transport:?} over {ports} ports, {}", event_loop.name());
                anyhow!("{cell}: {error}")
            })?;
            eprintln!(
                "round {round}: {transport:?} over {ports} ports, {}: {:.0} transactions/s",
                event_loop.name(),
                run.rate
            );
            row.runs.push(run);
        }
    }
    let is_clean = rows
        .iter()
        .flat_map(|row| &row.runs)
        .all(stack::Run::is_clean);
    let shown = if arguments.json {
        show(&format!("{}\n", serde_json::to_string(&rows)?))
    } else {
        show(&stack::table(&rows))
    };
    Ok(if is_clean { shown } else { ExitCode::FAILURE })
}

fn cells(arguments: &StackArguments) -> anyhow::Result<Vec<Cell>> {
    let transports = all_unless_named(&arguments.transport, &[Transport::Tcp, Transport::Udp]);
    let loops = [EventLoop::Epoll, EventLoop::Poll, EventLoop::IoUring];
    let loops = all_unless_named(&arguments.event_loop, &loops);
    let cpu = match arguments.cpu {
        Some(cpu) => cpu,
        None => stack::first_cpu()?,
    };
    let mut cells = Vec::new();
    for event_loop in loops {
        for transport in transports {
            cells.extend(arguments.ports.iter().map(|ports| Cell {
                transport: *transport,
                ports: *ports,
                event_loop: *event_loop,
                transactions: arguments.transactions.get(),
                window: arguments.window.get(),
                cpu,
            }));
        }
    }
    Ok(cells)
}

fn all_unless_named<'a, T>(named: &'a [T], all: &'a [T]) -> &'a [T] {
    if named.is_empty() { all } else { named }
}
