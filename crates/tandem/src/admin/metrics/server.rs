//! The metrics of the workers and of the certificates.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::{Kind, certificates};

pub(super) const SECTION: Section = Section::new("Server", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge("tandem_workers", "Worker threads", |server| {
        server.running.metrics.len() as u64
    }),
    ServerMetric::gauge(
        "tandem_node_name_taken",
        "Loss of the node name: 1 while another server has it in the database, else 0",
        |server| u64::from(server.running.store.name_taken_by().is_some()),
    )
    .details("While it is 1, nothing is saved, and the server is not ready. See `node.name`"),
    ServerMetric::gauge("tandem_listeners", "Listen addresses", |server| {
        server.running.listeners.len() as u64
    }),
    ServerMetric::counter(
        "tandem_worker_pauses_total",
        "Pauses in which a worker lets messages gather into a batch",
        |server| server.running.io(|worker| &worker.pauses),
    )
    .details("See `workers.gather`"),
    ServerMetric::counter(
        "tandem_worker_waits_total",
        "Times that a worker went to sleep until the next message",
        |server| server.running.io(|worker| &worker.waits),
    ),
    ServerMetric::counter(
        "tandem_handovers_total",
        "Messages handed over to the home worker of their call",
        |server| server.running.io(|worker| &worker.handed_over_out),
    ),
    ServerMetric::counter(
        "tandem_handovers_dropped_total",
        "Messages dropped because the inbox of the home worker was full",
        |server| server.running.io(|worker| &worker.hand_overs_dropped),
    ),
    ServerMetric::family(
        "tandem_certificate_expiry_seconds",
        Kind::Gauge,
        "Time until each certificate expires, negative after expiry",
        |server, samples| certificates(server.running.tls.as_deref(), samples),
    )
    .labels(&["name", "file"])
    .details("`name`: the first name in the certificate. A reload reads renewed files"),
];
