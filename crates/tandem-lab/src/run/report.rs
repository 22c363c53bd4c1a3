//! The result of a run, as text, JSON and CSV.

use super::Run;
use super::cost::Cost;
use super::figures::{Cohort, Delay, Ends, Figures, Kind};
use super::worker::Losses;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Lateness of the generator, in microseconds, above which the delays may be its own.
const LATE: u64 = 5_000;
/// Processor utilization above which the generator may be the bottleneck.
const BUSY: f64 = 0.9;

/// Summary of a distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named by what they are; in microseconds")]
pub struct DelaySummary {
    pub count: u64,
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl DelaySummary {
    pub(crate) fn of(delays: &Histogram<u64>) -> Self {
        Self {
            count: delays.len(),
            mean: delays.mean(),
            p50: delays.value_at_quantile(0.5),
            p90: delays.value_at_quantile(0.9),
            p99: delays.value_at_quantile(0.99),
            p999: delays.value_at_quantile(0.999),
            max: delays.max(),
        }
    }
}

/// One second of a run, or the incomplete last one.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// End of the second, in seconds since the start.
    pub time: f64,
    /// Units started.
    pub attempted: u64,
    /// Units that succeeded.
    pub succeeded: u64,
    /// Units that failed.
    pub failed: u64,
    /// Units in progress at its end.
    pub in_progress: u64,
    /// Median of the main delay, in microseconds; `None` without samples.
    pub p50_us: Option<u64>,
    /// 99th percentile of the main delay, in microseconds.
    pub p99_us: Option<u64>,
    /// Highest lateness of the generator, in microseconds; `None` if no unit started.
    pub lateness_us: Option<u64>,
}

/// The initial registration of phones.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Populated {
    /// Number of phones.
    pub phones: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// 503 responses to registrations, which were retried.
    pub put_off: u64,
    /// Phones for which the server returned contacts of others.
    pub shared: u64,
}

/// Successes and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Counted {
    pub succeeded: u64,
    pub failed: u64,
}

/// The figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the profile.
    pub profile: String,
    /// The server; `None` if callers call callees directly.
    pub server: Option<String>,
    /// Number of phones.
    pub phones: u32,
    /// The initial registration.
    pub populated: Option<Populated>,
    /// Phones that deregistered at the end, and phones that failed to.
    pub deregistered: Counted,
    /// Duration of the warm-up.
    pub warm_up_seconds: f64,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Outcomes of units, by kind.
    pub units: BTreeMap<&'static str, Ends>,
    /// Units that were still in progress at the end of the final wait.
    pub unfinished: u64,
    /// Units started per second.
    pub units_per_second: f64,
    /// Failures by kind and reason.
    pub failures: BTreeMap<String, u64>,
    /// Attacks that the server rejected, by status code; `none` means no response.
    pub refusals: BTreeMap<String, u64>,
    /// INVITEs that reached a callee.
    pub calls_taken: u64,
    /// Messages retransmitted by the phones.
    pub retransmissions_sent: u64,
    /// Those of them that were INVITEs.
    pub invites_retransmitted: u64,
    /// Those of them that were 2xx responses to INVITE. The others were requests other than INVITE.
    pub answers_retransmitted: u64,
    /// Duplicates received by the phones.
    pub retransmissions_received: u64,
    /// Responses that arrived too late for their transaction.
    pub late_messages: u64,
    /// Received messages that are not valid SIP.
    pub nonsense: u64,
    /// Messages lost at the generator.
    pub losses: Losses,
    /// Delays by name.
    pub delays: BTreeMap<&'static str, DelaySummary>,
    /// The cost for the server, if its process is known.
    pub cost: Option<Cost>,
    /// CPU time of the generator per unit, in microseconds.
    pub generator_cpu_us_per_unit: f64,
    /// Utilization of the generator's threads, from 0 to 1.
    pub generator_busy: f64,
    /// Why these figures may not be the server's own.
    pub doubts: Vec<String>,
    /// Warnings that do not invalidate the figures.
    pub warnings: Vec<String>,
    /// The run, second by second.
    pub timeline: Vec<Second>,
    /// Units that were due in each tenth of a second of the run, and how many of them succeeded.
    pub cohorts: Vec<Cohort>,
    #[serde(skip)]
    figures: Figures,
    #[serde(skip)]
    cpu: Duration,
    #[serde(skip)]
    warm_up: Duration,
    #[serde(skip)]
    workers: u16,
    #[serde(skip)]
    polls: bool,
    #[serde(skip)]
    delay: Delay,
}

