//! Histograms of how long requests and messages take.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::{Kind, Samples};
use sip_elements::metrics::{LATENCY_BOUNDS, Latency, STAGES};
use sip_message::Method;
use std::fmt;

pub(super) const SECTION: Section = Section {
    title: "Latency",
    introduction: "\
A message arrives when the kernel receives its datagram, so the time that it waits in the socket counts. Over a connection it arrives when
the worker learns that there is something to read.
",
    metrics: Metrics::Server(METRICS),
    notes: "",
};

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_request_duration_seconds",
        Kind::Histogram,
        "Time from the arrival of a request to its final response, by method",
        |server, samples| {
            let workers = &server.running.metrics;
            let mut methods = Method::LABELS.iter().enumerate();
            methods.try_for_each(|(index, method)| {
                let latencies = workers.iter().filter_map(|it| it.latency.get(index));
                write(samples, method, latencies)
            })
        },
    )
    .labels(&["method"])
    .details("For a call, mostly the time that the phone rang"),
    ServerMetric::family(
        "tandem_stage_duration_seconds",
        Kind::Histogram,
        "Time from the arrival of a message until the server has processed it, by stage",
        |server, samples| {
            let workers = &server.running.metrics;
            let mut stages = STAGES.iter().enumerate();
            stages.try_for_each(|(index, stage)| {
                let latencies = workers.iter().filter_map(|it| it.stages.get(index));
                write(samples, stage, latencies)
            })
        },
    )
    .labels(&["stage"])
    .details(
        "`stage`: `invite_to_challenge` (407), `invite_to_forwarded` (an authenticated INVITE, unless the name of its next hop must be \
         resolved), `answer_to_forwarded` (the 2xx to an INVITE), `register_to_final` (authenticated)",
    ),
    ServerMetric::family(
        "tandem_queueing_delay_seconds",
        Kind::Histogram,
        "Time from the arrival of a message until its processing starts, by worker",
        |server, samples| {
            let mut workers = server.running.metrics.iter().enumerate();
            workers.try_for_each(|(index, worker)| {
                write(samples, &index.to_string(), [&worker.queueing])
            })
        },
    )
    .labels(&["worker"]),
];

/// Writes the sum of histograms.
#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a process's life fit"
)]
fn write<'m>(
    samples: &mut Samples<'_>,
    label: &str,
    latencies: impl IntoIterator<Item = &'m Latency>,
) -> fmt::Result {
    let bounds = LATENCY_BOUNDS.map(|micros| micros as f64 / 1e6);
    let bounds = bounds.into_iter().chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    let mut sum = 0;
    for latency in latencies {
        for ((_, count), counter) in buckets.iter_mut().zip(&latency.buckets) {
            *count += counter.value();
        }
        sum += latency.sum.value();
    }
    samples.histogram(&[label], &buckets, sum as f64 / 1e6)
}
