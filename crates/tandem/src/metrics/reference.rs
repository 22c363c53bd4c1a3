//! The documentation of metrics as a Markdown table.
use super::metric::Metric;
use super::samples::Kind;
use std::fmt::Write as _;

/// A table with a row for each metric.
pub(crate) fn table<S>(metrics: &[Metric<S>]) -> String {
    let mut table = "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for metric in metrics {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let details = match metric.details {
            "" => String::new(),
            details => format!(". {details}"),
        };
        let _ = writeln!(
            table,
            "| `{}` | {kind} | {} | {}{details} |",
            metric.name,
            labels.join(", "),
            metric.help
        );
    }
    table
}
