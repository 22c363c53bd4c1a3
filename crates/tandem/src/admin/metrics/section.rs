//! How the catalogue of metrics is divided.
use crate::control::{Control, Running};
use crate::metrics::Metric;
use std::sync::Arc;

/// A chapter of the documentation with its metrics.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// Markdown above the table.
    pub(super) introduction: &'static str,
    pub(super) metrics: Metrics,
    /// Markdown below the table.
    pub(super) notes: &'static str,
}

impl Section {
    /// A chapter that consists of a table.
    pub(super) const fn new(title: &'static str, metrics: Metrics) -> Self {
        Self {
            title,
            introduction: "",
            metrics,
            notes: "",
        }
    }
}

/// Metrics by what they are read from.
pub(super) enum Metrics {
    Process(&'static [ProcessMetric]),
    Server(&'static [ServerMetric]),
}

pub(super) type ProcessMetric = Metric<Control>;
pub(super) type ServerMetric = Metric<Scrape>;

/// What the metrics of a running server are read from.
pub(super) struct Scrape {
    pub(super) control: Arc<Control>,
    pub(super) running: Arc<Running>,
}
