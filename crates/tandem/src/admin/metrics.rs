//! The `/metrics` page: sums of the workers' counters, and the counters of the control plane. `docs/metrics.md` describes each metric.
use super::exposition::{Exposition, Kind};
use super::process;
use super::totals::Totals;
use crate::serve::{Control, Ending, Phase};
use sip_elements::bans::Offence;
use sip_runtime::IcmpError;
use std::time::SystemTime;
use tandem_http::Refusal;

/// Writes the whole page.
pub fn exposition(control: &Control) -> String {
    let mut page = Exposition::default();
    let totals = Totals(control.data_plane());
    server(&mut page, control, totals);
    super::message_metrics::write(&mut page, totals);
    transactions(&mut page, totals);
    questions(&mut page, control, totals);
    next_hops(&mut page, totals);
    registrations(&mut page, control, totals);
    datagrams(&mut page, totals);
    super::connection_metrics::write(&mut page, totals);
    certificates(&mut page, control);
    bans(&mut page, totals);
    admin(&mut page, control);
    page.into_text()
}

fn server(page: &mut Exposition, control: &Control, totals: Totals<'_>) {
    page.family(
        "tandem_build_info",
        Kind::Gauge,
        "Constant 1 with the version as a label.",
    )
    .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let uptime = control.started.elapsed().as_secs_f64();
    page.gauge(
        "tandem_uptime_seconds",
        "Seconds since the server started.",
        uptime,
    );
    let ready = u8::from(control.phase() == Phase::Ready);
    page.gauge(
        "tandem_ready",
        "Readiness: 1 while the server accepts new traffic, else 0.",
        ready,
    );
    page.gauge("tandem_workers", "Worker threads.", totals.metrics().len());
    page.gauge("tandem_listeners", "Listen addresses.", totals.listeners());
    let memory = process::resident_memory();
    page.gauge(
        "tandem_process_resident_memory_bytes",
        "Resident memory of the process in bytes.",
        memory,
    );
    page.family(
        "tandem_process_cpu_seconds_total",
        Kind::Counter,
        "CPU time of all threads in seconds.",
    )
    .sample(&[], process::cpu_seconds());
    let figures = &control.figures;
    page.family(
        "tandem_reloads_total",
        Kind::Counter,
        "Configuration reloads, by result.",
    )
    .sample(&[("result", "taken_over")], figures.reloads.value())
    .sample(&[("result", "refused")], figures.reload_failures.value());
}

/// Metrics of failures and bans.
fn bans(page: &mut Exposition, totals: Totals<'_>) {
    let stats = totals.bans();
    let help = "Failures with a proven source, by reason.";
    let mut offences = page.family("tandem_offences_total", Kind::Counter, help);
    for (offence, count) in Offence::ALL.iter().zip(stats.offences) {
        offences.sample(&[("reason", offence.label())], count);
    }
    let help = "Failures that were not logged.";
    page.counter("tandem_offences_unlogged_total", help, stats.unlogged);
    let help = "Remembered failures, by kind.";
    page.family("tandem_offenders", Kind::Gauge, help)
        .sample(&[("kind", "source")], stats.sources as u64)
        .sample(&[("kind", "name")], stats.names as u64);
    page.gauge("tandem_banned_sources", "Banned sources.", stats.banned);
    let help = "Bans because of too many failures.";
    page.counter("tandem_bans_total", help, stats.automatic);
    let help = "Failures and bans that were evicted for newer ones, or not stored because the table was full.";
    page.counter("tandem_bans_forgotten_total", help, stats.forgotten);
    let help = "Wrong passwords through edge proxies and trusted peers that did not record the client's address.";
    page.counter(
        "tandem_offences_unattributed_total",
        help,
        stats.unattributed,
    );
}

/// Metrics of the admin interface itself.
fn admin(page: &mut Exposition, control: &Control) {
    let counts = &control.figures.admin;
    let help = "Open connections to the admin interface.";
    page.gauge("tandem_admin_connections", help, counts.open());
    let help =
        "Connections to the admin interface that were closed at once because too many were open.";
    page.counter(
        "tandem_admin_connections_refused_total",
        help,
        counts.turned_away(),
    );
    let help = "Requests refused by the admin interface, by reason.";
    let mut family = page.family("tandem_admin_requests_refused_total", Kind::Counter, help);
    for refusal in Refusal::ALL {
        family.sample(&[("reason", refusal.label())], counts.refused(refusal));
    }
}

