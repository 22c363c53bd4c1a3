//! The metrics of call events that are published to Redis or Valkey.
use super::section::{Metrics, ProcessMetric, Section};
use crate::calls::publishing::PublishLoss;
use crate::metrics::Kind;

pub(super) const SECTION: Section = Section {
    title: "Publishing to Redis or Valkey",
    introduction: "[events.md](events.md#publishing-to-redis-or-valkey) describes it. All are 0 without `events.publish`.\n",
    metrics: Metrics::Process(METRICS),
    notes: "",
};

const METRICS: &[ProcessMetric] = &[
    ProcessMetric::counter(
        "tandem_redis_events_published_total",
        "Call events that the Redis server confirmed",
        |control| control.publishing.published().get(),
    ),
    ProcessMetric::family(
        "tandem_redis_events_lost_total",
        Kind::Counter,
        "Call events that were not published to Redis, by reason",
        |control, samples| {
            let mut all = PublishLoss::ALL.into_iter();
            all.try_for_each(|loss| {
                let lost = control.publishing.lost(loss).get();
                samples.labelled(&[loss.label()], lost)
            })
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `queue_full` (see `events.publish_queue`), `failed` (the server answered with an error, or did not confirm the event), \
         `stopping` (Tandem stopped before they could be published)",
    ),
    ProcessMetric::gauge(
        "tandem_redis_connected",
        "Connection to the Redis server: 1 while it exists, else 0",
        |control| u64::from(control.publishing.is_connected()),
    ),
    ProcessMetric::gauge(
        "tandem_redis_events_waiting",
        "Call events that wait to be published to Redis",
        |control| control.publishing.level().items(),
    ),
    ProcessMetric::gauge(
        "tandem_redis_events_waiting_bytes",
        "Memory of the call events that wait to be published to Redis",
        |control| control.publishing.level().bytes(),
    )
    .details("At most `events.publish_queue`"),
];
