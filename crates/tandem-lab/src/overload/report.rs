//! The result of an overload measurement, as text, JSON and HTML.

use super::recovery;
use crate::capacity::{Capacity, Usage};
use crate::page::{Page, Plot};
use crate::run::{self, Cohort, Delay, DelaySummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One offered rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// As a multiple of the best rate.
    pub factor: f64,
    /// Units per second that were due.
    pub offered: f64,
    /// Units per second that were due and succeeded within ten seconds, beyond the time that calls ring and talk.
    pub goodput: f64,
    /// Units rejected with 503.
    pub refused: u64,
    /// Failures by kind and reason.
    pub failures: BTreeMap<String, u64>,
    /// Requests that phones retransmitted.
    pub retransmissions: u64,
    /// For accepted calls, from the due time to the 200; for other units, the delay of their kind.
    pub delay: DelaySummary,
    /// Processors that the server used, if known.
    pub server_cpu: Option<f64>,
    /// Why these figures may not be the server's own.
    pub doubts: Vec<String>,
}

/// The recovery after the offered rate dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// Units per second before the drop.
    pub from: f64,
    /// Units per second after the drop.
    pub to: f64,
    /// Seconds until 95 % of new units succeeded for the rest of the observation; `None` if they did not.
    pub seconds: Option<f64>,
    /// Seconds of observation after the drop.
    pub observed: f64,
    /// Tenths of seconds around the drop: seconds since the drop, units due per second, and those that succeeded per second.
    pub course: Vec<(f64, f64, f64)>,
    /// Why these figures may not be the server's own.
    pub doubts: Vec<String>,
}

/// The result for one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the server.
    pub name: String,
    /// Name of the profile.
    pub profile: String,
    /// CPU limit of the server.
    pub cpu: Option<String>,
    /// The best rate, in units per second.
    pub best: f64,
    /// By offered rate.
    pub points: Vec<Point>,
    /// After the highest offered rate.
    pub recovery: Option<Recovery>,
    /// Remarks about the result.
    pub remarks: Vec<String>,
}

impl Point {
    pub(super) fn of(report: &run::Report, factor: f64, offered: f64, used: Option<Usage>) -> Self {
        let seconds = report.seconds.max(1e-9);
        let well: u64 = report.cohorts.iter().map(|cohort| cohort.succeeded).sum();
        let refused = report.failures.iter();
        let refused = refused.filter(|(reason, _)| reason.ends_with(": 503"));
        let delays = [
            Delay::Answer,
            Delay::Registration,
            Delay::Connection,
            Delay::Other,
        ];
        let mut delays = delays
            .iter()
            .filter_map(|delay| report.delays.get(delay.name()));
        Self {
            factor,
            offered,
            goodput: well as f64 / seconds,
            refused: refused.map(|(_, count)| count).sum(),
            failures: report.failures.clone(),
            retransmissions: report.retransmissions_sent,
            delay: delays.next().copied().unwrap_or_default(),
            server_cpu: used.map(|used| used.cpu.as_secs_f64() / seconds),
            doubts: report.doubts.clone(),
        }
    }
}

impl Recovery {
    pub(super) fn of(
        report: &run::Report,
        drop_at: Duration,
        best: f64,
        (from, to): (f64, f64),
    ) -> Self {
        let since = (drop_at.as_millis() / 100) as usize;
        let course = report.cohorts.iter().enumerate();
        let course = course
            .skip(since.saturating_sub(20))
            .map(|(tenth, cohort)| {
                let Cohort {
                    attempted,
                    succeeded,
                } = *cohort;
                let at = (tenth as f64 - since as f64) / 10.0;
                (at, attempted as f64 * 10.0, succeeded as f64 * 10.0)
            });
        Self {
            from: best * from,
            to: best * to,
            seconds: recovery::seconds(&report.cohorts, since),
            observed: report.cohorts.len().saturating_sub(since) as f64 / 10.0,
            course: course.collect(),
            doubts: report.doubts.clone(),
        }
    }
}

