//! The metrics of tracing.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section {
    title: "Tracing",
    introduction: "[tracing.md](tracing.md) describes traces and the collector.\n",
    metrics: Metrics::Server(METRICS),
    notes: "",
};

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge("tandem_traces", "Traces that run", |server| {
        server.control.traces.len() as u64
    }),
    ServerMetric::counter(
        "tandem_traced_messages_total",
        "Messages copied for traces and for the HEP collector",
        |server| server.control.traces.queue.taken(),
    ),
    ServerMetric::counter(
        "tandem_traced_messages_dropped_total",
        "Messages not copied because the queue of their worker was full",
        |server| server.control.traces.queue.dropped(),
    ),
    ServerMetric::counter(
        "tandem_trace_slow_readers_total",
        "Traces that ended because their reader was too slow",
        |server| server.control.traces.slow_readers.get(),
    ),
    ServerMetric::counter(
        "tandem_hep_packets_total",
        "Packets sent to the HEP collector",
        |server| server.control.traces.collector.sent.get(),
    ),
    ServerMetric::family(
        "tandem_hep_packets_dropped_total",
        Kind::Counter,
        "Messages not sent to the HEP collector, by reason",
        |server, samples| {
            let counters = &server.control.traces.collector;
            samples.labelled(&["not_accepted"], counters.failed.get())?;
            samples.labelled(&["too_long"], counters.too_long.get())
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `not_accepted` (the socket was full, or an ICMP error said that the collector is away), `too_long` (the message does not \
         fit into a datagram)",
    ),
];
