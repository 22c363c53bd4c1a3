//! The result of a search, as text, JSON and HTML.

use super::Capacity;
use super::backlog::Backlog;
use super::watch::Verdict;
use crate::page::{Page, Plot, Point};
use crate::run::{self, Delay, DelaySummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The objective that a rate must meet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The delay that is measured.
    pub delay: Delay,
    /// Maximum 99th percentile, in microseconds.
    pub p99_us: u64,
    /// Maximum share of units that fail.
    pub failures: f64,
}

/// One run at one rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Units per second requested.
    pub rate: f64,
    /// Units per second started.
    pub begun: f64,
    /// Share of the units that failed or did not end.
    pub failed: f64,
    /// Failures by kind and reason.
    #[serde(default)]
    pub failures: BTreeMap<String, u64>,
    /// Growth of the units in progress from start to end, by a linear fit over the seconds.
    #[serde(default)]
    pub backlog_growth: f64,
    /// Why the trial fails regardless of its delays: its backlog grew, or it ended early.
    #[serde(default)]
    pub rejected: Option<String>,
    /// The delay that the objective applies to.
    pub delay: DelaySummary,
    /// All delays by name.
    pub delays: BTreeMap<String, DelaySummary>,
    /// Processors that the server used while units started, if known.
    pub server_cpu: Option<f64>,
    /// CPU time of the server per unit in microseconds, if known.
    pub server_cpu_us_per_unit: Option<f64>,
    /// Share of the time for which the limit throttled the server, summed over all processors.
    pub throttled: Option<f64>,
    /// Why these figures may not be the server's own.
    pub doubts: Vec<String>,
}

impl Trial {
    pub(super) fn of(report: &run::Report, rate: f64, delay: Delay, verdict: &Verdict) -> Self {
        let used = verdict.used;
        let units = report.units.values();
        let (attempted, failed) =
            units.fold((0, report.unfinished), |(attempted, failed), ends| {
                let lost = ends.failed + ends.skipped;
                (attempted + ends.attempted + ends.skipped, failed + lost)
            });
        let seconds = report.seconds.max(1e-9);
        let delays = report.delays.iter();
        let backlog = Backlog::of(&report.timeline, report.seconds, attempted);
        let hopeless = verdict.hopeless.as_ref();
        let hopeless = hopeless.map(|why| format!("ended after {seconds:.0} s: {why}"));
        let grows = backlog.grows().then(|| {
            format!(
                "backlog grew by {:.0} units from start to end",
                backlog.growth
            )
        });
        Self {
            rate,
            begun: attempted as f64 / seconds,
            failed: failed as f64 / attempted.max(1) as f64,
            failures: report.failures.clone(),
            backlog_growth: backlog.growth,
            rejected: hopeless.or(grows),
            delay: report.delays.get(delay.name()).copied().unwrap_or_default(),
            delays: delays
                .map(|(name, delay)| ((*name).to_owned(), *delay))
                .collect(),
            server_cpu: used.map(|used| used.cpu.as_secs_f64() / seconds),
            server_cpu_us_per_unit: used
                .map(|used| used.cpu.as_secs_f64() * 1e6 / attempted.max(1) as f64),
            throttled: used.map(|used| used.throttled.as_secs_f64() / seconds),
            doubts: report.doubts.clone(),
        }
    }
}

/// Lifetime of a transaction (64*T1). The server still carries the transactions of the last half minute.
const TRANSACTION: Duration = Duration::from_secs(32);
/// Shortest trial that shows a backlog.
const SHORTEST: Duration = Duration::from_secs(60);

/// A remark about trials that are too short.
fn too_short(run: &run::Run) -> Option<String> {
    let is_short = run.warm_up < TRANSACTION || run.duration < SHORTEST;
    is_short.then(|| {
        format!(
            "NOT MEANINGFUL: trials of {:.0} s after a warm-up of {:.0} s are too short to include the transactions that the server still holds; use --duration 60s --warm-up 35s or more",
            run.duration.as_secs_f64(),
            run.warm_up.as_secs_f64()
        )
    })
}

