//! What `/metrics` shows: the counters of all workers added up, and those of the control plane. `docs/metrics.md` explains each.
use super::exposition::{Exposition, Kind};
use super::process;
use crate::serve::{Control, DataPlane, Ending, Phase};
use sip_elements::location::LocationStats;
use sip_elements::metrics::{DROPS, LATENCY_BOUNDS, METHODS, TRANSACTION_COUNTS, WorkerMetrics};
use sip_runtime::WorkerStats;

/// The whole page.
pub fn exposition(control: &Control) -> String {
    let mut page = Exposition::default();
    server(&mut page, control);
    let totals = Totals(control.data_plane());
    messages(&mut page, &totals);
    latency(&mut page, &totals);
    transactions(&mut page, &totals);
    questions(&mut page, control, &totals);
    registrations(&mut page, control, &totals);
    datagrams(&mut page, &totals);
    page.into_text()
}

/// Sums over the workers; zeros before there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals<'c>(pub(super) Option<&'c DataPlane>);

impl<'c> Totals<'c> {
    /// The sum of a counter of SIP.
    pub(super) fn sip(&self, value: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.0.map_or(0, |data_plane| {
            data_plane.metrics.iter().map(|worker| value(worker)).sum()
        })
    }

    /// The sum of a counter of sockets and queues.
    pub(super) fn io(&self, value: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.0.map_or(0, |data_plane| {
            data_plane.stats.iter().map(|worker| value(worker)).sum()
        })
    }

    /// A counter of the transaction layer by its name in [`TRANSACTION_COUNTS`].
    pub(super) fn transactions(&self, name: &str) -> u64 {
        let place = TRANSACTION_COUNTS.iter().position(|known| *known == name);
        self.sip(|worker| {
            place
                .and_then(|place| worker.transactions.get(place))
                .map_or(0, |counter| counter.value())
        })
    }

    /// Counts of the location service.
    pub(super) fn locations(&self) -> LocationStats {
        self.0
            .map(|data_plane| data_plane.shared.locations.stats())
            .unwrap_or_default()
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.0.map_or(0, |data_plane| data_plane.metrics.len())
    }

    fn listeners(&self) -> usize {
        self.0.map_or(0, |data_plane| data_plane.listeners.len())
    }

    fn cached(&self) -> usize {
        self.0
            .map_or(0, |data_plane| data_plane.shared.credentials.len())
    }

    fn stats(&self) -> &'c [std::sync::Arc<WorkerStats>] {
        self.0
            .map(|data_plane| &*data_plane.stats)
            .unwrap_or_default()
    }
}

fn server(page: &mut Exposition, control: &Control) {
    page.family(
        "tandem_build_info",
        Kind::Gauge,
        "Always 1; the version is a label.",
    )
    .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge(
        "tandem_uptime_seconds",
        "Time since the start.",
        control.started.elapsed().as_secs_f64(),
    );
    let ready = u8::from(control.phase() == Phase::Ready);
    page.gauge("tandem_ready", "1 while traffic may be sent here.", ready);
    page.gauge(
        "tandem_process_resident_memory_bytes",
        "Memory of the process.",
        process::resident_memory(),
    );
    page.family(
        "tandem_process_cpu_seconds_total",
        Kind::Counter,
        "Processor time of all threads.",
    )
    .sample(&[], process::cpu_seconds());
    let mut reloads = page.family(
        "tandem_reloads_total",
        Kind::Counter,
        "Reloads of the configuration by result.",
    );
    reloads.sample(&[("result", "taken_over")], control.figures.reloads.value());
    reloads.sample(
        &[("result", "refused")],
        control.figures.reload_failures.value(),
    );
}

