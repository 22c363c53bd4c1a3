//! The metrics of an edge.
use super::nodes::Nodes;
use crate::metrics::{self, Kind, Metric, certificates};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use sip_runtime::WorkerStats;
use sip_runtime::tls::SharedTls;
use sip_transport::Counter;
use std::fmt;
use std::sync::Arc;
use tandem_balancer::{DROPS, EdgeMetrics, NodeState, Shared};

/// What the metrics are read from.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) metrics: Vec<Arc<EdgeMetrics>>,
    pub(super) stats: Arc<[Arc<WorkerStats>]>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) shared: Arc<Shared>,
    pub(super) tls: Option<Arc<SharedTls>>,
}

impl Figures {
    fn sum(&self, counter: impl Fn(&EdgeMetrics) -> &Counter) -> u64 {
        let workers = self.metrics.iter();
        workers.map(|worker| counter(worker).value()).sum()
    }

    fn sum_at(&self, counters: impl Fn(&EdgeMetrics) -> &[Counter], index: usize) -> u64 {
        let at = |worker: &Arc<EdgeMetrics>| counters(worker).get(index).map(Counter::value);
        self.metrics.iter().filter_map(at).sum()
    }

    fn io(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        let workers = self.stats.iter();
        workers.map(|worker| counter(worker).value()).sum()
    }
}

#[derive(Debug)]
struct Snapshot(Arc<Figures>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = METRICS.iter();
        metrics.try_for_each(|metric| metric.encode(&*self.0, &mut encoder))
    }
}

/// The page that Prometheus scrapes.
pub(super) fn page(figures: Arc<Figures>) -> String {
    metrics::page(Snapshot(figures))
}

/// The documentation of all metrics in Markdown.
#[cfg(test)]
pub(crate) fn reference() -> String {
    INTRODUCTION.to_owned() + &metrics::table(METRICS) + REASONS
}

#[cfg(test)]
const INTRODUCTION: &str = "\
# Metrics of an edge

<!-- Generated: WRITE_DOCS=1 cargo test -p tandem --lib config::tests::documents -->

An [edge](edge.md) serves its metrics at `GET /metrics` of its admin interface, in the text format of OpenMetrics 1.0, which Prometheus reads. Counters
start at zero when the process starts, and are sums over all workers.

";

#[cfg(test)]
const REASONS: &str = "
Reasons for dropped messages:

- `not_sip`: data that cannot be parsed as a SIP message.
- `keep_alive`: empty packets from phones, and STUN. The edge answers STUN Binding requests. Both are harmless.
- `incomplete`: a request without Via, Call-ID or CSeq.
- `too_many_headers`: more header fields than the edge accepts.
- `stray_response`: no Via of an edge, or no node for it.
- `forged_response`: a Via that looks like an edge's but is not.
- `not_from_node`: a response for a client that no node sent.
- `connection_gone`: the client's connection has ended. A request is answered 430 (RFC 5626).
";

type EdgeMetric = Metric<Figures>;

const METRICS: &[EdgeMetric] = &[
    EdgeMetric::family(
        "tandem_edge_requests_total",
        Kind::Counter,
        "Requests forwarded, by the side that they came from",
        |figures, samples| {
            samples.labelled(&["clients"], figures.sum(|worker| &worker.from_clients))?;
            samples.labelled(&["nodes"], figures.sum(|worker| &worker.from_nodes))
        },
    )
    .labels(&["from"])
    .details("`from`: `clients`, `nodes`"),
    EdgeMetric::family(
        "tandem_edge_responses_total",
        Kind::Counter,
        "Responses forwarded, by the side that they went to",
        |figures, samples| {
            samples.labelled(&["clients"], figures.sum(|worker| &worker.to_clients))?;
            samples.labelled(&["nodes"], figures.sum(|worker| &worker.to_nodes))
        },
    )
    .labels(&["to"])
    .details("`to`: `clients`, `nodes`"),
    EdgeMetric::family(
        "tandem_edge_own_responses_total",
        Kind::Counter,
        "Responses of the edge itself, by class of their status",
        |figures, samples| {
            samples.by_label(["2xx", "3xx", "4xx", "5xx"], |class| {
                figures.sum_at(|worker| &worker.own_responses, class)
            })
        },
    )
    .labels(&["class"])
    .details("`class`: `2xx` to `5xx`"),
    EdgeMetric::family(
        "tandem_edge_dropped_total",
        Kind::Counter,
        "Messages dropped, by reason",
        |figures, samples| {
            samples.by_label(DROPS, |reason| {
                figures.sum_at(|worker| &worker.drops, reason)
            })
        },
    )
    .labels(&["reason"])
    .details("The reasons are listed below"),
    EdgeMetric::counter(
        "tandem_edge_moved_total",
        "Messages of calls whose node does not answer, sent to another one",
        |figures| figures.sum(|worker| &worker.moved),
    ),
    EdgeMetric::counter(
        "tandem_edge_repeated_total",
        "Requests from connections that were sent again, because no node had answered",
        |figures| figures.sum(|worker| &worker.repeated),
    ),
    EdgeMetric::counter(
        "tandem_edge_not_remembered_total",
        "Requests from connections that could not be kept for repetition",
        |figures| figures.sum(|worker| &worker.not_remembered),
    ),
    EdgeMetric::gauge(
        "tandem_edge_unanswered_bytes",
        "Memory used by requests from connections that no node has answered yet",
        |figures| figures.shared.unanswered.bytes() as u64,
    ),
    EdgeMetric::family(
        "tandem_edge_nodes",
        Kind::Gauge,
        "Nodes, by state",
        |figures, samples| {
            let members = figures.nodes.members();
            for state in NodeState::ALL {
                let is_in = |(_, health): &(_, &tandem_balancer::Health)| health.state() == state;
                let count = members.iter().filter(is_in).count();
                samples.labelled(&[state.label()], count as u64)?;
            }
            Ok(())
        },
    )
    .labels(&["state"])
    .details("The states are those of [edges](edge.md#which-node-gets-a-request)"),
    EdgeMetric::family(
        "tandem_edge_node_requests_total",
        Kind::Counter,
        "Requests sent to a node, by what selected it",
        |figures, samples| {
            let members = figures.nodes.members();
            for (member, health) in members.iter() {
                let node = member.identity.as_str();
                let (all, by_hash) = (health.requests(), health.unhinted());
                samples.labelled(&[node, "hash"], by_hash)?;
                samples.labelled(&[node, "hint"], all.saturating_sub(by_hash))?;
            }
            Ok(())
        },
    )
    .labels(&["node", "by"])
    .details("`by`: `hint` (the message says which node has the call), `hash` (of the Call-ID)"),
    EdgeMetric::family(
        "tandem_certificate_expiry_seconds",
        Kind::Gauge,
        "Time until each certificate expires, negative after expiry",
        |figures, samples| certificates(figures.tls.as_deref(), samples),
    )
    .labels(&["name", "file"])
    .details("`name`: the first name in the certificate. SIGHUP reads renewed files"),
    EdgeMetric::gauge("tandem_connections", "Open connections", |figures| {
        figures.io(|worker| &worker.connections)
    }),
    EdgeMetric::counter(
        "tandem_datagrams_received_total",
        "Datagrams received",
        |figures| figures.io(|worker| &worker.datagrams_received),
    ),
    EdgeMetric::counter("tandem_datagrams_sent_total", "Datagrams sent", |figures| {
        figures.io(|worker| &worker.datagrams_sent)
    }),
];
