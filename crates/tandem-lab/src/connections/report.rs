//! The result of a measurement, as text and JSON.

use super::options::{Key, Units};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;

/// The result of a measurement.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "measured", rename_all = "snake_case")]
#[expect(missing_docs, reason = "one for each measurement")]
pub enum Report {
    Held(HeldReport),
    Units(UnitReport),
    Churn(ChurnReport),
}

impl Report {
    /// Whether nothing failed.
    pub fn is_clean(&self) -> bool {
        match self {
            Self::Held(report) => report.calls.as_ref().is_none_or(CallReport::is_clean),
            Self::Units(report) => report.failed == 0,
            Self::Churn(report) => {
                report.failed == 0
                    && report.calls_alone.is_clean()
                    && report.calls_beside.is_clean()
            }
        }
    }
}

/// The figures at one number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    pub connections: u64,
    pub memory_bytes: u64,
    /// Including handshake and REGISTER or OPTIONS, as fast as one client can go.
    pub accepted_per_second: f64,
    pub server_cpu_us_each: f64,
}

/// Connections that are held.
#[derive(Clone, Debug, Serialize)]
pub struct HeldReport {
    pub transport: &'static str,
    /// Memory of a registration without its own connection.
    pub registration_bytes: f64,
    pub base_bytes: u64,
    pub steps: Vec<Step>,
    /// The steps that were skipped, and why.
    pub left_out: Option<String>,
    /// Memory per connection and registration, by linear regression.
    pub bytes_each: Option<f64>,
    /// Memory per connection without the registration, by linear regression.
    pub connection_bytes: Option<f64>,
    /// Coefficient of determination of the regression.
    pub r_squared: Option<f64>,
    pub calls: Option<CallReport>,
}

/// Calls to phones that registered over connections.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallReport {
    pub made: u64,
    pub answered: u64,
    /// Answered by another phone than the callee.
    pub wrong: u64,
    pub failed: u64,
    pub failure: Option<String>,
    pub delay_p50_us: u64,
    pub delay_p99_us: u64,
    pub delay_max_us: u64,
}

impl CallReport {
    pub(super) fn delays(&mut self, delays: &Histogram<u64>) {
        self.delay_p50_us = delays.value_at_quantile(0.5);
        self.delay_p99_us = delays.value_at_quantile(0.99);
        self.delay_max_us = delays.max();
    }

    const fn is_clean(&self) -> bool {
        self.wrong == 0 && self.failed == 0
    }
}

/// Short-lived connections.
#[derive(Clone, Debug, Serialize)]
pub struct UnitReport {
    pub units: Units,
    pub key: Option<Key>,
    pub done: u64,
    pub failed: u64,
    pub failure: Option<String>,
    pub server_cpu_us_each: f64,
    pub per_second_and_core: f64,
    pub per_second: f64,
    pub delay_p50_us: u64,
    pub delay_p99_us: u64,
}

/// Calls beside short-lived connections.
#[derive(Clone, Debug, Serialize)]
pub struct ChurnReport {
    pub transport: &'static str,
    pub rate: u32,
    pub done: u64,
    pub failed: u64,
    pub failure: Option<String>,
    /// Without the cost of the calls.
    pub server_cpu_us_each: f64,
    /// Busy CPUs.
    pub server_busy: f64,
    pub delay_p50_us: u64,
    pub delay_p99_us: u64,
    pub calls_alone: CallReport,
    pub calls_beside: CallReport,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(report) => report.fmt(f),
            Self::Units(report) => report.fmt(f),
            Self::Churn(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for HeldReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>11} {:>9} {:>10} {:>11}",
            self.transport, "memory MB", "accepted/s", "CPU us each"
        )?;
        writeln!(f, "{:>11} {:>9.1}", 0, self.base_bytes as f64 / 1e6)?;
        for step in &self.steps {
            writeln!(
                f,
                "{:>11} {:>9.1} {:>10.0} {:>11.1}",
                step.connections,
                step.memory_bytes as f64 / 1e6,
                step.accepted_per_second,
                step.server_cpu_us_each
            )?;
        }
        if let Some(reason) = &self.left_out {
            writeln!(f, "{reason}")?;
        }
        if let (Some(each), Some(bare), Some(r)) =
            (self.bytes_each, self.connection_bytes, self.r_squared)
        {
            writeln!(
                f,
                "regression: {each:.0} bytes each, {bare:.0} without the registration ({:.0}); r^2 {r:.5}",
                self.registration_bytes
            )?;
        }
        match &self.calls {
            Some(calls) => writeln!(f, "calls: {calls}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} answered by their callees, {} by other phones, {} failed{}; delay p50 {} us, p99 {} us, max {} us",
            self.answered,
            self.made,
            self.wrong,
            self.failed,
            because(self.failure.as_deref()),
            self.delay_p50_us,
            self.delay_p99_us,
            self.delay_max_us
        )
    }
}

impl fmt::Display for UnitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.map(|key| format!(", {key:?}")).unwrap_or_default();
        writeln!(
            f,
            "{:?}{key}: {:.1} us of CPU each, {:.0}/s per core ({:.0}/s measured), {} succeeded, {} failed{}; p50 {} us, p99 {} us",
            self.units,
            self.server_cpu_us_each,
            self.per_second_and_core,
            self.per_second,
            self.done,
            self.failed,
            because(self.failure.as_deref()),
            self.delay_p50_us,
            self.delay_p99_us
        )
    }
}

impl fmt::Display for ChurnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} at {}/s: {:.1} us of CPU each, {:.0} % of a CPU busy, {} succeeded, {} failed{}; p50 {} us, p99 {} us",
            self.transport,
            self.rate,
            self.server_cpu_us_each,
            self.server_busy * 100.0,
            self.done,
            self.failed,
            because(self.failure.as_deref()),
            self.delay_p50_us,
            self.delay_p99_us
        )?;
        writeln!(f, "calls without churn: {}", self.calls_alone)?;
        writeln!(f, "calls during churn:  {}", self.calls_beside)
    }
}

fn because(failure: Option<&str>) -> String {
    failure.map_or_else(String::new, |failure| format!(" ({failure})"))
}
