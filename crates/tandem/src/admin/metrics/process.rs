//! The metrics that exist from the start of the process.
use super::section::{Metrics, ProcessMetric, Section};
use crate::admin::process;
use crate::metrics::Kind;
use tandem_http::Rejection;

pub(super) const SECTION: Section = Section::new("Process", Metrics::Process(METRICS));

const METRICS: &[ProcessMetric] = &[
    ProcessMetric::family(
        "tandem_build_info",
        Kind::Gauge,
        "Constant 1 with the version as a label",
        |_, samples| samples.labelled(&[env!("CARGO_PKG_VERSION")], 1_u64),
    )
    .labels(&["version"]),
    ProcessMetric::family(
        "tandem_uptime_seconds",
        Kind::Gauge,
        "Time since the process started",
        |control, samples| samples.value(control.started.elapsed().as_secs_f64()),
    ),
    ProcessMetric::gauge(
        "tandem_ready",
        "Readiness: 1 while the server accepts new traffic, else 0",
        |control| u64::from(control.unready().is_none()),
    )
    .details("The same as `/health/ready`"),
    ProcessMetric::gauge(
        "tandem_process_resident_memory_bytes",
        "Resident memory of the process",
        |_| process::resident_memory(),
    ),
    ProcessMetric::family(
        "tandem_process_cpu_seconds_total",
        Kind::Counter,
        "CPU time of all threads",
        |_, samples| samples.value(process::cpu_seconds()),
    ),
    ProcessMetric::family(
        "tandem_reloads_total",
        Kind::Counter,
        "Configuration reloads by result",
        |control, samples| {
            let counters = &control.counters;
            samples.labelled(&["applied"], counters.reloads.get())?;
            samples.labelled(&["rejected"], counters.reload_failures.get())
        },
    )
    .labels(&["result"])
    .details("`result`: `applied`, `rejected`"),
    ProcessMetric::gauge(
        "tandem_admin_connections",
        "Open connections to the admin interface",
        |control| control.counters.admin.open(),
    ),
    ProcessMetric::counter(
        "tandem_admin_connections_refused_total",
        "Connections to the admin interface that were closed at once because too many were open",
        |control| control.counters.admin.turned_away(),
    )
    .details("In total, or from one address"),
    ProcessMetric::family(
        "tandem_admin_requests_refused_total",
        Kind::Counter,
        "Requests refused by the admin interface, by reason",
        |control, samples| {
            let refused = |rejection: Rejection| control.counters.admin.refused(rejection);
            let mut all = Rejection::ALL.into_iter();
            all.try_for_each(|rejection| samples.labelled(&[rejection.label()], refused(rejection)))
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `bad_host`, `foreign_host`, `foreign_origin`, `token`, `too_large`, `slow`",
    ),
];
