//! The metrics of dialogs.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;
use sip_dialog::Ended;
use sip_elements::metrics::TAKEOVERS;
use sip_transport::Time;
use std::time::Duration;

pub(super) const SECTION: Section = Section::new("Dialogs", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_dialogs",
        Kind::Gauge,
        "Live dialogs of calls by state",
        |server, samples| {
            let sip = &server.running;
            samples.labelled(&["early"], sip.sip(|worker| &worker.dialogs_early))?;
            samples.labelled(&["confirmed"], sip.sip(|worker| &worker.dialogs_confirmed))
        },
    )
    .labels(&["state"])
    .details("`state`: `early` (no 2xx so far), `confirmed`"),
    ServerMetric::counter(
        "tandem_dialogs_created_total",
        "Dialogs of calls created",
        |server| server.running.sip(|worker| &worker.dialogs_created),
    ),
    ServerMetric::family(
        "tandem_dialogs_ended_total",
        Kind::Counter,
        "Dialogs of calls ended, by cause",
        |server, samples| {
            for (place, cause) in Ended::LABELS.iter().enumerate() {
                let count = server.running.sip_at(|worker| &worker.dialogs_ended, place);
                samples.labelled(&[cause], count)?;
            }
            Ok(())
        },
    )
    .labels(&["cause"])
    .details(
        "Created = ended + live + disowned (`tandem_takeovers_total`). `cause`: `caller` (BYE or CANCEL), `callee` (BYE), `refused`, `no_answer`, `no_ack`, `expired`, `operator`",
    ),
    ServerMetric::counter(
        "tandem_dialogs_refused_total",
        "Dialogs that were not created because of a limit",
        |server| server.running.sip(|worker| &worker.dialogs_refused),
    )
    .details("The table is full (`limits.dialogs`) or the source has used its share: the INVITE was answered 503. Or an INVITE had more than 16 further 2xx"),
    ServerMetric::family(
        "tandem_takeovers_total",
        Kind::Counter,
        "Steps taken for requests and dialogs of another process, by event",
        |server, samples| {
            for (place, event) in TAKEOVERS.iter().enumerate() {
                let count = server.running.sip_at(|worker| &worker.takeovers, place);
                samples.labelled(&[event], count)?;
            }
            Ok(())
        },
    )
    .labels(&["event"])
    .details(
        "The process is another node with the same secret, or this one before it was restarted. `event`: `response` (forwarded by its Via chain), \
         `cancel` and `ack` (forwarded to the targets of their INVITE), `limited` (not forwarded: more than 100 a second and worker), \
         `dialog_missed` (a request of a dialog that is not here), `dialog_adopted`, `dialog_disowned` (dropped for another node), \
         `bye_forgotten` (too many waited for their dialog)",
    ),
    ServerMetric::gauge(
        "tandem_dialog_bytes",
        "Bytes of header fields that dialogs hold",
        |server| server.running.sip(|worker| &worker.dialogs_bytes),
    ),
    ServerMetric::gauge(
        "tandem_dialogs_unsaved",
        "Dialogs with changes that are not saved yet",
        |server| server.control.counters.dialogs.unsaved.get(),
    )
    .details("In the database or, if a fleet shares them, in Redis (`dialogs.store`). For the database, changes are gathered for `dialogs.save_interval`"),
    ServerMetric::family(
        "tandem_dialogs_save_lag_seconds",
        Kind::Gauge,
        "Age of the oldest change of a dialog that is not saved yet",
        |server, samples| {
            let oldest = server.control.counters.dialogs.oldest.get();
            let lag = match oldest {
                0 => Duration::ZERO,
                micros => server.control.clock.now() - Time::from_micros(micros),
            };
            samples.value(lag.as_secs_f64())
        },
    ),
    ServerMetric::counter(
        "tandem_dialogs_saves_total",
        "Batches of changed dialogs saved",
        |server| server.control.counters.dialogs.saves.get(),
    ),
    ServerMetric::counter(
        "tandem_dialogs_save_failures_total",
        "Failed saves of dialogs",
        |server| server.control.counters.dialogs.failures.get(),
    )
    .details("The server retries until they succeed"),
    ServerMetric::counter(
        "tandem_dialogs_unproven_total",
        "Requests inside a dialog that were answered 481 because their Route carries no valid proof",
        |server| server.running.sip(|worker| &worker.unproven),
    )
    .details("The proof is missing, belongs to another dialog, or has expired ([ADR 2](adr/0002-record-route-cookie.md))"),
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
