//! The metrics of connections on `/metrics`.
use super::exposition::{Exposition, Kind};
use super::totals::Totals;
use sip_runtime::{CloseReason, RefuseReason};

/// Writes the metrics of connections.
pub(super) fn write(page: &mut Exposition, totals: Totals<'_>) {
    page.gauge(
        "tandem_connections",
        "Open connections.",
        totals.io(|worker| &worker.connections),
    );
    let help = "Connections started, by the side that opened them.";
    page.family("tandem_connections_begun_total", Kind::Counter, help)
        .sample(
            &[("by", "peer")],
            totals.io(|worker| &worker.connections_accepted),
        )
        .sample(
            &[("by", "server")],
            totals.io(|worker| &worker.connections_opened),
        );
    page.gauge(
        "tandem_connections_partial_bytes",
        "Bytes of memory used by incomplete messages from connections.",
        totals.io(|worker| &worker.partial_octets),
    );
    page.gauge(
        "tandem_connections_queued_bytes",
        "Bytes of memory used by messages queued for peers.",
        totals.io(|worker| &worker.queued_octets),
    );
    let help = "Connections closed, by reason.";
    let mut closed = page.family("tandem_connections_closed_total", Kind::Counter, help);
    for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
        closed.sample(
            &[("reason", reason.word())],
            totals.io_at(|worker| &worker.connections_closed, place),
        );
    }
    let help = "Connections refused, by reason.";
    let mut refused = page.family("tandem_connections_refused_total", Kind::Counter, help);
    for (place, reason) in RefuseReason::ALL.into_iter().enumerate() {
        refused.sample(
            &[("reason", reason.word())],
            totals.io_at(|worker| &worker.connections_refused, place),
        );
    }
    messages(page, totals);
}

fn messages(page: &mut Exposition, totals: Totals<'_>) {
    let mut row = |name, help: &str, value| page.counter(name, help, value);
    let received = totals.io(|worker| &worker.stream_messages_received);
    row(
        "tandem_stream_messages_received_total",
        "Messages received over connections.",
        received,
    );
    let octets = totals.io(|worker| &worker.stream_octets_received);
    row(
        "tandem_stream_received_bytes_total",
        "Bytes received over connections.",
        octets,
    );
    let sent = totals.io(|worker| &worker.stream_messages_sent);
    row(
        "tandem_stream_messages_sent_total",
        "Messages written to connections or queued for them.",
        sent,
    );
    let octets = totals.io(|worker| &worker.stream_octets_sent);
    row(
        "tandem_stream_sent_bytes_total",
        "Bytes sent over connections.",
        octets,
    );
    let pings = totals.io(|worker| &worker.pings);
    row(
        "tandem_stream_pings_total",
        "Keep-alives received over connections.",
        pings,
    );
    let full = totals.io(|worker| &worker.stream_queue_full);
    row(
        "tandem_stream_queue_full_total",
        "Messages that found the queue of their connection full.",
        full,
    );
    let help = "Messages that could not be sent over a connection.";
    let undeliverable = totals.io(|worker| &worker.undeliverable);
    row("tandem_undeliverable_total", help, undeliverable);
}
