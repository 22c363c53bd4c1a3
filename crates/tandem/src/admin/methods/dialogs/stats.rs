//! The method `dialogs.stats`.
use crate::control::Running;
use serde_json::{Map, Value, json};
use sip_dialog::Ended;
use sip_elements::metrics::WorkerMetrics;
use sip_transport::Counter;

pub(in crate::admin::methods) fn stats(running: &Running) -> Value {
    let workers = running.metrics.iter();
    let workers: Vec<Value> = workers.map(|worker| counts(|of| of(worker))).collect();
    let total = counts(|of| running.metrics.iter().map(|worker| of(worker)).sum());
    json!({ "total": total, "workers": workers })
}

/// The counts of one worker, or their sums. `value` reads them.
fn counts(value: impl Fn(&dyn Fn(&WorkerMetrics) -> u64) -> u64) -> Value {
    let ended: Map<String, Value> = Ended::LABELS
        .iter()
        .enumerate()
        .map(|(place, label)| {
            let count = value(&|worker| worker.dialogs_ended.get(place).map_or(0, Counter::value));
            ((*label).to_owned(), Value::from(count))
        })
        .collect();
    json!({
        "created": value(&|worker| worker.dialogs_created.value()),
        "refused": value(&|worker| worker.dialogs_refused.value()),
        "ended": ended,
        "early": value(&|worker| worker.dialogs_early.value()),
        "confirmed": value(&|worker| worker.dialogs_confirmed.value()),
        "bytes": value(&|worker| worker.dialogs_bytes.value()),
    })
}
