//! The metrics of a server: one catalogue from which `/metrics` and docs/metrics.md are made.
//!
//! The metrics of the process exist from its start. All others exist once the server runs.

mod bans;
mod calls;
mod connections;
mod datagrams;
mod dialogs;
mod fleet;
mod fleet_dialogs;
mod latency;
mod messages;
mod next_hops;
mod overload;
mod process;
mod publishing;
mod questions;
mod registrations;
mod routing;
mod section;
mod server;
mod trace;
mod transactions;

use crate::control::Control;
use crate::metrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use section::{Metrics, Scrape, Section};
use std::fmt;
use std::sync::Arc;

const SECTIONS: [Section; 20] = [
    process::SECTION,
    server::SECTION,
    messages::SECTION,
    latency::SECTION,
    bans::SECTION,
    overload::SECTION,
    transactions::SECTION,
    dialogs::SECTION,
    questions::SECTION,
    next_hops::SECTION,
    routing::SECTION,
    registrations::SECTION,
    fleet::SECTION,
    fleet_dialogs::SECTION,
    calls::RECORDS,
    calls::EVENTS,
    publishing::SECTION,
    datagrams::SECTION,
    connections::SECTION,
    trace::SECTION,
];

/// The first lines of the documentation.
const INTRODUCTION: &str = "\
# Metrics

<!-- Generated: tandem check --metrics > docs/metrics.md -->

Tandem serves its metrics at `GET /metrics` of the [admin interface](admin.md), in the text format of OpenMetrics 1.0, which Prometheus
reads. [Monitoring](monitoring.md) shows how to collect them and which alerts to set. Counters start at zero when the process starts and
survive a reload of the configuration. Metrics of SIP and of sockets are sums over all workers. While the server starts, the page has only
the metrics of [the process](#process).
";

/// The page of `/metrics`.
pub(super) fn page(control: Arc<Control>) -> String {
    metrics::page(ServerCollector(control))
}

/// The documentation of all metrics in Markdown.
pub(crate) fn metrics_reference() -> String {
    let sections = SECTIONS.iter().map(|section| {
        let table = match section.metrics {
            Metrics::Process(metrics) => metrics::table(metrics),
            Metrics::Server(metrics) => metrics::table(metrics),
        };
        let heading = format!("\n## {}\n", section.title);
        let parts = [section.introduction, &table, section.notes];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.fold(heading, |text, part| text + "\n" + part)
    });
    INTRODUCTION.to_owned() + &sections.collect::<String>()
}

/// Reads all metrics at each scrape.
#[derive(Debug)]
struct ServerCollector(Arc<Control>);

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let control = &self.0;
        let server = control.running().map(|running| Scrape {
            control: Arc::clone(control),
            running,
        });
        for section in SECTIONS {
            match (section.metrics, &server) {
                (Metrics::Process(metrics), _) => {
                    for metric in metrics {
                        metric.encode(control, &mut encoder)?;
                    }
                }
                (Metrics::Server(metrics), Some(server)) => {
                    for metric in metrics {
                        metric.encode(server, &mut encoder)?;
                    }
                }
                (Metrics::Server(_), None) => {}
            }
        }
        Ok(())
    }
}