/// Writes a family with one sample per label value.
pub(super) fn by_label<'l>(
    page: &mut Exposition,
    (name, help): (&'static str, &str),
    label: &str,
    contents: impl IntoIterator<Item = &'l str>,
    value: impl Fn(usize) -> u64,
) {
    let mut family = page.family(name, Kind::Counter, help);
    for (place, content) in contents.into_iter().enumerate() {
        family.sample(&[(label, content)], value(place));
    }
}

fn transactions(page: &mut Exposition, totals: Totals<'_>) {
    let rows = [
        (
            "tandem_transactions",
            Kind::Gauge,
            "live",
            "Live transactions, by kind.",
        ),
        (
            "tandem_transactions_created_total",
            Kind::Counter,
            "created",
            "Transactions created, by kind.",
        ),
        (
            "tandem_transactions_ended_total",
            Kind::Counter,
            "ended",
            "Transactions ended, by kind.",
        ),
    ];
    for (name, kind, count, help) in rows {
        page.family(name, kind, help)
            .sample(
                &[("kind", "server")],
                totals.transactions(&format!("servers_{count}")),
            )
            .sample(
                &[("kind", "client")],
                totals.transactions(&format!("clients_{count}")),
            );
    }
    page.family(
        "tandem_retransmissions_total",
        Kind::Counter,
        "Messages retransmitted, by kind.",
    )
    .sample(
        &[("kind", "request")],
        totals.transactions("requests_retransmitted"),
    )
    .sample(
        &[("kind", "response")],
        totals.transactions("responses_retransmitted"),
    );
    let help = "Retransmitted requests absorbed by their transaction.";
    let absorbed = totals.transactions("requests_absorbed");
    page.counter("tandem_requests_absorbed_total", help, absorbed);
    let help = "Transactions that timed out.";
    page.counter(
        "tandem_transaction_timeouts_total",
        help,
        totals.transactions("timeouts"),
    );
    let help = "Forwarded requests that wait for their final response.";
    page.gauge(
        "tandem_response_contexts",
        help,
        totals.sip(|worker| &worker.response_contexts),
    );
    let created = totals.sip(|worker| &worker.response_contexts_created);
    page.counter(
        "tandem_response_contexts_created_total",
        "Requests forwarded.",
        created,
    );
    let ended = totals.sip(|worker| &worker.response_contexts_ended);
    let help = "Forwarded requests that are complete.";
    page.counter("tandem_response_contexts_ended_total", help, ended);
    let help = "Requests inside a dialog that were answered 481 because their Route carries no valid proof.";
    page.counter(
        "tandem_dialogs_unproven_total",
        help,
        totals.sip(|worker| &worker.unproven),
    );
    let help = "Requests whose target was off limits.";
    page.counter(
        "tandem_off_limits_total",
        help,
        totals.sip(|worker| &worker.off_limits),
    );
    let help = "Remote targets that changed during their dialog and are remembered.";
    page.gauge(
        "tandem_refreshed_targets",
        help,
        totals.sip(|worker| &worker.refreshed_targets),
    );
    let help = "Changed remote targets that were evicted to make room, or not remembered.";
    page.counter(
        "tandem_refreshed_targets_evicted_total",
        help,
        totals.sip(|worker| &worker.refreshed_targets_evicted),
    );
    let help = "Calls answered while the server drains whose ACK has not arrived.";
    page.gauge(
        "tandem_unacknowledged_calls",
        help,
        totals.sip(|worker| &worker.unacknowledged),
    );
}

