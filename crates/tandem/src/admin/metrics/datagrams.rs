//! The metrics of UDP.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;
use sip_runtime::IcmpError;

pub(super) const SECTION: Section = Section::new("Datagrams", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::counter(
        "tandem_datagrams_received_total",
        "Datagrams received",
        |server| server.running.io(|worker| &worker.datagrams_received),
    ),
    ServerMetric::counter(
        "tandem_datagrams_received_bytes_total",
        "Bytes of datagrams received",
        |server| server.running.io(|worker| &worker.bytes_received),
    ),
    ServerMetric::counter("tandem_datagrams_sent_total", "Datagrams sent", |server| {
        server.running.io(|worker| &worker.datagrams_sent)
    }),
    ServerMetric::counter(
        "tandem_datagrams_sent_bytes_total",
        "Bytes of datagrams sent",
        |server| server.running.io(|worker| &worker.bytes_sent),
    ),
    ServerMetric::counter(
        "tandem_datagrams_truncated_total",
        "Datagrams dropped because they were too long for a SIP message",
        |server| server.running.io(|worker| &worker.truncated),
    ),
    ServerMetric::counter(
        "tandem_datagrams_receive_errors_total",
        "Failed reads of a socket",
        |server| server.running.io(|worker| &worker.receive_errors),
    ),
    ServerMetric::family(
        "tandem_datagrams_send_failures_total",
        Kind::Counter,
        "Datagrams that could not be sent, by reason",
        |server, samples| {
            let running = &server.running;
            let buffer_full = running.io(|worker| &worker.send_buffer_full);
            let unreachable = running.io(|worker| &worker.send_unreachable);
            samples.labelled(&["buffer_full"], buffer_full)?;
            samples.labelled(&["too_long"], running.io(|worker| &worker.send_too_long))?;
            samples.labelled(&["unreachable"], unreachable)?;
            samples.labelled(&["other"], running.io(|worker| &worker.send_errors))
        },
    )
    .labels(&["reason"])
    .details("`reason`: `buffer_full`, `too_long`, `unreachable`, `other`"),
    ServerMetric::family(
        "tandem_icmp_errors_total",
        Kind::Counter,
        "ICMP errors received for datagrams, by kind",
        |server, samples| {
            let running = &server.running;
            samples.by_label(IcmpError::ALL.map(IcmpError::name), |kind| {
                running.io_at(|worker| &worker.icmp_errors, kind)
            })
        },
    )
    .labels(&["kind"])
    .details(
        "`kind`: `network_unreachable`, `host_unreachable`, `protocol_unreachable`, `port_unreachable`, `prohibited`, `too_long`, `other`. \
         Errors that match no request count, too",
    ),
    ServerMetric::counter(
        "tandem_kernel_drops_total",
        "Datagrams that the kernel dropped because a receive buffer was full",
        |server| server.running.io(|worker| &worker.kernel_drops),
    ),
    ServerMetric::family(
        "tandem_receive_buffer_bytes",
        Kind::Gauge,
        "Smallest receive buffer that the kernel granted, by worker",
        |server, samples| {
            let mut workers = server.running.stats.iter().enumerate();
            workers.try_for_each(|(index, worker)| {
                samples.labelled(&[&index.to_string()], worker.receive_buffer.value())
            })
        },
    )
    .labels(&["worker"]),
];