/// Selects a percentile, in microseconds.
type Percentile = fn(&DelaySummary) -> u64;

/// The result of a search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the server.
    pub name: String,
    /// Name of the profile.
    pub profile: String,
    /// Duration of each trial.
    pub seconds: f64,
    /// Warm-up before each trial.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// The objective.
    pub objective: Objective,
    /// CPU limit of the server.
    pub cpu: Option<String>,
    /// The highest rate that met the objective, in units per second.
    pub capacity: Option<f64>,
    /// Remarks about the result.
    pub remarks: Vec<String>,
    /// All trials, in the order in which they ran.
    pub trials: Vec<Trial>,
}

impl Report {
    pub(super) fn new(capacity: &Capacity) -> Self {
        Self {
            name: capacity.name.clone(),
            profile: capacity.run.name.clone(),
            seconds: capacity.run.duration.as_secs_f64(),
            warm_up_seconds: capacity.run.warm_up.as_secs_f64(),
            objective: capacity.objective,
            cpu: capacity.cpu.map(|limit| limit.to_string()),
            capacity: None,
            remarks: too_short(&capacity.run).into_iter().collect(),
            trials: Vec::new(),
        }
    }

    /// Adds the trials of one rate. Returns whether the rate holds: more than half of them must.
    pub(super) fn add(&mut self, trials: Vec<Trial>) -> bool {
        let held = trials.iter().filter(|trial| self.holds(trial)).count();
        let holds = held * 2 > trials.len();
        self.trials.extend(trials);
        holds
    }

    /// Whether the remaining trials of a rate, `repeats` in total, cannot change the verdict.
    pub(super) fn is_decided(&self, trials: &[Trial], repeats: u32) -> bool {
        let held = trials.iter().filter(|trial| self.holds(trial)).count();
        let failed = trials.len() - held;
        let repeats = repeats as usize;
        held * 2 > repeats || failed * 2 >= repeats
    }

    fn holds(&self, trial: &Trial) -> bool {
        trial.rejected.is_none()
            && trial.delay.p99 <= self.objective.p99_us
            && trial.failed <= self.objective.failures
            && trial.delay.count > 0
    }

    /// Notes an interruption at this rate.
    pub(super) fn interrupted(&mut self, rate: f64) {
        self.remarks.push(format!(
            "interrupted at {rate:.1} units per second: the server may carry more"
        ));
    }

    /// Whether a failed rate may be the generator's fault.
    pub(super) fn generator_was_the_bottleneck(&mut self, rate: f64) -> bool {
        let doubted = self
            .trials
            .iter()
            .filter(|trial| trial.rate.total_cmp(&rate).is_eq() && !trial.doubts.is_empty());
        let doubts: Vec<String> = doubted.flat_map(|trial| trial.doubts.clone()).collect();
        let Some(doubt) = doubts.first() else {
            return false;
        };
        self.remarks.push(format!(
            "the search ended at {rate:.1} units per second, where the generator may have been the bottleneck ({doubt}): the server may carry more"
        ));
        true
    }

    pub(super) fn finish(&mut self, capacity: Option<f64>, highest: f64) {
        self.capacity = capacity;
        if capacity.is_some_and(|capacity| capacity >= highest) {
            self.remarks.push(format!(
                "no higher rate than {highest:.0} was tried (--highest): the server may carry more"
            ));
        }
        if capacity.is_none() {
            self.remarks.push("no rate met the objective".into());
        }
    }

