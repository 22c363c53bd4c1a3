//! The metrics of messages on `/metrics`: counts, results and processing times.
use super::exposition::{Exposition, Family, Kind};
use super::metrics::by_label;
use super::totals::Totals;
use sip_elements::metrics::{
    CHALLENGES, CLASSES, DROPS, LATENCY_BOUNDS, Latency, REFUSALS, STAGES, WorkerMetrics,
};
use sip_message::Method;
use sip_transport::Counter;
use sip_transport::overload::Shed;
use std::sync::Arc;

/// Writes the metrics of messages.
pub(super) fn write(page: &mut Exposition, totals: Totals<'_>) {
    messages(page, totals);
    latency(page, totals);
    overload(page, totals);
}

fn overload(page: &mut Exposition, totals: Totals<'_>) {
    let help = "Workers that refuse new requests because of overload.";
    let overloaded = totals.io(|worker| &worker.overloaded);
    page.gauge("tandem_overloaded_workers", help, overloaded);
    let help = "Times that a worker started to refuse new requests because of overload.";
    let overloads = totals.io(|worker| &worker.overloads);
    page.counter("tandem_overloads_total", help, overloads);
    let help = "Received messages that wait to be processed.";
    let waiting = totals.io(|worker| &worker.backlog);
    page.gauge("tandem_backlog_messages", help, waiting);
    let help = "Bytes of memory used by messages that wait to be processed.";
    let bytes = totals.io(|worker| &worker.backlog_bytes);
    page.gauge("tandem_backlog_bytes", help, bytes);
    let family = (
        "tandem_shed_total",
        "Requests shed during overload, by reason.",
    );
    let reasons = Shed::ALL.map(Shed::label);
    by_label(page, family, "reason", reasons, |place| {
        totals.io_at(|worker| &worker.shed, place)
    });
}

/// Response classes in the order of the counters.
const CLASS_LABELS: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

fn messages(page: &mut Exposition, totals: Totals<'_>) {
    let family = (
        "tandem_requests_total",
        "Requests received, including retransmissions, by method.",
    );
    by_label(page, family, "method", Method::LABELS, |place| {
        totals.sip_at(|worker| &worker.requests, place)
    });
    let help = "Responses sent, by status code.";
    let mut sent = page.family("tandem_responses_sent_total", Kind::Counter, help);
    for place in 0..600 {
        let count = totals.sip_at(|worker| &worker.responses_sent, place);
        if count > 0 {
            sent.sample(&[("code", &(place + 100).to_string())], count);
        }
    }
    let help = "Responses sent, by method of the request and status class.";
    let mut sent = page.family("tandem_responses_total", Kind::Counter, help);
    for (place, method) in Method::LABELS.iter().enumerate() {
        for (at, class) in CLASS_LABELS.iter().enumerate() {
            let of_method = |worker: &'_ Arc<WorkerMetrics>| {
                let classes = worker.responses_by_method.get(place);
                classes.and_then(|it| it.get(at)).map_or(0, Counter::value)
            };
            let count: u64 = totals.metrics().iter().map(of_method).sum();
            if count > 0 {
                sent.sample(&[("method", method), ("class", class)], count);
            }
        }
    }
    let family = (
        "tandem_challenges_total",
        "Challenges (401 and 407) sent, by cause: no credentials, a stale nonce, invalid credentials.",
    );
    by_label(page, family, "cause", CHALLENGES, |place| {
        totals.sip_at(|worker| &worker.challenges, place)
    });
    let family = (
        "tandem_responses_received_total",
        "Responses received, by status class.",
    );
    by_label(page, family, "class", CLASS_LABELS, |place| {
        totals.sip_at(|worker| &worker.responses_received, place)
    });
    let family = (
        "tandem_dropped_total",
        "Messages dropped without a response, by reason.",
    );
    by_label(page, family, "reason", DROPS, |place| {
        totals.sip_at(|worker| &worker.drops, place)
    });
    let family = (
        "tandem_refused_total",
        "Requests rejected with 403 by policy, by reason.",
    );
    by_label(page, family, "reason", REFUSALS, |place| {
        totals.sip_at(|worker| &worker.refusals, place)
    });
    let help = "Requests rejected with 503 because a table was full or the server was draining.";
    page.counter(
        "tandem_refused_full_total",
        help,
        totals.sip(|worker| &worker.refused_full),
    );
    let help =
        "Requests refused because their source had used its share of a table or of the held bytes.";
    page.counter(
        "tandem_shares_refused_total",
        help,
        totals.sip(|worker| &worker.shares_refused),
    );
    let help = "Responses withheld from unproven UDP senders because three times the bytes of the request had been sent.";
    page.counter(
        "tandem_responses_withheld_total",
        help,
        totals.sip(|worker| &worker.responses_withheld),
    );
    let help = "Bytes of messages held by transactions, forwarded requests and waiting requests.";
    page.gauge(
        "tandem_held_bytes",
        help,
        totals.sip(|worker| &worker.held_bytes),
    );
    let help = "Sources that the server holds something for.";
    page.gauge(
        "tandem_held_sources",
        help,
        totals.sip(|worker| &worker.held_sources),
    );
}

fn latency(page: &mut Exposition, totals: Totals<'_>) {
    let help = "Seconds from the arrival of a request to its final response, by method.";
    let mut family = page.family("tandem_request_duration_seconds", Kind::Histogram, help);
    for (place, method) in Method::LABELS.iter().enumerate() {
        let all = totals.metrics().iter();
        let latencies = all.filter_map(|worker| worker.latency.get(place));
        histogram(&mut family, ("method", method), latencies);
    }
    let help = "Seconds from the arrival of a message until the server has processed it, by stage.";
    let mut family = page.family("tandem_stage_duration_seconds", Kind::Histogram, help);
    for (place, stage) in STAGES.iter().enumerate() {
        let all = totals.metrics().iter();
        let latencies = all.filter_map(|worker| worker.stages.get(place));
        histogram(&mut family, ("stage", stage), latencies);
    }
    let help = "Seconds from the arrival of a message until its processing starts, by worker.";
    let mut family = page.family("tandem_queueing_delay_seconds", Kind::Histogram, help);
    for (worker, metrics) in totals.metrics().iter().enumerate() {
        let worker = worker.to_string();
        histogram(&mut family, ("worker", &worker), [&metrics.queueing]);
    }
}

/// Writes a histogram sample: the sum of the latencies.
#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a process's life fit"
)]
fn histogram<'m>(
    family: &mut Family<'_>,
    label: (&str, &str),
    latencies: impl IntoIterator<Item = &'m Latency>,
) {
    let bounds = LATENCY_BOUNDS.map(|micros| micros as f64 / 1e6);
    let mut counts = [0; LATENCY_BOUNDS.len() + 1];
    let mut sum = 0;
    for latency in latencies {
        let counters = counts.iter_mut().zip(&latency.buckets);
        counters.for_each(|(count, counter)| *count += counter.value());
        sum += latency.sum.value();
    }
    family.histogram(&[label], &bounds, &counts, sum as f64 / 1e6);
}
