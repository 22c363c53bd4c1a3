//! The metrics page of the controller, in the text format of `OpenMetrics`.

use crate::controller::Fleet;
use crate::members::MemberState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tandem_http::Rejection;

/// Content type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page.
pub(crate) fn page(fleet: Arc<Fleet>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(fleet)));
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut page, &registry);
    page
}

#[derive(Debug)]
struct Page(Arc<Fleet>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let fleet = &*self.0;
        let set = fleet.set();
        let mut gauge = |name: &str, help: &str, value: u64| {
            let descriptor = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(descriptor)
        };
        let generation = set.as_ref().map_or(0, |it| it.set.generation());
        gauge(
            "tandem_fleet_generation",
            "Number of the member set since the controller started",
            generation,
        )?;
        let watchers = fleet.max_watchers - fleet.watchers.available_permits();
        gauge(
            "tandem_fleet_watchers",
            "Edges that follow the member set",
            watchers as u64,
        )?;
        let is_well = u64::from(fleet.source_problem().is_none());
        gauge(
            "tandem_fleet_source_up",
            "Source of members: 1 if its last answer was valid, else 0",
            is_well,
        )?;
        gauge(
            "tandem_fleet_api_connections",
            "Open connections to the API",
            fleet.http.open(),
        )?;
        let counters = &fleet.counters;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, value) in [
            (
                "tandem_fleet_source_errors",
                "Failed or invalid answers of the source of members",
                read(&counters.source_errors),
            ),
            (
                "tandem_fleet_state_file_errors",
                "Failed writes of the state file",
                read(&counters.state_errors),
            ),
            (
                "tandem_fleet_node_errors",
                "Questions to nodes without a valid answer",
                read(&counters.node_errors),
            ),
            (
                "tandem_fleet_watchers_refused",
                "Edges refused because too many follow the member set",
                read(&counters.watchers_refused),
            ),
            (
                "tandem_fleet_watchers_dropped",
                "Edges dropped because they did not read in time",
                read(&counters.watchers_dropped),
            ),
            (
                "tandem_fleet_api_connections_refused",
                "Connections to the API closed at once because of a limit",
                fleet.http.turned_away(),
            ),
        ] {
            let descriptor = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(descriptor)?;
        }
        let mut members = encoder.encode_descriptor(
            "tandem_fleet_members",
            "Nodes in the member set by state",
            None,
            MetricType::Gauge,
        )?;
        for state in MemberState::ALL {
            let labels = [("state", state.word())];
            let family = members.encode_family(&labels)?;
            ConstGauge::new(fleet.count(state)).encode(family)?;
        }
        let mut refused = encoder.encode_descriptor(
            "tandem_fleet_api_requests_refused",
            "Requests refused by the API, by reason",
            None,
            MetricType::Counter,
        )?;
        for reason in Rejection::ALL {
            let labels = [("reason", reason.label())];
            let family = refused.encode_family(&labels)?;
            ConstCounter::new(fleet.http.refused(reason)).encode(family)?;
        }
        Ok(())
    }
}
