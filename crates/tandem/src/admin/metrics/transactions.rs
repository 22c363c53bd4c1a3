//! The metrics of transactions and forwarded requests.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section::new("Transactions", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_transactions",
        Kind::Gauge,
        "Live transactions by kind",
        |server, samples| {
            samples.labelled(&["server"], server.running.transactions("servers_live"))?;
            samples.labelled(&["client"], server.running.transactions("clients_live"))
        },
    )
    .labels(&["kind"])
    .details("`kind`: `server`, `client`"),
    ServerMetric::family(
        "tandem_transactions_created_total",
        Kind::Counter,
        "Transactions created, by kind",
        |server, samples| {
            samples.labelled(&["server"], server.running.transactions("servers_created"))?;
            samples.labelled(&["client"], server.running.transactions("clients_created"))
        },
    )
    .labels(&["kind"]),
    ServerMetric::family(
        "tandem_transactions_ended_total",
        Kind::Counter,
        "Transactions ended, by kind",
        |server, samples| {
            samples.labelled(&["server"], server.running.transactions("servers_ended"))?;
            samples.labelled(&["client"], server.running.transactions("clients_ended"))
        },
    )
    .labels(&["kind"])
    .details("Created = ended + live"),
    ServerMetric::family(
        "tandem_retransmissions_total",
        Kind::Counter,
        "Messages retransmitted, by kind",
        |server, samples| {
            let count = |name| server.running.transactions(name);
            samples.labelled(&["request"], count("requests_retransmitted"))?;
            samples.labelled(&["response"], count("responses_retransmitted"))
        },
    )
    .labels(&["kind"])
    .details("`kind`: `request`, `response`"),
    ServerMetric::counter(
        "tandem_requests_absorbed_total",
        "Retransmitted requests absorbed by their transaction",
        |server| server.running.transactions("requests_absorbed"),
    ),
    ServerMetric::counter(
        "tandem_transaction_timeouts_total",
        "Transactions that timed out",
        |server| server.running.transactions("timeouts"),
    ),
    ServerMetric::gauge(
        "tandem_response_contexts",
        "Forwarded requests that wait for their final response",
        |server| server.running.sip(|worker| &worker.response_contexts),
    ),
    ServerMetric::counter(
        "tandem_response_contexts_created_total",
        "Requests forwarded",
        |server| {
            server
                .running
                .sip(|worker| &worker.response_contexts_created)
        },
    ),
    ServerMetric::counter(
        "tandem_response_contexts_ended_total",
        "Forwarded requests that are complete",
        |server| server.running.sip(|worker| &worker.response_contexts_ended),
    )
    .details("Created = ended + live"),
    ServerMetric::counter(
        "tandem_forwarded_statelessly_total",
        "Requests forwarded without a transaction, as a routing rule says",
        |server| server.running.sip(|worker| &worker.forwarded_statelessly),
    )
    .details("Each retransmission counts"),
    ServerMetric::counter(
        "tandem_off_limits_total",
        "Requests whose target was off limits",
        |server| server.running.sip(|worker| &worker.off_limits),
    )
    .details(
        "Off limits are loopback, link-local and the server's own addresses, and the networks in `proxy.off_limits`",
    ),
];
