//! The result of an analysis, as text and JSON.

use crate::analysis::Analysis;
use crate::counters::{Counter, Counters};
use crate::figures::ResponseTimes;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The response times of one step of one method, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by what they are; in microseconds")]
pub struct Row {
    pub method: &'static str,
    pub step: &'static str,
    #[serde(skip)]
    words: &'static str,
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The result of an analysis.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The addresses of the server.
    pub servers: Vec<String>,
    /// The response times of all steps that occurred.
    pub response_times_us: Vec<Row>,
    /// Counters of packets and messages.
    pub counters: Counters,
    /// Duration of the analysis in seconds.
    pub seconds: f64,
    /// Conditions that affect the figures.
    pub remarks: Vec<String>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people: counts far below 2^52"
)]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

impl Report {
    pub(crate) fn new(analysis: &Analysis, elapsed: Duration, cut_off: bool) -> Self {
        let row = |(step, method, times): (crate::Step, crate::MethodName, &ResponseTimes)| Row {
            method: method.name(),
            step: step.name(),
            words: step.words(),
            count: times.count(),
            mean: times.distribution.mean() / 1e3,
            p50: microseconds(times.distribution.value_at_quantile(0.5)),
            p90: microseconds(times.distribution.value_at_quantile(0.9)),
            p99: microseconds(times.distribution.value_at_quantile(0.99)),
            max: microseconds(times.longest),
        };
        let counters = analysis.counters();
        let mut rows: Vec<Row> = analysis.figures().times().map(row).collect();
        // Calls first.
        rows.sort_by_key(|row| row.method != "INVITE");
        let servers = analysis.servers().addresses().iter();
        Self {
            servers: servers.map(ToString::to_string).collect(),
            remarks: remarks(&counters, rows.is_empty(), cut_off),
            response_times_us: rows,
            counters,
            seconds: elapsed.as_secs_f64(),
        }
    }
}

/// Conditions that affect the figures.
fn remarks(counters: &Counters, nothing: bool, cut_off: bool) -> Vec<String> {
    let of = |counter| counters.of(counter);
    let mut remarks = Vec::new();
    let mut remark = |is_so: bool, what: String| {
        if is_so {
            remarks.push(what);
        }
    };
    let count = of(Counter::KernelDrops);
    let what =
        "packets were dropped by the kernel: times are missing; increase --ring or use fewer ports";
    remark(count > 0, format!("{count} {what}"));
    let count = of(Counter::Negative);
    let what = "response times were below zero and are omitted: the clock was set back";
    remark(count > 0, format!("{count} {what}"));
    let count = of(Counter::Forgotten);
    let what = "messages were evicted before a matching message left: increase --remember";
    remark(count > 0, format!("{count} {what}"));
    let count = of(Counter::InternalMessages);
    let what = "messages went from one of the server's addresses to another: add the port, such as --server 127.0.0.1:5060";
    remark(count > 0 && nothing, format!("{count} {what}"));
    let count = of(Counter::ForeignMessages);
    let what = "messages were neither to nor from the server: check --server";
    remark(count > 0 && nothing, format!("{count} {what}"));
    let (packets, messages) = (of(Counter::Packets), of(Counter::Messages));
    remark(
        packets > 0 && messages == 0,
        format!("{packets} packets contain no readable SIP message"),
    );
    let what = "the file ends in the middle of a packet, for example because the capture was killed; all packets before it were read";
    remark(cut_off, what.to_owned());
    remarks
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "response times of {}", self.servers.join(", "))?;
        writeln!(
            f,
            "{:<42} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "milliseconds", "count", "p50", "p90", "p99", "max"
        )?;
        for row in &self.response_times_us {
            let name = format!("{} {}", row.method, row.words);
            let [p50, p90, p99, max] = [row.p50, row.p90, row.p99, row.max].map(|time| time / 1e3);
            let count = row.count;
            writeln!(
                f,
                "{name:<42} {count:>9} {p50:>9.3} {p90:>9.3} {p99:>9.3} {max:>9.3}"
            )?;
        }
        let counted = Counter::ALL
            .iter()
            .map(|counter| (counter.name(), self.counters.of(*counter)));
        let counted =
            counted.filter(|(name, count)| *count > 0 || ["packets", "messages"].contains(name));
        let counted: Vec<String> = counted
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        writeln!(f, "{}", counted.join(", "))?;
        for remark in &self.remarks {
            writeln!(f, "NOTE: {remark}")?;
        }
        Ok(())
    }
}