fn messages(page: &mut Exposition, totals: &Totals<'_>) {
    let mut requests = page.family(
        "tandem_requests_total",
        Kind::Counter,
        "Requests received by method.",
    );
    for (place, method) in METHODS.iter().enumerate() {
        let count = totals.sip(|worker| {
            worker
                .requests
                .get(place)
                .map_or(0, |counter| counter.value())
        });
        requests.sample(&[("method", method)], count);
    }
    let mut sent = page.family(
        "tandem_responses_sent_total",
        Kind::Counter,
        "Responses sent by status code.",
    );
    for place in 0..600 {
        let count = totals.sip(|worker| {
            worker
                .responses_sent
                .get(place)
                .map_or(0, |counter| counter.value())
        });
        if count > 0 {
            sent.sample(&[("code", &(place + 100).to_string())], count);
        }
    }
    let mut received = page.family(
        "tandem_responses_received_total",
        Kind::Counter,
        "Responses received by class.",
    );
    for (place, class) in ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"]
        .into_iter()
        .enumerate()
    {
        let count = totals.sip(|worker| {
            worker
                .responses_received
                .get(place)
                .map_or(0, |counter| counter.value())
        });
        received.sample(&[("class", class)], count);
    }
    let mut drops = page.family(
        "tandem_dropped_total",
        Kind::Counter,
        "Messages dropped without an answer by reason.",
    );
    for (place, reason) in DROPS.iter().enumerate() {
        let count =
            totals.sip(|worker| worker.drops.get(place).map_or(0, |counter| counter.value()));
        drops.sample(&[("reason", reason)], count);
    }
    let full = totals.sip(|worker| worker.refused_full.value());
    page.counter(
        "tandem_refused_full_total",
        "Requests answered 503 because a table was full or the server drained.",
        full,
    );
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a process's life fit"
)]
fn latency(page: &mut Exposition, totals: &Totals<'_>) {
    let help = "Time from a request to its final response by method.";
    let mut family = page.family("tandem_request_duration_seconds", Kind::Histogram, help);
    let bounds: Vec<f64> = LATENCY_BOUNDS
        .iter()
        .map(|micros| *micros as f64 / 1e6)
        .collect();
    for (place, method) in METHODS.iter().enumerate() {
        let bucket = |worker: &WorkerMetrics, bucket: usize| {
            let latency = worker.latency.get(place);
            latency
                .and_then(|latency| latency.buckets.get(bucket))
                .map_or(0, |counter| counter.value())
        };
        let counts: Vec<u64> = (0..=LATENCY_BOUNDS.len())
            .map(|at| totals.sip(|worker| bucket(worker, at)))
            .collect();
        let sum = totals.sip(|worker| {
            worker
                .latency
                .get(place)
                .map_or(0, |latency| latency.sum.value())
        });
        family.histogram(&[("method", method)], &bounds, &counts, sum as f64 / 1e6);
    }
}

fn transactions(page: &mut Exposition, totals: &Totals<'_>) {
    let kinds = [("server", "servers"), ("client", "clients")];
    let rows = [
        (
            "tandem_transactions",
            Kind::Gauge,
            "live",
            "Live transactions by kind.",
        ),
        (
            "tandem_transactions_created_total",
            Kind::Counter,
            "created",
            "Transactions begun by kind.",
        ),
        (
            "tandem_transactions_ended_total",
            Kind::Counter,
            "ended",
            "Transactions ended by kind.",
        ),
    ];
    for (name, kind, suffix, help) in rows {
        let mut family = page.family(name, kind, help);
        for (label, prefix) in kinds {
            family.sample(
                &[("kind", label)],
                totals.transactions(&format!("{prefix}_{suffix}")),
            );
        }
    }
    let mut again = page.family(
        "tandem_retransmissions_total",
        Kind::Counter,
        "Messages sent again by kind.",
    );
    again.sample(
        &[("kind", "request")],
        totals.transactions("requests_retransmitted"),
    );
    again.sample(
        &[("kind", "response")],
        totals.transactions("responses_retransmitted"),
    );
    let rows = [
        (
            "tandem_requests_absorbed_total",
            "requests_absorbed",
            "Retransmitted requests that a transaction took care of.",
        ),
        (
            "tandem_transaction_timeouts_total",
            "timeouts",
            "Transactions that ended without the message they waited for.",
        ),
    ];
    for (name, count, help) in rows {
        page.counter(name, help, totals.transactions(count));
    }
    let live = totals.sip(|worker| worker.response_contexts.value());
    page.gauge(
        "tandem_response_contexts",
        "Forwarded requests that wait for their final response.",
        live,
    );
    let created = totals.sip(|worker| worker.response_contexts_created.value());
    page.counter(
        "tandem_response_contexts_created_total",
        "Requests forwarded.",
        created,
    );
    let ended = totals.sip(|worker| worker.response_contexts_ended.value());
    page.counter(
        "tandem_response_contexts_ended_total",
        "Forwarded requests that are done with.",
        ended,
    );
}

