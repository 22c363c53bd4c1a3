//! The metrics of call records and of call events.
use super::section::{Metrics, ProcessMetric, Section};
use crate::calls::records::{Destination, DestinationCounters, Loss};
use crate::control::Control;
use crate::metrics::{Kind, Samples};
use std::fmt;

pub(super) const RECORDS: Section = Section {
    title: "Call records",
    introduction: "[records.md](records.md) describes records. `to`: `file`, `database`.\n",
    metrics: Metrics::Process(RECORD_METRICS),
    notes: "",
};

pub(super) const EVENTS: Section = Section {
    title: "Call events",
    introduction: "[events.md](events.md) describes events and their readers.\n",
    metrics: Metrics::Process(EVENT_METRICS),
    notes: "",
};

const RECORD_METRICS: &[ProcessMetric] = &[
    ProcessMetric::family(
        "tandem_call_records_written_total",
        Kind::Counter,
        "Call records that were written, by destination",
        |control, samples| each(control, samples, |of| of.written().get()),
    )
    .labels(&["to"]),
    ProcessMetric::family(
        "tandem_call_records_lost_total",
        Kind::Counter,
        "Call records that were lost, by destination and reason",
        |control, samples| {
            for to in Destination::ALL {
                for loss in Loss::ALL {
                    let lost = control.records.of(to).lost(loss).get();
                    samples.labelled(&[to.label(), loss.label()], lost)?;
                }
            }
            Ok(())
        },
    )
    .labels(&["to", "reason"])
    .details(
        "`reason`: `queue_full` (see `records.queue`), `stopping` (the server stopped before they could be written)",
    ),
    ProcessMetric::family(
        "tandem_call_records_waiting",
        Kind::Gauge,
        "Call records that wait to be written, by destination",
        |control, samples| each(control, samples, |of| of.level().items()),
    )
    .labels(&["to"]),
    ProcessMetric::family(
        "tandem_call_records_waiting_bytes",
        Kind::Gauge,
        "Memory of the call records that wait to be written, by destination",
        |control, samples| each(control, samples, |of| of.level().bytes()),
    )
    .labels(&["to"])
    .details("At most `records.queue`"),
    ProcessMetric::family(
        "tandem_call_records_lag_seconds",
        Kind::Gauge,
        "Time since the end of the call whose record has waited longest to be written, by destination",
        |control, samples| {
            let now = control.clock.now();
            let lag = |to: Destination| control.records.of(to).lag(now).as_secs_f64();
            let mut all = Destination::ALL.into_iter();
            all.try_for_each(|to| samples.labelled(&[to.label()], lag(to)))
        },
    )
    .labels(&["to"]),
    ProcessMetric::family(
        "tandem_call_records_failing",
        Kind::Gauge,
        "Failure to write call records: 1 while it lasts, else 0, by destination",
        |control, samples| each(control, samples, |of| u64::from(of.is_failing())),
    )
    .labels(&["to"])
    .details("The log has the reason"),
];

fn each(
    control: &Control,
    samples: &mut Samples<'_>,
    value: fn(&DestinationCounters) -> u64,
) -> fmt::Result {
    let mut all = Destination::ALL.into_iter();
    all.try_for_each(|to| samples.labelled(&[to.label()], value(control.records.of(to))))
}

const EVENT_METRICS: &[ProcessMetric] = &[
    ProcessMetric::gauge(
        "tandem_event_readers",
        "Connected readers of call events",
        |control| control.events.readers(),
    )
    .details("At most `events.max_readers`"),
    ProcessMetric::family(
        "tandem_event_readers_ended_total",
        Kind::Counter,
        "Readers of call events that ended, by reason",
        |control, samples| {
            let counters = &control.events.counters;
            samples.labelled(&["closed"], counters.closed.get())?;
            samples.labelled(&["slow"], counters.slow.get())?;
            samples.labelled(&["stopping"], counters.stopping.get())
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `closed` (the reader went away), `slow` (the server disconnected it because it read too slowly), `stopping` (the \
         server stopped)",
    ),
    ProcessMetric::counter(
        "tandem_event_readers_refused_total",
        "Readers of call events that were refused because too many were connected",
        |control| control.events.counters.refused.get(),
    ),
    ProcessMetric::counter(
        "tandem_events_total",
        "Call events that were published",
        |control| control.events.counters.published.get(),
    )
    .details("Events are published while readers are connected, and for a minute after the last one"),
    ProcessMetric::counter(
        "tandem_events_sent_total",
        "Call events given to readers",
        |control| control.events.counters.sent.get(),
    )
    .details("An event counts once for each reader"),
    ProcessMetric::counter(
        "tandem_event_gaps_total",
        "Gaps announced to readers of call events that resumed",
        |control| control.events.counters.gaps.get(),
    ),
    ProcessMetric::gauge(
        "tandem_events_kept_bytes",
        "Memory of the latest call events",
        |control| control.events.bytes(),
    )
    .details("At most `events.buffer`, and what readers encoded since the last event"),
    ProcessMetric::counter(
        "tandem_call_log_lines_dropped_total",
        "Lines about calls that the log did not take in time",
        |control| control.counters.call_lines_dropped.get(),
    )
    .details("See `log.calls`"),
];
