//! The report of a run as an HTML page.

use super::report::{Report, Second};
use crate::page::{Page, Plot, Point};

type Value = fn(&Second) -> Option<f64>;

/// Microseconds as milliseconds.
fn milliseconds(us: Option<u64>) -> Option<f64> {
    us.map(|us| us as f64 / 1e3)
}

impl Report {
    /// The report as an HTML page.
    pub fn html(&self) -> String {
        let server = self.server.as_deref().unwrap_or("itself");
        let mut page = Page::new(&format!("{} against {server}", self.profile));
        for doubt in &self.doubts {
            page.doubt(doubt);
        }
        for warning in &self.warnings {
            page.paragraph(&format!("Warning: {warning}"));
        }
        page.paragraph(&format!(
            "{} phones, {:.1} seconds, {:.1} units per second; generator {:.1} us of CPU per unit, busy {:.0} %",
            self.phones,
            self.seconds,
            self.units_per_second,
            self.generator_cpu_us_per_unit,
            self.generator_busy * 100.0
        ));
        self.write_tables(&mut page);
        self.plot(
            &mut page,
            ("Units per second", "units per second"),
            &[
                ("started", |second| Some(second.attempted as f64)),
                ("failed", |second| Some(second.failed as f64)),
            ],
        );
        self.plot(
            &mut page,
            (&format!("Delay: {}", self.main_delay()), "milliseconds"),
            &[
                ("p50", |second| milliseconds(second.p50_us)),
                ("p99", |second| milliseconds(second.p99_us)),
            ],
        );
        self.plot(
            &mut page,
            ("Units in progress", "units"),
            &[("in progress", |second| Some(second.in_progress as f64))],
        );
        self.plot(
            &mut page,
            ("Lateness of the generator", "milliseconds"),
            &[("latest", |second| milliseconds(second.lateness_us))],
        );
        page.finish()
    }

    fn write_tables(&self, page: &mut Page) {
        let units = self.units.iter().map(|(kind, ends)| {
            let counts = [ends.attempted, ends.succeeded, ends.failed, ends.skipped];
            let counts = counts.iter().map(u64::to_string);
            std::iter::once((*kind).to_owned()).chain(counts).collect()
        });
        page.table(
            "Units",
            &["kind", "started", "succeeded", "failed", "skipped"],
            units,
        );
        let failures = self.failures.iter();
        let failures = failures.map(|(reason, count)| vec![reason.clone(), count.to_string()]);
        if !self.failures.is_empty() {
            page.table("Failures by code", &["code or reason", "units"], failures);
        }
        let delays = self.delays.iter().map(|(name, delay)| {
            let head = [name.replace('_', " "), delay.count.to_string()];
            let values = [delay.p50, delay.p90, delay.p99, delay.p999, delay.max];
            let values = values.map(|value| format!("{:.3}", value as f64 / 1e3));
            head.into_iter().chain(values).collect()
        });
        page.table(
            "Delays, milliseconds",
            &["delay", "count", "p50", "p90", "p99", "p99.9", "max"],
            delays,
        );
    }

    /// A plot over the time of the run.
    fn plot(&self, page: &mut Page, (title, up): (&str, &str), lines: &[(&str, Value)]) {
        let points = |value: &Value| {
            let seconds = self.timeline.iter();
            let points = seconds.map(|second| (second.time, value(second)));
            with_gaps(points.collect())
        };
        page.plot(&Plot {
            title,
            across: "seconds since the start",
            up,
            lines: lines
                .iter()
                .map(|(name, value)| ((*name).to_owned(), points(value)))
                .collect(),
            limit: None,
            highest: None,
        });
    }
}

/// Inserts gaps for seconds without data, when the workers could not be asked.
fn with_gaps(points: Vec<Point>) -> Vec<Point> {
    const LONG: f64 = 2.5;
    let mut all = Vec::with_capacity(points.len());
    let mut last = 0.0;
    for (time, value) in points {
        if time - last > LONG {
            all.push((f64::midpoint(last, time), None));
        }
        last = time;
        all.push((time, value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_are_missing_are_a_gap() {
        let points = vec![(1.0, Some(5.0)), (2.0, Some(5.0)), (9.0, Some(6.0))];
        let gap = (5.5, None);
        assert_eq!(
            with_gaps(points),
            [(1.0, Some(5.0)), (2.0, Some(5.0)), gap, (9.0, Some(6.0))]
        );
    }
}