fn questions(page: &mut Exposition, control: &Control, totals: Totals<'_>) {
    let help = "Requests that wait for the database or a name server.";
    page.gauge(
        "tandem_parked_requests",
        help,
        totals.sip(|worker| &worker.parked),
    );
    let help = "Questions from workers to the control plane.";
    page.counter(
        "tandem_questions_total",
        help,
        totals.io(|worker| &worker.questions),
    );
    let help = "Questions whose deadline passed without an answer.";
    page.counter(
        "tandem_questions_expired_total",
        help,
        totals.sip(|worker| &worker.questions_expired),
    );
    let help = "Questions dropped because the control plane had no room for them.";
    page.counter(
        "tandem_questions_dropped_total",
        help,
        totals.io(|worker| &worker.questions_dropped),
    );
    let figures = &control.figures;
    let help = "Lookups for the workers, by kind and result.";
    let mut lookups = page.family("tandem_lookups_total", Kind::Counter, help);
    for (kind, counts) in [
        ("credentials", &figures.credentials),
        ("name", &figures.names),
    ] {
        for (ending, result) in Ending::ALL {
            lookups.sample(&[("kind", kind), ("result", result)], counts.value(ending));
        }
    }
    let help = "Cached subscribers, including those known not to exist.";
    page.gauge("tandem_credentials_cached", help, totals.cached());
    let help = "Failed queries for changed subscribers.";
    page.counter(
        "tandem_subscriber_poll_failures_total",
        help,
        figures.poll_failures.value(),
    );
}

fn next_hops(page: &mut Exposition, totals: Totals<'_>) {
    let help = "Failovers of a request to the next server of its next hop.";
    page.counter(
        "tandem_failovers_total",
        help,
        totals.sip(|worker| &worker.failovers),
    );
    let stats = totals.dead_targets();
    let help = "Servers of next hops that failed recently and are tried last.";
    page.gauge("tandem_dead_targets", help, stats.known);
    let help = "Servers of next hops that became dead targets.";
    page.counter("tandem_targets_died_total", help, stats.died);
    let help = "Dead targets that responded again.";
    page.counter("tandem_targets_revived_total", help, stats.revived);
    let help =
        "Failures of servers of next hops that were not remembered because the table was full.";
    page.counter("tandem_dead_targets_forgotten_total", help, stats.forgotten);
}

fn registrations(page: &mut Exposition, control: &Control, totals: Totals<'_>) {
    let stats = totals.locations();
    page.gauge("tandem_registrations", "Live bindings.", stats.live);
    page.gauge(
        "tandem_registered_addresses",
        "Addresses of record with bindings.",
        stats.addresses,
    );
    page.counter(
        "tandem_registrations_created_total",
        "Bindings created or restored.",
        stats.created,
    );
    page.counter(
        "tandem_registrations_ended_total",
        "Bindings removed or expired.",
        stats.ended,
    );
    let help = "Bindings refused because the table was full.";
    page.counter(
        "tandem_registrations_refused_total",
        help,
        stats.refused_full,
    );
    let help = "Bindings that ended with their connection.";
    page.counter(
        "tandem_registrations_disconnected_total",
        help,
        totals.sip(|worker| &worker.bindings_disconnected),
    );
    let figures = &control.figures;
    let help = "Addresses of record with changes that are not in the database yet.";
    page.gauge("tandem_location_unsaved", help, totals.unsaved(figures));
    let help = "Age in seconds of the oldest change that is not in the database yet.";
    page.gauge(
        "tandem_location_save_lag_seconds",
        help,
        totals.save_lag(control.clock.now()).as_secs_f64(),
    );
    let help = "Refreshes not written because they hardly move the expiry in the database.";
    page.counter(
        "tandem_location_refreshes_not_written_total",
        help,
        totals.refreshes_not_written(),
    );
    let help = "Responses to REGISTER that wait until their bindings are saved.";
    page.gauge(
        "tandem_location_held_answers",
        help,
        totals.sip(|worker| &worker.held_answers),
    );
    let help = "Responses to REGISTER that were dropped after waiting for too long.";
    page.counter(
        "tandem_location_held_answers_dropped_total",
        help,
        totals.sip(|worker| &worker.held_answers_dropped),
    );
    let help = "Batches of changed bindings saved.";
    page.counter("tandem_location_saves_total", help, figures.saves.value());
    let help = "Failed saves, which are retried.";
    page.counter(
        "tandem_location_save_failures_total",
        help,
        figures.save_failures.value(),
    );
}