    /// The report as an HTML page, beside other reports.
    pub fn html(&self, others: &[Self]) -> String {
        let all = || std::iter::once(self).chain(others);
        let mut page = Page::new(&format!("Capacity: {}", self.profile));
        for report in all() {
            page.paragraph(&report.headline());
            for remark in &report.remarks {
                page.paragraph(remark);
            }
        }
        let limit = self.objective.p99_us as f64 / 1e3;
        let percentiles: [(&str, Percentile); 3] = [
            ("99th percentile", |delay| delay.p99),
            ("100th percentile (maximum)", |delay| delay.max),
            ("50th percentile", |delay| delay.p50),
        ];
        for (title, value) in percentiles {
            page.plot(&Plot {
                title: &format!(
                    "{title} of the delay \"{}\"",
                    self.objective.delay.name().replace('_', " ")
                ),
                across: "units per second",
                up: "milliseconds",
                lines: all()
                    .map(|report| (report.name.clone(), report.known(value)))
                    .collect(),
                limit: Some(limit),
                highest: Some(limit * 2.0),
            });
        }
        for report in all() {
            let rows = report.by_rate().into_iter().map(Trial::cells);
            page.table(&report.name, &HEAD, rows.map(Into::into));
            let failures = report.failures();
            if !failures.is_empty() {
                page.table(
                    &format!("{}: failures by code", report.name),
                    &["code or reason", "rate", "units"],
                    failures.into_iter(),
                );
            }
        }
        page.finish()
    }

    /// The same as [`Self::line`], for a plot.
    fn known(&self, value: Percentile) -> Vec<Point> {
        let points = self.line(value).into_iter();
        points.map(|(rate, value)| (rate, Some(value))).collect()
    }

    /// Failures of all trials by code and rate.
    fn failures(&self) -> Vec<Vec<String>> {
        let trials = self.by_rate().into_iter();
        let rows = trials.flat_map(|trial| {
            let failures = trial.failures.iter();
            failures.map(|(reason, count)| {
                vec![
                    reason.clone(),
                    format!("{:.1}", trial.rate),
                    count.to_string(),
                ]
            })
        });
        rows.collect()
    }

    /// A percentile in milliseconds over the rate; the median if a rate has several trials.
    fn line(&self, value: Percentile) -> Vec<(f64, f64)> {
        let mut points: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for trial in &self.trials {
            // Rates are positive, so their bits sort like the numbers.
            let point = points.entry(trial.rate.to_bits()).or_default();
            point.0 = trial.rate;
            point.1.push(value(&trial.delay) as f64 / 1e3);
        }
        points
            .into_values()
            .map(|(rate, values)| (rate, median(values)))
            .collect()
    }

    fn by_rate(&self) -> Vec<&Trial> {
        let mut trials: Vec<&Trial> = self.trials.iter().collect();
        trials.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        trials
    }

    fn headline(&self) -> String {
        let Objective {
            delay,
            p99_us,
            failures,
        } = self.objective;
        let limit = self
            .cpu
            .as_ref()
            .map_or_else(String::new, |limit| format!(" with {limit} of CPU"));
        let found = self.capacity.map_or_else(
            || "nothing".to_owned(),
            |capacity| format!("{capacity:.1} units per second"),
        );
        format!(
            "{}{limit} carries {found} of `{}`: p99 of {} within {}, at most {} % failures",
            self.name,
            self.profile,
            delay.name(),
            humantime::format_duration(Duration::from_micros(p99_us)),
            failures * 100.0
        )
    }
}

const HEAD: [&str; 10] = [
    "rate",
    "begun",
    "p50 ms",
    "p99 ms",
    "max ms",
    "failed %",
    "backlog +",
    "CPU",
    "CPU us/unit",
    "throttled %",
];

impl Trial {
    fn cells(&self) -> [String; HEAD.len()] {
        let ms = |value: u64| format!("{:.2}", value as f64 / 1e3);
        let known = |value: Option<f64>, factor: f64, digits: usize| {
            value.map_or_else(
                || "-".to_owned(),
                |value| format!("{:.digits$}", value * factor),
            )
        };
        [
            format!("{:.1}", self.rate),
            format!("{:.1}", self.begun),
            ms(self.delay.p50),
            ms(self.delay.p99),
            ms(self.delay.max),
            format!("{:.2}", self.failed * 100.0),
            format!("{:.0}", self.backlog_growth.round() + 0.0),
            known(self.server_cpu, 1.0, 3),
            known(self.server_cpu_us_per_unit, 1.0, 1),
            known(self.throttled, 100.0, 0),
        ]
    }

