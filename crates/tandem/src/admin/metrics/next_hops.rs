//! The metrics of next hops and dead targets.
use super::section::{Metrics, Section, ServerMetric};

pub(super) const SECTION: Section = Section {
    title: "Next hops",
    introduction: "\
[next-hops.md](next-hops.md) describes how Tandem finds a next hop, and what it does when a server fails.
",
    metrics: Metrics::Server(METRICS),
    notes: "",
};

const METRICS: &[ServerMetric] = &[
    ServerMetric::counter(
        "tandem_failovers_total",
        "Failovers of a request to the next server of its next hop",
        |server| server.running.sip(|worker| &worker.failovers),
    ),
    ServerMetric::gauge(
        "tandem_dead_targets",
        "Servers of next hops that failed recently and are tried last",
        |server| server.running.shared.dead_targets.stats().known as u64,
    )
    .details("The method `targets.dead` lists them"),
    ServerMetric::counter(
        "tandem_targets_died_total",
        "Servers of next hops that became dead targets",
        |server| server.running.shared.dead_targets.stats().died,
    ),
    ServerMetric::counter(
        "tandem_targets_revived_total",
        "Dead targets that responded again",
        |server| server.running.shared.dead_targets.stats().revived,
    ),
    ServerMetric::counter(
        "tandem_dead_targets_forgotten_total",
        "Failures of servers of next hops that were not recorded because the table was full",
        |server| server.running.shared.dead_targets.stats().forgotten,
    ),
];