fn certificates(page: &mut Exposition, control: &Control) {
    let help = "Seconds until each certificate expires, by name and file; negative after expiry.";
    let mut family = page.family("tandem_certificate_expiry_seconds", Kind::Gauge, help);
    let (tls, now) = (control.tls().map(|tls| tls.context()), SystemTime::now());
    for certificate in tls.iter().flat_map(|tls| tls.certificates().iter()) {
        let name = certificate.names().first().map_or("", String::as_str);
        let file = certificate.chain_file().display().to_string();
        let left = match certificate.not_after().duration_since(now) {
            Ok(left) => left.as_secs().to_string(),
            Err(over) => format!("-{}", over.duration().as_secs()),
        };
        family.sample(&[("name", name), ("file", &file)], left);
    }
}

fn datagrams(page: &mut Exposition, totals: Totals<'_>) {
    let mut row = |name, help: &str, value| page.counter(name, help, value);
    let received = totals.io(|worker| &worker.datagrams_received);
    row(
        "tandem_datagrams_received_total",
        "Datagrams received.",
        received,
    );
    let bytes = totals.io(|worker| &worker.bytes_received);
    row(
        "tandem_datagrams_received_bytes_total",
        "Bytes of datagrams received.",
        bytes,
    );
    let sent = totals.io(|worker| &worker.datagrams_sent);
    row("tandem_datagrams_sent_total", "Datagrams sent.", sent);
    let bytes = totals.io(|worker| &worker.bytes_sent);
    row(
        "tandem_datagrams_sent_bytes_total",
        "Bytes of datagrams sent.",
        bytes,
    );
    let truncated = totals.io(|worker| &worker.truncated);
    row(
        "tandem_datagrams_truncated_total",
        "Datagrams dropped because they were too long.",
        truncated,
    );
    let errors = totals.io(|worker| &worker.receive_errors);
    row(
        "tandem_datagrams_receive_errors_total",
        "Failed reads of a socket.",
        errors,
    );
    let help = "Datagrams that the kernel dropped because a receive buffer was full.";
    row(
        "tandem_kernel_drops_total",
        help,
        totals.io(|worker| &worker.kernel_drops),
    );
    let help = "Pauses in which a worker lets messages gather into a batch (workers.gather).";
    row(
        "tandem_worker_pauses_total",
        help,
        totals.io(|worker| &worker.pauses),
    );
    let help = "Times that a worker went to sleep until the next message.";
    row(
        "tandem_worker_waits_total",
        help,
        totals.io(|worker| &worker.waits),
    );
    let help = "Messages handed over to the home worker of their call.";
    row(
        "tandem_handovers_total",
        help,
        totals.io(|worker| &worker.handed_over_out),
    );
    let help = "Messages dropped because the inbox of the home worker was full.";
    row(
        "tandem_handovers_dropped_total",
        help,
        totals.io(|worker| &worker.hand_overs_dropped),
    );
    let help = "Datagrams that could not be sent, by reason.";
    page.family("tandem_datagrams_send_failures_total", Kind::Counter, help)
        .sample(
            &[("reason", "buffer_full")],
            totals.io(|worker| &worker.send_buffer_full),
        )
        .sample(
            &[("reason", "too_long")],
            totals.io(|worker| &worker.send_too_long),
        )
        .sample(
            &[("reason", "unreachable")],
            totals.io(|worker| &worker.send_unreachable),
        )
        .sample(
            &[("reason", "other")],
            totals.io(|worker| &worker.send_errors),
        );
    let help = "ICMP errors received for datagrams, by kind.";
    let mut errors = page.family("tandem_icmp_errors_total", Kind::Counter, help);
    for (place, error) in IcmpError::ALL.into_iter().enumerate() {
        errors.sample(
            &[("kind", error.name())],
            totals.io_at(|worker| &worker.icmp_errors, place),
        );
    }
    let help = "Smallest receive buffer in bytes that the kernel granted, by worker.";
    let mut buffers = page.family("tandem_receive_buffer_bytes", Kind::Gauge, help);
    for (worker, stats) in totals.stats().iter().enumerate() {
        buffers.sample(
            &[("worker", &worker.to_string())],
            stats.receive_buffer.value(),
        );
    }
}