impl Report {
    pub(super) fn new(run: &Run, populated: Option<Populated>) -> Self {
        Self {
            profile: run.name.clone(),
            server: run.plan.server.map(|server| server.to_string()),
            phones: run.plan.subscribers.count,
            populated,
            deregistered: Counted::default(),
            warm_up_seconds: run.warm_up.as_secs_f64(),
            seconds: 0.0,
            units: BTreeMap::new(),
            unfinished: 0,
            units_per_second: 0.0,
            failures: BTreeMap::new(),
            refusals: BTreeMap::new(),
            calls_taken: 0,
            retransmissions_sent: 0,
            invites_retransmitted: 0,
            answers_retransmitted: 0,
            retransmissions_received: 0,
            late_messages: 0,
            nonsense: 0,
            losses: Losses::default(),
            delays: BTreeMap::new(),
            cost: None,
            generator_cpu_us_per_unit: 0.0,
            generator_busy: 0.0,
            doubts: Vec::new(),
            warnings: Vec::new(),
            timeline: Vec::new(),
            cohorts: Vec::new(),
            figures: Figures::default(),
            cpu: Duration::ZERO,
            warm_up: run.warm_up,
            workers: run.fleet.workers,
            polls: run.fleet.polls,
            delay: run.main_delay(),
        }
    }

    /// Adds a time in which units were started, and its CPU time.
    pub(super) fn measured(&mut self, elapsed: Duration, cpu: Duration) {
        self.seconds = elapsed.as_secs_f64();
        self.cpu = cpu;
    }

    pub(super) fn add(
        &mut self,
        elapsed: Duration,
        figures: &Figures,
        in_progress: usize,
    ) -> &Second {
        let second = self.second(elapsed.as_secs_f64(), figures, in_progress);
        self.timeline.push(second);
        self.figures.add(figures);
        self.timeline
            .last()
            .unwrap_or_else(|| unreachable!("just added"))
    }

    /// The figures of the second that ends at `time`.
    pub(super) fn second(&self, time: f64, figures: &Figures, in_progress: usize) -> Second {
        let total = figures.total();
        let of = |delay: Delay, quantile: f64| {
            let delays = figures.delay(delay);
            (!delays.is_empty()).then(|| delays.value_at_quantile(quantile))
        };
        Second {
            time,
            attempted: total.attempted,
            succeeded: total.succeeded,
            failed: total.failed,
            in_progress: in_progress as u64,
            p50_us: of(self.delay, 0.5),
            p99_us: of(self.delay, 0.99),
            lateness_us: of(Delay::Lateness, 1.0),
        }
    }

    /// Notes that the run was interrupted.
    pub(super) fn interrupted(&mut self, run: &Run) {
        self.doubts.push(format!(
            "interrupted after {:.1} of {:.1} s",
            self.seconds,
            run.duration.as_secs_f64()
        ));
    }

    /// Notes the result of the deregistration.
    pub(super) fn deregistered(&mut self, left: Counted) {
        self.deregistered = left;
        if left.failed > 0 {
            self.warnings.push(format!(
                "{} phones failed to deregister: the server keeps their contacts until they expire",
                left.failed
            ));
        }
    }

    /// The main delay, in words.
    pub(super) fn main_delay(&self) -> String {
        self.delay.name().replace('_', " ")
    }

