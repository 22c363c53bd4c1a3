//! A report as a page.

use super::report::{Report, Second};
use crate::page::{Page, Plot};

type Value = fn(&Second) -> f64;

impl Report {
    /// The report as a page.
    pub fn html(&self) -> String {
        let server = self.server.as_deref().unwrap_or("itself");
        let mut page = Page::new(&format!("{} against {server}", self.profile));
        for doubt in &self.doubts {
            page.doubt(doubt);
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
            "Units per second",
            &[
                ("begun", |second| second.attempted as f64),
                ("failed", |second| second.failed as f64),
            ],
        );
        self.plot(
            &mut page,
            "Delay, milliseconds",
            &[
                ("p50", |second| second.p50_us as f64 / 1e3),
                ("p99", |second| second.p99_us as f64 / 1e3),
            ],
        );
        self.plot(
            &mut page,
            "Units in progress",
            &[("in progress", |second| second.in_progress as f64)],
        );
        self.plot(
            &mut page,
            "Lateness of the generator, milliseconds",
            &[("latest", |second| second.lateness_us as f64 / 1e3)],
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
            &["kind", "begun", "well", "failed", "skipped"],
            units,
        );
        let failures = self.failures.iter();
        let failures = failures.map(|(reason, count)| vec![reason.clone(), count.to_string()]);
        if !self.failures.is_empty() {
            page.table("Failures", &["reason", "units"], failures);
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
    fn plot(&self, page: &mut Page, title: &str, lines: &[(&str, Value)]) {
        let points = |value: &Value| {
            let seconds = self.timeline.iter();
            seconds.map(|second| (second.time, value(second))).collect()
        };
        page.plot(&Plot {
            title,
            across: "seconds",
            lines: lines
                .iter()
                .map(|(name, value)| ((*name).to_owned(), points(value)))
                .collect(),
            limit: None,
            highest: None,
        });
    }
}