    /// A bar for the p99, on a logarithmic scale from 0.1 ms.
    fn bar(&self) -> String {
        let decades = (self.delay.p99.max(1) as f64 / 100.0).log10();
        let mark = if self.doubts.is_empty() { '#' } else { '?' };
        let marks = (0..40).take_while(|place| f64::from(*place) < decades * 6.0);
        marks.map(|_| mark).collect()
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cell in self.cells() {
            write!(f, "{cell:>12}")?;
        }
        write!(f, "  {}", self.bar())?;
        match &self.rejected {
            Some(why) => write!(f, "  rejected: {why}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in HEAD {
            write!(f, "{name:>12}")?;
        }
        writeln!(f, "  p99, logarithmic: six marks per decade from 0.1 ms")?;
        for trial in self.by_rate() {
            writeln!(f, "{trial}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        writeln!(f, "{}", self.headline())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 0 => values[middle - 1].midpoint(values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(rate: f64, p99: u64, failed: f64) -> Trial {
        Trial {
            rate,
            begun: rate,
            failed,
            failures: BTreeMap::new(),
            backlog_growth: 0.0,
            rejected: None,
            delay: DelaySummary {
                count: 10,
                p99,
                ..DelaySummary::default()
            },
            delays: BTreeMap::new(),
            server_cpu: None,
            server_cpu_us_per_unit: None,
            throttled: None,
            doubts: Vec::new(),
        }
    }

    fn report() -> Report {
        Report {
            name: "server".into(),
            profile: "call".into(),
            seconds: 60.0,
            warm_up_seconds: 35.0,
            objective: Objective {
                delay: Delay::SessionRequest,
                p99_us: 100_000,
                failures: 0.01,
            },
            cpu: Some("30m".into()),
            capacity: None,
            remarks: Vec::new(),
            trials: Vec::new(),
        }
    }

    #[test]
    fn most_of_the_repeats_decide() {
        let mut report = report();
        let with = |p99: [u64; 3]| p99.map(|p99| trial(10.0, p99, 0.0)).to_vec();
        assert!(report.add(with([90_000, 100_000, 900_000])));
        assert!(!report.add(with([90_000, 101_000, 900_000])));
        assert!(!report.add(vec![trial(20.0, 5, 0.02)]), "too many failed");
        let mut unmeasured = trial(20.0, 0, 0.0);
        unmeasured.delay.count = 0;
        assert!(!report.add(vec![unmeasured]), "nothing was measured");
        let mut growing = trial(20.0, 5, 0.0);
        growing.rejected = Some("its backlog grew".into());
        assert!(!report.add(vec![growing]), "its backlog grew");
    }

    #[test]
    fn a_rate_is_measured_until_more_trials_could_not_change_what_is_said_of_it() {
        let report = report();
        let (good, bad) = (trial(10.0, 5, 0.0), trial(10.0, 5, 1.0));
        assert!(!report.is_decided(&[], 1));
        assert!(report.is_decided(std::slice::from_ref(&good), 1));
        assert!(report.is_decided(std::slice::from_ref(&bad), 1));
        assert!(!report.is_decided(std::slice::from_ref(&good), 3));
        assert!(!report.is_decided(&[good.clone(), bad.clone()], 3));
        assert!(report.is_decided(&[good.clone(), bad.clone(), good.clone()], 3));
        assert!(report.is_decided(&[good.clone(), good], 3));
        assert!(report.is_decided(&[bad.clone(), bad], 3));
    }

    #[test]
    fn a_report_can_be_read_again_and_shown_beside_another() {
        let mut report = report();
        report.add(vec![trial(20.0, 5_000, 0.0), trial(10.0, 4_000, 0.0)]);
        report.finish(Some(20.0), 20.0);
        let text = serde_json::to_string(&report).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(again.line(|delay| delay.p99), [(10.0, 4.0), (20.0, 5.0)]);
        let shown = report.to_string();
        assert!(shown.contains("carries 20.0 units per second"), "{shown}");
        assert!(shown.contains("may carry more"), "{shown}");
        let page = report.html(&[again]);
        // Two servers in three plots, each drawn once for wide windows and once for narrow ones.
        assert_eq!(page.matches("stroke-width=\"2\"").count(), 12);
    }
}