    /// Cohorts after the warm-up.
    fn counted_cohorts(&self) -> Vec<Cohort> {
        let cohorts = &self.figures.cohorts;
        let first = (self.warm_up.as_millis() / 100) as u32;
        let last = cohorts.keys().next_back().copied().unwrap_or_default();
        let cohort = |tenth| cohorts.get(&tenth).copied().unwrap_or_default();
        if cohorts.is_empty() {
            return Vec::new();
        }
        (first..=last).map(cohort).collect()
    }

    fn finish_warnings(&mut self) {
        let before = self.populated.map_or(0, |populated| populated.shared);
        let shared = before + self.figures.shared_registrations;
        if shared > 0 {
            self.warnings.push(format!(
                "the server has other contacts for {shared} of the phones, from an earlier run or from other phones: calls fork to them, which costs the server CPU time"
            ));
        }
    }

    pub(super) fn finish(&mut self, in_progress: usize, losses: &Losses) {
        let figures = &self.figures;
        let total = figures.total();
        self.units = Kind::ALL
            .into_iter()
            .filter(|kind| figures.ends(*kind).attempted + figures.ends(*kind).skipped > 0)
            .map(|kind| (kind.plural(), *figures.ends(kind)))
            .collect();
        self.unfinished = in_progress as u64;
        self.units_per_second = total.attempted as f64 / self.seconds.max(1e-9);
        let failures = figures.failures.iter();
        self.failures = failures
            .map(|((kind, reason), count)| (format!("{kind}: {reason}"), *count))
            .collect();
        let refusals = figures.refusals.iter();
        self.refusals = refusals
            .map(|(status, count)| match status {
                0 => ("none".into(), *count),
                status => (status.to_string(), *count),
            })
            .collect();
        self.calls_taken = figures.calls_taken;
        self.retransmissions_sent = figures.retransmissions_sent;
        self.invites_retransmitted = figures.invites_retransmitted;
        self.answers_retransmitted = figures.answers_retransmitted;
        self.retransmissions_received = figures.retransmissions_received;
        self.late_messages = figures.late_messages;
        self.nonsense = figures.nonsense;
        self.losses = *losses;
        let delays = Delay::ALL.map(|delay| (delay.name(), DelaySummary::of(figures.delay(delay))));
        self.delays = delays
            .into_iter()
            .filter(|(_, delay)| delay.count > 0)
            .collect();
        self.generator_cpu_us_per_unit =
            self.cpu.as_secs_f64() * 1e6 / total.attempted.max(1) as f64;
        self.generator_busy =
            self.cpu.as_secs_f64() / self.seconds.max(1e-9) / f64::from(self.workers);
        let doubts = self.reasons_to_doubt(&total);
        self.doubts.extend(doubts);
        self.cohorts = self.counted_cohorts();
        self.finish_warnings();
    }

    fn reasons_to_doubt(&self, total: &Ends) -> Vec<String> {
        let mut doubts = Vec::new();
        let late = self.figures.delay(Delay::Lateness).value_at_quantile(0.99);
        if late > LATE {
            doubts.push(format!(
                "one unit in a hundred began more than {:.1} ms late: the generator was the bottleneck, or another process used its processor",
                late as f64 / 1e3
            ));
        }
        // A polling thread is always busy.
        if self.generator_busy > BUSY && !self.polls {
            doubts.push(format!(
                "the generator's threads were busy {:.0} % of the time: increase --workers",
                self.generator_busy * 100.0
            ));
        }
        let attacks = self.figures.ends(Kind::Attack).attempted;
        if attacks > 0 && self.figures.delay(Delay::Other).is_empty() {
            doubts.push("the server responded to no attack: check that it is running".into());
        }
        if total.skipped > 0 {
            doubts.push(format!(
                "{} units were skipped because too many were in progress: increase --most (for connections: --ports)",
                total.skipped
            ));
        }
        if self.losses.kernel_drops > 0 {
            doubts.push(format!(
                "the kernel dropped {} messages to the generator: raise net.core.rmem_max, or increase --ports",
                self.losses.kernel_drops
            ));
        }
        doubts
    }

