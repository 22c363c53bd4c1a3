//! The metrics of bindings that the nodes of a fleet share.
use super::section::{Metrics, ProcessMetric, Section};
use crate::fleet_store::Ignored;
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section {
    title: "Bindings shared by a fleet",
    introduction: "[fleet-locations.md](fleet-locations.md) describes the exchange. All are 0 with `location.store = \"memory\"`.\n",
    metrics: Metrics::Process(METRICS),
    notes: "",
};

const METRICS: &[ProcessMetric] = &[
    ProcessMetric::gauge(
        "tandem_fleet_connected",
        "Exchange of bindings with the fleet: 1 while it works, else 0",
        |control| u64::from(control.fleet.is_connected()),
    ),
    ProcessMetric::counter(
        "tandem_fleet_sent_total",
        "Changes of bindings that the store has taken from this node",
        |control| control.fleet.sent.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_sent_older_total",
        "Changes of bindings for which the store already had the same or a newer one",
        |control| control.fleet.refused.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_received_total",
        "Changes of bindings that this node has taken over",
        |control| control.fleet.received.get(),
    ),
    ProcessMetric::family(
        "tandem_fleet_ignored_total",
        Kind::Counter,
        "Records in the store that this node has not taken over, by reason",
        |control, samples| {
            let mut all = Ignored::ALL.into_iter();
            all.try_for_each(|why| samples.labelled(&[why.label()], control.fleet.ignored(why)))
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `older` (this node has the same or a newer one; each comparison counts here), `overtaken` (a phone registered here at the \
         same time), `unreadable` (not a record of a binding), `ahead` (the clock of its writer is more than 10 min ahead), `no_room` (see \
         `limits.bindings`)",
    ),
    ProcessMetric::family(
        "tandem_fleet_round_trip_seconds",
        Kind::Histogram,
        "Time until a change of this node comes back from the store",
        |control, samples| {
            let round_trip = &control.fleet.round_trip;
            samples.histogram(&[], &round_trip.buckets(), round_trip.sum())
        },
    )
    .details("Other nodes get it at the same time. It does not include `location.save_interval`"),
    ProcessMetric::counter(
        "tandem_fleet_nonce_uses_total",
        "Uses of nonces at other nodes that this node has heard of",
        |control| control.fleet.nonce_uses.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_nonce_errors_total",
        "Failures of the exchange of these uses",
        |control| control.fleet.nonce_errors.get(),
    )
    .details("While it fails, a replay at another node is not noticed"),
    ProcessMetric::counter(
        "tandem_fleet_comparisons_total",
        "Comparisons of all bindings with the store",
        |control| control.fleet.resynchronisations.get(),
    )
    .details("At the start, and when changes may be missing on either side"),
    ProcessMetric::counter(
        "tandem_fleet_same_instance_total",
        "Changes by another process that has the instance of this node",
        |control| control.fleet.same_instance.get(),
    )
    .details("Must be 0: give each process its own `fleet.instance`"),
    ProcessMetric::counter(
        "tandem_fleet_store_errors_total",
        "Failures of the store: no connection, no answer, or an error",
        |control| control.fleet.store_errors.get(),
    ),
    ProcessMetric::gauge(
        "tandem_fleet_waiting",
        "Changes of bindings that wait for the store",
        |control| control.fleet.waiting().0 as u64,
    ),
    ProcessMetric::gauge(
        "tandem_fleet_waiting_bytes",
        "Memory of the changes that wait for the store",
        |control| control.fleet.waiting().1 as u64,
    )
    .details("At most 64 MiB"),
    ProcessMetric::counter(
        "tandem_fleet_overflows_total",
        "Times that more changes waited than fit, and were replaced by a comparison",
        |control| control.fleet.overflows.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_deleted_total",
        "Records that this node has deleted from the store after their use",
        |control| control.fleet.deleted.get(),
    ),
    ProcessMetric::gauge(
        "tandem_fleet_versions",
        "Versions of bindings and removals in memory",
        |control| control.fleet.versions().0 as u64,
    )
    .details("At most twice `limits.bindings`"),
    ProcessMetric::gauge(
        "tandem_fleet_versions_bytes",
        "Approximate memory of these versions",
        |control| control.fleet.versions().1 as u64,
    ),
];
