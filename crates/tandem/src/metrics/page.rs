//! A page of metrics in the text format of `OpenMetrics`.
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Content type of `OpenMetrics`, the text format that Prometheus reads.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page of a collector.
pub(crate) fn page(collector: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut page, &registry);
    page
}