    /// Units started.
    pub(super) fn attempted(&self) -> u64 {
        self.figures.total().attempted
    }

    /// Whether every unit succeeded.
    pub fn is_clean(&self) -> bool {
        let total = self.figures.total();
        total.failed == 0 && total.skipped == 0 && self.unfinished == 0
    }

    /// The seconds of the run, as CSV with a header.
    pub fn csv(&self) -> String {
        use std::fmt::Write;
        let mut text =
            String::from("time,attempted,succeeded,failed,in_progress,p50_us,p99_us,lateness_us\n");
        for second in &self.timeline {
            let Second {
                time,
                attempted,
                succeeded,
                failed,
                in_progress,
                p50_us,
                p99_us,
                lateness_us,
            } = second;
            let known =
                |value: &Option<u64>| value.map_or_else(String::new, |value| value.to_string());
            let (p50_us, p99_us, lateness_us) = (known(p50_us), known(p99_us), known(lateness_us));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{time:.3},{attempted},{succeeded},{failed},{in_progress},{p50_us},{p99_us},{lateness_us}"
            );
        }
        text
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<u64>| {
            value.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3))
        };
        write!(
            f,
            "{:>7.1} s  started {:>7}  succeeded {:>7}  failed {:>5}  in progress {:>7}  p50 {:>8} ms  p99 {:>8} ms  late {:>7} ms",
            self.time,
            self.attempted,
            self.succeeded,
            self.failed,
            self.in_progress,
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.lateness_us)
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(populated) = &self.populated {
            let Populated {
                phones,
                seconds,
                put_off,
                shared: _,
            } = populated;
            let rate = *phones as f64 / seconds.max(1e-9);
            writeln!(
                f,
                "registered {phones} phones in {seconds:.1} s, {rate:.0} per second; 503 responses {put_off}"
            )?;
        }
        for (kind, ends) in &self.units {
            let Ends {
                attempted,
                succeeded,
                failed,
                skipped,
            } = ends;
            let rate = *attempted as f64 / self.seconds.max(1e-9);
            writeln!(
                f,
                "{kind}: {attempted} started ({rate:.1} per second), {succeeded} succeeded, {failed} failed, {skipped} skipped"
            )?;
        }
        for (reason, count) in &self.failures {
            writeln!(f, "  {reason}: {count}")?;
        }
        for (status, count) in &self.refusals {
            writeln!(f, "  response {status}: {count}")?;
        }
        if self.deregistered.succeeded > 0 {
            writeln!(f, "deregistered {} phones", self.deregistered.succeeded)?;
        }
        for warning in &self.warnings {
            writeln!(f, "WARNING: {warning}")?;
        }
        if self.units.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "unfinished {}, calls received {}, retransmissions {}, duplicates {}, late {}, unparsable {}, kernel drops {}, not sent {}",
            self.unfinished,
            self.calls_taken,
            self.retransmissions_sent,
            self.retransmissions_received,
            self.late_messages,
            self.nonsense,
            self.losses.kernel_drops,
            self.losses.not_sent
        )?;
        writeln!(
            f,
            "{:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "milliseconds", "count", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for (name, delay) in &self.delays {
            let ms = |us: u64| us as f64 / 1e3;
            writeln!(
                f,
                "{:<28} {:>9} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
                name,
                delay.count,
                ms(delay.p50),
                ms(delay.p90),
                ms(delay.p99),
                ms(delay.p999),
                ms(delay.max)
            )?;
        }
        if let Some(cost) = &self.cost {
            writeln!(f, "{cost}")?;
        }
        writeln!(
            f,
            "generator: {:.1} us of CPU per unit, busy {:.0} %",
            self.generator_cpu_us_per_unit,
            self.generator_busy * 100.0
        )?;
        for doubt in &self.doubts {
            writeln!(f, "DO NOT TRUST THIS RUN: {doubt}")?;
        }
        Ok(())
    }
}