fn questions(page: &mut Exposition, control: &Control, totals: &Totals<'_>) {
    page.gauge(
        "tandem_parked_requests",
        "Requests that wait for the database or a name server.",
        totals.sip(|worker| worker.parked.value()),
    );
    let asked = totals.io(|worker| worker.questions.value());
    page.counter(
        "tandem_questions_total",
        "Questions of the workers to the control plane.",
        asked,
    );
    let expired = totals.sip(|worker| worker.questions_expired.value());
    page.counter(
        "tandem_questions_expired_total",
        "Questions whose deadline passed without an answer.",
        expired,
    );
    let dropped = totals.io(|worker| worker.questions_dropped.value());
    page.counter(
        "tandem_questions_dropped_total",
        "Questions that the control plane had no room for.",
        dropped,
    );
    let mut lookups = page.family(
        "tandem_lookups_total",
        Kind::Counter,
        "Lookups for the workers by kind and result.",
    );
    for (kind, figures) in [
        ("credentials", &control.figures.credentials),
        ("name", &control.figures.names),
    ] {
        for (ending, label) in Ending::ALL {
            lookups.sample(&[("kind", kind), ("result", label)], figures.value(ending));
        }
    }
    page.gauge(
        "tandem_credentials_cached",
        "Subscribers, known or known not to exist, in the cache.",
        totals.cached(),
    );
    let failures = control.figures.poll_failures.value();
    page.counter(
        "tandem_subscriber_poll_failures_total",
        "Times that changed subscribers could not be asked for.",
        failures,
    );
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds of a process's life fit"
)]
fn registrations(page: &mut Exposition, control: &Control, totals: &Totals<'_>) {
    let stats = totals.locations();
    page.gauge("tandem_registrations", "Live bindings.", stats.live);
    page.gauge(
        "tandem_registered_addresses",
        "Addresses of record with bindings.",
        stats.addresses,
    );
    page.counter(
        "tandem_registrations_created_total",
        "Bindings made or restored.",
        stats.created,
    );
    page.counter(
        "tandem_registrations_ended_total",
        "Bindings removed or expired.",
        stats.ended,
    );
    page.counter(
        "tandem_registrations_refused_total",
        "Bindings refused because the table was full.",
        stats.refused_full,
    );
    let figures = &control.figures;
    page.gauge(
        "tandem_location_unsaved",
        "Addresses of record whose changes are not in the database yet.",
        figures.unsaved.value(),
    );
    let lag = figures.save_lag.value() as f64 / 1e3;
    page.gauge(
        "tandem_location_save_lag_seconds",
        "Age of the oldest change that is not in the database yet.",
        lag,
    );
    page.counter(
        "tandem_location_saves_total",
        "Batches of changed bindings saved.",
        figures.saves.value(),
    );
    page.counter(
        "tandem_location_save_failures_total",
        "Saves that failed; they are tried again.",
        figures.save_failures.value(),
    );
}

fn datagrams(page: &mut Exposition, totals: &Totals<'_>) {
    let rows: [(&'static str, &str, fn(&WorkerStats) -> u64); 8] = [
        (
            "tandem_datagrams_received_total",
            "Datagrams received.",
            |stats| stats.datagrams_received.value(),
        ),
        (
            "tandem_datagrams_received_bytes_total",
            "Their bytes.",
            |stats| stats.bytes_received.value(),
        ),
        ("tandem_datagrams_sent_total", "Datagrams sent.", |stats| {
            stats.datagrams_sent.value()
        }),
        (
            "tandem_datagrams_sent_bytes_total",
            "Their bytes.",
            |stats| stats.bytes_sent.value(),
        ),
        (
            "tandem_datagrams_truncated_total",
            "Datagrams dropped because they were too long.",
            |stats| stats.truncated.value(),
        ),
        (
            "tandem_datagrams_receive_errors_total",
            "Reads of a socket that failed.",
            |stats| stats.receive_errors.value(),
        ),
        (
            "tandem_kernel_drops_total",
            "Datagrams the kernel dropped because a receive buffer was full.",
            |stats| stats.kernel_drops.value(),
        ),
        (
            "tandem_handovers_total",
            "Messages handed over to the worker that is their call's home.",
            |stats| stats.handed_over_out.value(),
        ),
    ];
    for (name, help, value) in rows {
        page.counter(name, help, totals.io(value));
    }
    let help = "Messages dropped because the home worker's inbox was full.";
    page.counter(
        "tandem_handovers_dropped_total",
        help,
        totals.io(|stats| stats.hand_overs_dropped.value()),
    );
    let mut failures = page.family(
        "tandem_datagrams_send_failures_total",
        Kind::Counter,
        "Datagrams that could not be sent by reason.",
    );
    failures.sample(
        &[("reason", "buffer_full")],
        totals.io(|stats| stats.send_buffer_full.value()),
    );
    failures.sample(
        &[("reason", "too_long")],
        totals.io(|stats| stats.send_too_long.value()),
    );
    failures.sample(
        &[("reason", "unreachable")],
        totals.io(|stats| stats.send_unreachable.value()),
    );
    failures.sample(
        &[("reason", "other")],
        totals.io(|stats| stats.send_errors.value()),
    );
    let mut buffers = page.family(
        "tandem_receive_buffer_bytes",
        Kind::Gauge,
        "Smallest receive buffer granted to a worker's sockets.",
    );
    for (worker, stats) in totals.stats().iter().enumerate() {
        buffers.sample(
            &[("worker", &worker.to_string())],
            stats.receive_buffer.value(),
        );
    }
    page.gauge("tandem_workers", "Worker threads.", totals.workers());
    page.gauge(
        "tandem_listeners",
        "Addresses listened on.",
        totals.listeners(),
    );
}
