//! The metrics of the workers' questions to the control plane.
use super::section::{Metrics, Section, ServerMetric};
use crate::control::LookupResult;
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section::new("Questions and records", Metrics::Server(METRICS));

const METRICS: &[ServerMetric] = &[
    ServerMetric::gauge(
        "tandem_parked_requests",
        "Requests that wait for the database or a name server",
        |server| server.running.sip(|worker| &worker.parked),
    ),
    ServerMetric::counter(
        "tandem_questions_total",
        "Questions from workers to the control plane",
        |server| server.running.io(|worker| &worker.questions),
    ),
    ServerMetric::counter(
        "tandem_questions_expired_total",
        "Questions whose deadline passed without an answer",
        |server| server.running.sip(|worker| &worker.questions_expired),
    )
    .details("Their requests were answered 500, or 504 if a name server did not answer"),
    ServerMetric::counter(
        "tandem_questions_dropped_total",
        "Questions dropped because the control plane had no room for them",
        |server| server.running.io(|worker| &worker.questions_dropped),
    ),
    ServerMetric::counter(
        "tandem_records_total",
        "Records from workers to the control plane: lines of the log, and events of calls",
        |server| server.running.io(|worker| &worker.records),
    ),
    ServerMetric::counter(
        "tandem_records_dropped_total",
        "Records dropped because the control plane had no room for them",
        |server| server.running.io(|worker| &worker.records_dropped),
    ),
    ServerMetric::family(
        "tandem_lookups_total",
        Kind::Counter,
        "Lookups for the workers, by kind and result",
        |server, samples| {
            let counters = &server.control.counters;
            for (kind, lookups) in [
                ("credentials", &counters.credentials),
                ("name", &counters.names),
            ] {
                for result in LookupResult::ALL {
                    samples.labelled(&[kind, result.label()], lookups.of(result).get())?;
                }
            }
            Ok(())
        },
    )
    .labels(&["kind", "result"])
    .details(
        "`kind`: `credentials`, `name`; `result`: `found`, `not_found`, `failed`, `timed_out`",
    ),
    ServerMetric::gauge(
        "tandem_credentials_cached",
        "Cached subscribers, including those known not to exist",
        |server| server.running.shared.credentials.len() as u64,
    ),
    ServerMetric::counter(
        "tandem_subscriber_poll_failures_total",
        "Failed queries for changed subscribers",
        |server| server.control.counters.poll_failures.get(),
    ),
];
