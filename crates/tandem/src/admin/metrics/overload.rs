//! The metrics of overload and of the backlog.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;
use sip_transport::overload::Shed;

pub(super) const SECTION: Section = Section::new("Overload", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge(
        "tandem_overloaded_workers",
        "Workers that refuse new requests because of overload",
        |server| server.running.io(|worker| &worker.overloaded),
    ),
    ServerMetric::counter(
        "tandem_overloads_total",
        "Times that a worker started to refuse new requests because of overload",
        |server| server.running.io(|worker| &worker.overloads),
    ),
    ServerMetric::family(
        "tandem_shed_total",
        Kind::Counter,
        "Requests shed during overload, by reason",
        |server, samples| {
            let running = &server.running;
            samples.by_label(Shed::ALL.map(Shed::label), |reason| {
                running.io_at(|worker| &worker.shed, reason)
            })
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `refused` (answered 503), `too_old` (dropped, the client has retransmitted it meanwhile), `too_many` (dropped, more \
         than the server may refuse), `no_room` (dropped, the worker's backlog is full: 8 MiB, half of it for requests)",
    ),
    ServerMetric::gauge(
        "tandem_backlog_messages",
        "Received messages that wait to be processed",
        |server| server.running.io(|worker| &worker.backlog),
    ),
    ServerMetric::gauge(
        "tandem_backlog_bytes",
        "Memory used by messages that wait to be processed",
        |server| server.running.io(|worker| &worker.backlog_bytes),
    ),
];
