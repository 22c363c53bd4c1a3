//! Writes the samples of one metric.
use prometheus_client::encoding::{
    EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only increases. Its name ends in `_total`.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
}

impl Kind {
    pub(super) const fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// A metric that is being written.
pub(crate) struct Samples<'e> {
    encoder: MetricEncoder<'e>,
    kind: Kind,
    labels: &'static [&'static str],
}

impl<'e> Samples<'e> {
    pub(super) const fn new(
        encoder: MetricEncoder<'e>,
        kind: Kind,
        labels: &'static [&'static str],
    ) -> Self {
        Self {
            encoder,
            kind,
            labels,
        }
    }

    /// Writes the sample of a metric without labels.
    pub(crate) fn value(&mut self, value: impl SampleValue) -> fmt::Result {
        write(&mut self.encoder, self.kind, &value)
    }

    /// Writes a sample with the values of its labels.
    pub(crate) fn labelled(&mut self, labels: &[&str], value: impl SampleValue) -> fmt::Result {
        let labels = self.named(labels);
        write(&mut self.encoder.encode_family(&labels)?, self.kind, &value)
    }

    /// Writes a sample for each value of the only label.
    pub(crate) fn by_label<'l>(
        &mut self,
        labels: impl IntoIterator<Item = &'l str>,
        value: impl Fn(usize) -> u64,
    ) -> fmt::Result {
        let mut labels = labels.into_iter().enumerate();
        labels.try_for_each(|(index, label)| self.labelled(&[label], value(index)))
    }

    /// Writes a histogram with the values of its labels. `buckets`: each with its upper bound, which is infinite for the last, and how many
    /// values lie in it alone.
    pub(crate) fn histogram(
        &mut self,
        labels: &[&str],
        buckets: &[(f64, u64)],
        sum: f64,
    ) -> fmt::Result {
        let labels = self.named(labels);
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.encoder.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }

    fn named<'l>(&self, values: &[&'l str]) -> Vec<(&'static str, &'l str)> {
        debug_assert_eq!(self.labels.len(), values.len(), "{values:?}");
        self.labels
            .iter()
            .copied()
            .zip(values.iter().copied())
            .collect()
    }
}

/// The value of a counter or a gauge.
pub(crate) trait SampleValue: Copy + EncodeCounterValue + EncodeGaugeValue {}

impl<V: Copy + EncodeCounterValue + EncodeGaugeValue> SampleValue for V {}

fn write(encoder: &mut MetricEncoder<'_>, kind: Kind, value: &impl SampleValue) -> fmt::Result {
    if kind == Kind::Counter {
        encoder.encode_counter::<NoLabelSet, _, u64>(value, None)
    } else {
        encoder.encode_gauge(value)
    }
}
