//! The metrics of registrations, in memory and on their way to the database.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section::new("Registrations", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge("tandem_registrations", "Live bindings", |server| {
        server.running.shared.locations.stats().live
    }),
    ServerMetric::gauge(
        "tandem_registered_addresses",
        "Addresses of record with bindings",
        |server| server.running.shared.locations.stats().addresses,
    ),
    ServerMetric::counter(
        "tandem_registrations_created_total",
        "Bindings created, including those restored at start",
        |server| server.running.shared.locations.stats().created,
    ),
    ServerMetric::counter(
        "tandem_registrations_ended_total",
        "Bindings removed or expired",
        |server| server.running.shared.locations.stats().ended,
    )
    .details("Created = ended + live"),
    ServerMetric::counter(
        "tandem_registrations_refused_total",
        "Bindings refused because the table was full",
        |server| server.running.shared.locations.stats().refused_full,
    )
    .details("See `limits.bindings`"),
    ServerMetric::counter(
        "tandem_registrations_disconnected_total",
        "Bindings that ended with their connection",
        |server| server.running.sip(|worker| &worker.bindings_disconnected),
    )
    .details("`tandem_registrations_ended_total` includes them"),
    ServerMetric::gauge(
        "tandem_location_unsaved",
        "Addresses of record with changes that are not in the database yet",
        |server| server.running.unsaved_addresses(&server.control.counters),
    ),
    ServerMetric::family(
        "tandem_location_save_lag_seconds",
        Kind::Gauge,
        "Age of the oldest change that is not in the database yet",
        |server, samples| {
            let locations = &server.running.shared.locations;
            samples.value(locations.save_lag(server.control.clock.now()).as_secs_f64())
        },
    )
    .details("At the time of the scrape: it grows while a save hangs"),
    ServerMetric::counter(
        "tandem_location_refreshes_not_written_total",
        "Refreshes not written because they hardly move the expiry in the database",
        |server| server.running.shared.locations.refreshes_not_written(),
    )
    .details("They move it by less than an eighth of the binding's lifetime"),
    ServerMetric::gauge(
        "tandem_location_held_answers",
        "Responses to REGISTER that wait until their bindings are saved",
        |server| server.running.sip(|worker| &worker.held_answers),
    ),
    ServerMetric::counter(
        "tandem_location_held_answers_dropped_total",
        "Responses to REGISTER that were dropped after waiting for more than 32 s",
        |server| server.running.sip(|worker| &worker.held_answers_dropped),
    ),
    ServerMetric::counter(
        "tandem_location_saves_total",
        "Batches of changed bindings saved",
        |server| server.control.counters.saves.get(),
    ),
    ServerMetric::counter(
        "tandem_location_save_failures_total",
        "Failed saves",
        |server| server.control.counters.save_failures.get(),
    )
    .details("The server retries until they succeed"),
];
