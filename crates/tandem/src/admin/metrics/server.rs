//! The metrics of the workers and of the certificates.
use super::section::{Metrics, Scrape, Section, ServerMetric};
use crate::metrics::{Kind, Samples};
use std::fmt;
use std::time::SystemTime;

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
        certificates,
    )
    .labels(&["name", "file"])
    .details("`name`: the first name in the certificate. A reload reads renewed files"),
];

fn certificates(server: &Scrape, samples: &mut Samples<'_>) -> fmt::Result {
    let tls = server.running.tls.as_ref().map(|tls| tls.context());
    let now = SystemTime::now();
    for certificate in tls.iter().flat_map(|tls| tls.certificates().iter()) {
        let name = certificate.names().first().map_or("", String::as_str);
        let file = certificate.chain_file().display().to_string();
        let left = match certificate.not_after().duration_since(now) {
            Ok(left) => left.as_secs_f64(),
            Err(expired) => -expired.duration().as_secs_f64(),
        };
        samples.labelled(&[name, &file], left)?;
    }
    Ok(())
}