impl Report {
    pub(super) fn new(capacity: &Capacity, best: f64, remarks: Vec<String>) -> Self {
        Self {
            name: capacity.name().to_owned(),
            profile: capacity.run().name.clone(),
            cpu: capacity.cpu().map(|limit| limit.to_string()),
            best,
            points: Vec::new(),
            recovery: None,
            remarks,
        }
    }

    /// The report as an HTML page, beside other reports.
    pub fn html(&self, others: &[Self]) -> String {
        let all = || std::iter::once(self).chain(others);
        let mut page = Page::new(&format!("Overload: {}", self.profile));
        for report in all() {
            page.paragraph(&report.headline());
            for doubt in report.doubts() {
                page.doubt(&format!("{}: {doubt}", report.name));
            }
            for remark in &report.remarks {
                page.paragraph(remark);
            }
        }
        let line = |value: fn(&Report, &Point) -> f64| {
            let line = move |report: &Self| {
                let points = report.points.iter();
                let points = points.map(|point| (point.factor, Some(value(report, point))));
                (report.name.clone(), points.collect())
            };
            all().map(line).collect()
        };
        let across = "offered rate, multiples of the best rate";
        page.plot(&Plot {
            title: "Goodput",
            across,
            up: "% of the best rate",
            lines: line(|report, point| point.goodput / report.best * 100.0),
            limit: Some(90.0),
            highest: None,
        });
        page.plot(&Plot {
            title: "99th percentile of accepted units",
            across,
            up: "milliseconds",
            lines: line(|_, point| point.delay.p99 as f64 / 1e3),
            limit: None,
            highest: None,
        });
        for report in all() {
            let rows = report.points.iter().map(|point| point.cells().to_vec());
            page.table(&report.name, &HEAD, rows);
        }
        page.finish()
    }

    fn doubts(&self) -> Vec<&String> {
        let points = self.points.iter().flat_map(|point| &point.doubts);
        let recovery = self.recovery.iter().flat_map(|recovery| &recovery.doubts);
        points.chain(recovery).collect()
    }

    fn headline(&self) -> String {
        let limit = self.cpu.as_ref();
        let limit = limit.map_or_else(String::new, |limit| format!(" with {limit} of CPU"));
        let beyond = self.points.iter().filter(|point| point.factor >= 1.0);
        let lowest = beyond
            .map(|point| point.goodput / self.best)
            .reduce(f64::min);
        let lowest = lowest.map_or_else(String::new, |share| {
            format!("; goodput at and above it at least {:.0} %", share * 100.0)
        });
        let recovery = self.recovery.as_ref();
        let recovery = recovery.map_or_else(String::new, |recovery| format!("; {recovery}"));
        format!(
            "{}{limit}: best rate {:.1} units per second of `{}`{lowest}{recovery}",
            self.name, self.best, self.profile
        )
    }
}

const HEAD: [&str; 9] = [
    "x best",
    "offered",
    "goodput",
    "% of best",
    "503",
    "retransmits",
    "p50 ms",
    "p99 ms",
    "CPU",
];

impl Point {
    fn cells(&self) -> [String; HEAD.len()] {
        let ms = |value: u64| format!("{:.2}", value as f64 / 1e3);
        [
            format!("{:.1}", self.factor),
            format!("{:.1}", self.offered),
            format!("{:.1}", self.goodput),
            format!("{:.0}", self.goodput / self.offered * self.factor * 100.0),
            self.refused.to_string(),
            self.retransmissions.to_string(),
            ms(self.delay.p50),
            ms(self.delay.p99),
            self.server_cpu
                .map_or_else(|| "-".into(), |cpu| format!("{cpu:.3}")),
        ]
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cell in self.cells() {
            write!(f, "{cell:>12}")?;
        }
        match self.doubts.first() {
            Some(doubt) => write!(f, "  DO NOT TRUST: {doubt}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        match self.seconds {
            Some(seconds) => write!(
                f,
                "recovers from {from:.0} to {to:.0} units per second within {seconds:.1} s"
            ),
            None => write!(
                f,
                "does not recover from {from:.0} to {to:.0} units per second within {:.0} s",
                self.observed
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in HEAD {
            write!(f, "{name:>12}")?;
        }
        writeln!(f)?;
        for point in &self.points {
            writeln!(f, "{point}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        writeln!(f, "{}", self.headline())
    }
}
