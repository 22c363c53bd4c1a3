//! A metric: its description and its reader.
use super::samples::{Kind, Samples};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;

/// How the values of a metric are read from a source `S`.
enum Read<S> {
    /// One whole number.
    Value(fn(&S) -> u64),
    /// Anything else.
    Samples(fn(&S, &mut Samples<'_>) -> fmt::Result),
}

/// A metric whose values are read from a source `S`.
pub(crate) struct Metric<S: 'static> {
    /// The full name of its samples, with the unit and `_total`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The names of its labels.
    pub(super) labels: &'static [&'static str],
    /// What it counts or measures: a noun phrase without a full stop.
    pub(super) help: &'static str,
    /// More about it in Markdown, for the documentation only.
    pub(super) details: &'static str,
    read: Read<S>,
}

impl<S> Metric<S> {
    /// A counter without labels.
    pub(crate) const fn counter(
        name: &'static str,
        help: &'static str,
        read: fn(&S) -> u64,
    ) -> Self {
        Self::new(name, Kind::Counter, help, Read::Value(read))
    }

    /// A gauge without labels.
    pub(crate) const fn gauge(name: &'static str, help: &'static str, read: fn(&S) -> u64) -> Self {
        Self::new(name, Kind::Gauge, help, Read::Value(read))
    }

    /// A metric with labels, or with values that are not whole numbers.
    pub(crate) const fn family(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        read: fn(&S, &mut Samples<'_>) -> fmt::Result,
    ) -> Self {
        Self::new(name, kind, help, Read::Samples(read))
    }

    const fn new(name: &'static str, kind: Kind, help: &'static str, read: Read<S>) -> Self {
        Self {
            name,
            kind,
            labels: &[],
            help,
            details: "",
            read,
        }
    }

    /// Names the labels. Samples give their values in this order.
    pub(crate) const fn labels(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    /// Adds sentences for the documentation.
    pub(crate) const fn details(mut self, details: &'static str) -> Self {
        self.details = details;
        self
    }

    /// Reads and writes the metric.
    pub(crate) fn encode(&self, source: &S, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        debug_assert_eq!(
            self.name.ends_with("_total"),
            self.kind == Kind::Counter,
            "{}",
            self.name
        );
        let (stem, unit) = self.stem();
        let kind = self.kind.metric_type();
        let encoder = encoder.encode_descriptor(stem, self.help, unit.as_ref(), kind)?;
        let mut samples = Samples::new(encoder, self.kind, self.labels);
        match self.read {
            Read::Value(read) => samples.value(read(source)),
            Read::Samples(read) => read(source, &mut samples),
        }
    }

    /// The name without what the encoder appends: unit and `_total`.
    fn stem(&self) -> (&'static str, Option<Unit>) {
        let stem = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
        let unit = units
            .into_iter()
            .find_map(|(suffix, unit)| Some((stem.strip_suffix(suffix)?, Some(unit))));
        unit.unwrap_or((stem, None))
    }
}
