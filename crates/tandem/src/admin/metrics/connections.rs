//! The metrics of connections.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;
use sip_runtime::{CloseReason, RefuseReason};

pub(super) const SECTION: Section = Section::new("Connections", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge("tandem_connections", "Open connections", |server| {
        server.running.io(|worker| &worker.connections)
    }),
    ServerMetric::family(
        "tandem_connections_begun_total",
        Kind::Counter,
        "Connections started, by the side that opened them",
        |server, samples| {
            let running = &server.running;
            samples.labelled(&["peer"], running.io(|worker| &worker.connections_accepted))?;
            samples.labelled(&["server"], running.io(|worker| &worker.connections_opened))
        },
    )
    .labels(&["by"])
    .details("`by`: `peer`, `server`"),
    ServerMetric::gauge(
        "tandem_connections_partial_bytes",
        "Memory used by incomplete messages from connections",
        |server| server.running.io(|worker| &worker.partial_octets),
    ),
    ServerMetric::gauge(
        "tandem_connections_queued_bytes",
        "Memory used by messages queued for peers",
        |server| server.running.io(|worker| &worker.queued_octets),
    ),
    ServerMetric::family(
        "tandem_connections_closed_total",
        Kind::Counter,
        "Connections closed, by reason",
        |server, samples| {
            let running = &server.running;
            samples.by_label(CloseReason::ALL.map(CloseReason::word), |reason| {
                running.io_at(|worker| &worker.connections_closed, reason)
            })
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `by_peer`, `failed` (reset), `not_opened`, `open_timeout`, `silent` (no message after it was accepted), `half_message`, \
         `not_reading`, `idle`, `unproven` (a stranger that proved nothing in time), `not_sip`, `too_long`, `bad_length`, `not_tls`, \
         `tls_failed`, `bad_upgrade`, `bad_frame`, `bad_proxy_header`, `peer_limit` (of the peer that a balancer named), `memory` \
         (incomplete or queued messages used too much memory), `displaced` (a stranger evicted for a new connection), `foreign_origin` (a \
         page that may not open a WebSocket), `by_node` (no longer needed by the server); see [connections](connections.md)",
    ),
    ServerMetric::family(
        "tandem_connections_refused_total",
        Kind::Counter,
        "Connections refused, by reason",
        |server, samples| {
            let running = &server.running;
            samples.by_label(RefuseReason::ALL.map(RefuseReason::word), |reason| {
                running.io_at(|worker| &worker.connections_refused, reason)
            })
        },
    )
    .labels(&["reason"])
    .details("`reason`: `peer_limit`, `table_full`, `no_descriptor`, `banned`"),
    ServerMetric::counter(
        "tandem_stream_messages_received_total",
        "Messages received over connections",
        |server| server.running.io(|worker| &worker.stream_messages_received),
    ),
    ServerMetric::counter(
        "tandem_stream_received_bytes_total",
        "Bytes received over connections",
        |server| server.running.io(|worker| &worker.stream_octets_received),
    ),
    ServerMetric::counter(
        "tandem_stream_messages_sent_total",
        "Messages written to connections or queued for them",
        |server| server.running.io(|worker| &worker.stream_messages_sent),
    ),
    ServerMetric::counter(
        "tandem_stream_sent_bytes_total",
        "Bytes sent over connections",
        |server| server.running.io(|worker| &worker.stream_octets_sent),
    ),
    ServerMetric::counter(
        "tandem_stream_pings_total",
        "Keep-alives received over connections",
        |server| server.running.io(|worker| &worker.pings),
    )
    .details("CRLF (RFC 5626), WebSocket pings and pongs"),
    ServerMetric::counter(
        "tandem_stream_queue_full_total",
        "Messages that found the queue of their connection full because the peer does not read",
        |server| server.running.io(|worker| &worker.stream_queue_full),
    ),
    ServerMetric::counter(
        "tandem_undeliverable_total",
        "Messages that could not be sent over a connection",
        |server| server.running.io(|worker| &worker.undeliverable),
    )
    .details("Each is a transport error of its transaction"),
];
