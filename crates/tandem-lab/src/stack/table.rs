//! The table of results, in the layout of reSIProcate's (`SipStack Event Loop`, performance), with reSIProcate's rows below ours.

use super::{Cell, EventLoop, Run, Statistics, Transport};
use serde::Serialize;
use std::fmt::Write as _;

/// A cell and its runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: Cell,
    /// All runs.
    pub runs: Vec<Run>,
}

impl Row {
    /// Transactions per second.
    pub fn rate(&self) -> Statistics {
        Statistics::of(self.runs.iter().map(|run| run.rate))
    }

    /// CPU microseconds per transaction.
    pub fn cpu(&self) -> Statistics {
        Statistics::of(self.runs.iter().map(|run| run.cpu))
    }

    fn sum(&self, figure: impl Fn(&Run) -> u64) -> u64 {
        self.runs.iter().map(figure).sum()
    }
}

/// Figures of other stacks: name, and transactions per second over TCP and UDP by ports.
struct Reference {
    name: &'static str,
    tcp: [(u16, &'static str); 3],
    udp: [(u16, &'static str); 3],
}

const REFERENCES: [Reference; 4] = [
    Reference {
        name: "reSIProcate, epoll (a)",
        tcp: [(1, "27-29k"), (100, "19-20k"), (1_000, "8-9k")],
        udp: [(1, "15k"), (100, "15-17k"), (1_000, "8-9k")],
    },
    Reference {
        name: "InterruptableStackThread (b)",
        tcp: [(1, "5065"), (100, "4440"), (10_000, "n/a")],
        udp: [(1, "4370"), (100, "4611"), (10_000, "n/a")],
    },
    Reference {
        name: "EventStackThread/fdset (b)",
        tcp: [(1, "5035"), (100, "4325"), (10_000, "n/a")],
        udp: [(1, "4450"), (100, "4608"), (10_000, "n/a")],
    },
    Reference {
        name: "EventStackThread/epoll (b)",
        tcp: [(1, "5135"), (100, "4620"), (10_000, "3681")],
        udp: [(1, "4291"), (100, "9444"), (10_000, "4492")],
    },
];

const NOTES: &str = "\
(a) its testStack on a machine of two shared virtual cores (AMD EPYC of the Zen 5 class, Linux 6.18), both stacks on one core
(b) https://www.resiprocate.org/SipStack_Event_Loop, Linux 2.6, 8 cores, 2011
";

const NAME_WIDTH: usize = 30;
const WIDTH: usize = 16;

/// The whole table as text.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    if let Some(Row { cell, .. }) = rows.first() {
        let Cell {
            transactions,
            window,
            cpu,
            ..
        } = cell;
        let _ = writeln!(
            text,
            "{transactions} REGISTERs in each run, {window} outstanding at a time; client and server stack are two threads on core {cpu}"
        );
    }
    text.push_str("Transactions per second, mean and standard deviation\n\n");
    let columns = columns(rows);
    header(&mut text, &columns);
    for event_loop in [EventLoop::Epoll, EventLoop::Poll, EventLoop::IoUring] {
        let of_loop = |transport, ports| {
            let same = |row: &&Row| {
                (
                    row.cell.event_loop,
                    row.cell.transport,
                    row.cell.ports.get(),
                ) == (event_loop, transport, ports)
            };
            rows.iter().find(same)
        };
        if rows.iter().any(|row| row.cell.event_loop == event_loop) {
            let name = format!("Tandem, {}", event_loop.name());
            line(&mut text, &name, &columns, |transport, ports| {
                of_loop(transport, ports).map_or_else(String::new, figure)
            });
        }
    }
    for reference in &REFERENCES {
        line(&mut text, reference.name, &columns, |transport, ports| {
            let figures = match transport {
                Transport::Tcp => &reference.tcp,
                Transport::Udp => &reference.udp,
            };
            let figure = figures.iter().find(|(of, _)| *of == ports);
            figure.map_or("", |(_, figure)| *figure).to_owned()
        });
    }
    text.push('\n');
    text.push_str(NOTES);
    details(&mut text, rows);
    text
}

/// TCP before UDP, as in reSIProcate's table.
fn columns(rows: &[Row]) -> Vec<(Transport, u16)> {
    let mut columns = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        let of_transport = rows.iter().filter(|row| row.cell.transport == transport);
        let mut ports: Vec<u16> = of_transport.map(|row| row.cell.ports.get()).collect();
        ports.sort_unstable();
        ports.dedup();
        columns.extend(ports.into_iter().map(|ports| (transport, ports)));
    }
    columns
}

fn header(text: &mut String, columns: &[(Transport, u16)]) {
    line(text, "Protocol", columns, |transport, _| {
        transport.parameter().to_ascii_uppercase()
    });
    line(text, "NumPorts", columns, |_, ports| ports.to_string());
}

fn line(
    text: &mut String,
    name: &str,
    columns: &[(Transport, u16)],
    figure: impl Fn(Transport, u16) -> String,
) {
    let _ = write!(text, "{name:<NAME_WIDTH$}");
    for (transport, ports) in columns {
        let _ = write!(text, "{:>WIDTH$}", figure(*transport, *ports));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

fn figure(row: &Row) -> String {
    let Statistics { mean, deviation } = row.rate();
    let mark = if row.runs.iter().all(Run::is_clean) {
        ""
    } else {
        " !"
    };
    format!("{mean:.0} ±{deviation:.0}{mark}")
}

/// Details of the figures, one line per cell.
fn details(text: &mut String, rows: &[Row]) {
    let _ = writeln!(
        text,
        "\n{:<10}{:<6}{:>7}{:>6}{:>22}{:>16}{:>9}{:>15}{:>7}{:>11}",
        "loop",
        "",
        "ports",
        "runs",
        "CPU us/transaction",
        "per CPU second",
        "failed",
        "retransmitted",
        "lost",
        "processes"
    );
    for row in rows {
        let cpu = row.cpu();
        let _ = writeln!(
            text,
            "{:<10}{:<6}{:>7}{:>6}{:>22}{:>16}{:>9}{:>15}{:>7}{:>11}",
            row.cell.event_loop.name(),
            row.cell.transport.parameter(),
            row.cell.ports,
            row.runs.len(),
            format!("{:.1} ±{:.1}", cpu.mean, cpu.deviation),
            format!("{:.0}", 1e6 / cpu.mean.max(f64::MIN_POSITIVE)),
            row.sum(|run| run.failed),
            row.sum(|run| run.retransmitted),
            row.sum(|run| run.lost),
            row.runs.iter().map(|run| run.processes).max().unwrap_or(0),
        );
    }
    if rows
        .iter()
        .flat_map(|row| &row.runs)
        .any(|run| !run.is_clean())
    {
        text.push_str("! transactions failed: the figure is not valid\n");
    }
    if rows
        .iter()
        .flat_map(|row| &row.runs)
        .any(|run| run.processes > 1)
    {
        text.push_str(
            "Several processes: one may not open enough descriptors (ulimit -Hn), so each stack has its own, on the same core.\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    fn row(transport: Transport, ports: u16, rates: &[f64], failed: u64) -> Row {
        let run = |rate: &f64| Run {
            rate: *rate,
            failed,
            processes: 1,
            ..Run::default()
        };
        Row {
            cell: Cell {
                transport,
                ports: NonZeroU16::new(ports).expect("a port"),
                event_loop: EventLoop::Epoll,
                transactions: 50_000,
                window: 100,
                cpu: 0,
            },
            runs: rates.iter().map(run).collect(),
        }
    }

    #[test]
    fn figures_stand_in_the_columns_of_the_source_and_failures_are_marked() {
        let rows = [
            row(Transport::Udp, 100, &[60_000.0, 62_000.0], 0),
            row(Transport::Tcp, 10_000, &[50_000.0], 3),
        ];
        let text = table(&rows);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[3], ["Protocol", "TCP", "UDP"]);
        assert_eq!(lines[4], ["NumPorts", "10000", "100"]);
        assert_eq!(
            lines[5],
            ["Tandem,", "epoll", "50000", "±0", "!", "61000", "±1414"]
        );
        assert!(lines.contains(&vec!["EventStackThread/epoll", "(b)", "3681", "9444"]));
        assert!(text.contains("the figure is not valid"));
    }
}
