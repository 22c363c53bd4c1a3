//! The metrics of transactions, forwarded requests and dialogs.
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
        "tandem_dialogs_unproven_total",
        "Requests inside a dialog that were answered 481 because their Route carries no valid proof",
        |server| server.running.sip(|worker| &worker.unproven),
    )
    .details("The proof is missing, belongs to another dialog, or has expired ([ADR 2](adr/0002-record-route-cookie.md))"),
    ServerMetric::counter(
        "tandem_off_limits_total",
        "Requests whose target was off limits",
        |server| server.running.sip(|worker| &worker.off_limits),
    )
    .details(
        "Off limits are loopback, link-local and the server's own addresses, and the networks in `proxy.off_limits`",
    ),
    ServerMetric::gauge(
        "tandem_refreshed_targets",
        "Remote targets (Contacts) that changed during their dialog",
        |server| server.running.sip(|worker| &worker.refreshed_targets),
    ),
    ServerMetric::counter(
        "tandem_refreshed_targets_evicted_total",
        "Changed remote targets that were evicted to make room, or not recorded",
        |server| {
            server
                .running
                .sip(|worker| &worker.refreshed_targets_evicted)
        },
    )
    .details("One is not recorded if its source has used its share"),
    ServerMetric::gauge(
        "tandem_unacknowledged_calls",
        "Calls answered while the server drains whose ACK has not arrived",
        |server| server.running.sip(|worker| &worker.unacknowledged),
    ),
];
