//! The metrics of dialogs that the nodes of a fleet share.
use super::section::{Metrics, ProcessMetric, Section};
use crate::fleet_store::{Origin, Search};
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section {
    title: "Dialogs shared by a fleet",
    introduction: "[dialogs.md](dialogs.md#in-a-fleet) describes the exchange. All are 0 with `dialogs.store = \"database\"`. \
                   `tandem_dialogs_unsaved` and `tandem_dialogs_save_lag_seconds` show what waits.\n",
    metrics: Metrics::Process(METRICS),
    notes: "",
};

const METRICS: &[ProcessMetric] = &[
    ProcessMetric::gauge(
        "tandem_fleet_dialogs_connected",
        "Exchange of dialogs with the store: 1 while it works, else 0",
        |control| u64::from(control.fleet_dialogs.is_connected()),
    ),
    ProcessMetric::gauge(
        "tandem_fleet_dialogs_shared",
        "Dialogs of this node that are shared",
        |control| control.fleet_dialogs.shared().0 as u64,
    ),
    ProcessMetric::gauge(
        "tandem_fleet_dialogs_bytes",
        "Memory of their states, which are kept in case the store loses them",
        |control| control.fleet_dialogs.shared().1 as u64,
    )
    .details("At most 256 MiB"),
    ProcessMetric::counter(
        "tandem_fleet_dialogs_overflows_total",
        "Changes of dialogs that are not shared because this memory is full",
        |control| control.fleet_dialogs.overflows.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_dialogs_written_total",
        "Changes of dialogs written to the store",
        |control| control.fleet_dialogs.written.get(),
    ),
    ProcessMetric::family(
        "tandem_fleet_dialogs_searches_total",
        Kind::Counter,
        "Searches in the store for the dialog of a request, by result",
        |control, samples| {
            let mut all = Search::ALL.into_iter();
            all.try_for_each(|result| {
                samples.labelled(&[result.label()], control.fleet_dialogs.searches(result))
            })
        },
    )
    .labels(&["result"])
    .details(
        "`result`: `found`, `not_found` (it has ended, or no node has saved it), `timed_out` (the store did not answer for 30 s), `dropped` \
         (more than 4,096 waited)",
    ),
    ProcessMetric::family(
        "tandem_fleet_dialogs_claimed_total",
        Kind::Counter,
        "Dialogs that this node has taken from the store, by occasion",
        |control, samples| {
            let mut all = Origin::ALL.into_iter();
            all.try_for_each(|origin| {
                samples.labelled(&[origin.label()], control.fleet_dialogs.claimed(origin))
            })
        },
    )
    .labels(&["occasion"])
    .details(
        "`occasion`: `request` (this node got a request of the call), `orphan` (the node of the call is gone), `own` (this node had it \
         before it was restarted)",
    ),
    ProcessMetric::counter(
        "tandem_fleet_dialogs_lost_total",
        "Dialogs of this node that another node has claimed",
        |control| control.fleet_dialogs.lost.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_dialogs_withheld_records_total",
        "Calls that ended here after a pause of the process, and were left to the node that had claimed them",
        |control| control.fleet_dialogs.withheld.get(),
    ),
    ProcessMetric::counter(
        "tandem_fleet_dialogs_store_errors_total",
        "Failures of the store: no connection, no answer, or an error",
        |control| control.fleet_dialogs.store_errors.get(),
    ),
];
