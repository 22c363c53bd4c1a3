//! `transactions.stats`, `proxy.stats`, `stats.summary`.
use crate::admin::metrics::Totals;
use crate::admin::process;
use crate::serve::Control;
use serde_json::{Map, Value, json};
use sip_elements::metrics::{Counter, DROPS, METHODS, TRANSACTION_COUNTS};

/// Counters with their labels; zeros left out when asked.
fn labelled<'l>(
    labels: impl IntoIterator<Item = &'l str>,
    value: impl Fn(usize) -> u64,
    zeros: bool,
) -> Value {
    let all: Map<String, Value> = labels
        .into_iter()
        .enumerate()
        .map(|(place, label)| (label.to_owned(), value(place)))
        .filter(|(_, value)| zeros || *value > 0)
        .map(|(label, value)| (label, Value::from(value)))
        .collect();
    Value::Object(all)
}

fn at(counters: &[Counter], place: usize) -> u64 {
    counters.get(place).map_or(0, Counter::value)
}

pub(super) fn transactions(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    let workers: Vec<Value> = control
        .data_plane()
        .map(|data_plane| data_plane.metrics.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|worker| {
            labelled(
                TRANSACTION_COUNTS,
                |place| at(&worker.transactions, place),
                true,
            )
        })
        .collect();
    let total = labelled(
        TRANSACTION_COUNTS,
        |place| totals.sip(|worker| at(&worker.transactions, place)),
        true,
    );
    json!({ "total": total, "workers": workers })
}

pub(super) fn proxy(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    json!({
        "created": totals.sip(|worker| worker.response_contexts_created.value()),
        "ended": totals.sip(|worker| worker.response_contexts_ended.value()),
        "live": totals.sip(|worker| worker.response_contexts.value()),
        "parked": totals.sip(|worker| worker.parked.value()),
        "refused_full": totals.sip(|worker| worker.refused_full.value()),
    })
}

pub(super) fn summary(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    let codes: Vec<String> = (100..700).map(|code: u16| code.to_string()).collect();
    let locations = totals.locations();
    json!({
        "uptime_seconds": control.started.elapsed().as_secs(),
        "requests": labelled(METHODS, |place| totals.sip(|worker| at(&worker.requests, place)), false),
        "responses_sent": labelled(
            codes.iter().map(String::as_str),
            |place| totals.sip(|worker| at(&worker.responses_sent, place)),
            false,
        ),
        "responses_received": labelled(
            ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"],
            |place| totals.sip(|worker| at(&worker.responses_received, place)),
            false,
        ),
        "dropped": labelled(DROPS, |place| totals.sip(|worker| at(&worker.drops, place)), false),
        "transactions": {
            "server": totals.transactions("servers_live"),
            "client": totals.transactions("clients_live"),
        },
        "forwarding": totals.sip(|worker| worker.response_contexts.value()),
        "parked": totals.sip(|worker| worker.parked.value()),
        "registrations": locations.live,
        "registered_addresses": locations.addresses,
        "unsaved_addresses": control.figures.unsaved.value(),
        "kernel_drops": totals.io(|worker| worker.kernel_drops.value()),
        "resident_memory_bytes": process::resident_memory(),
        "cpu_seconds": process::cpu_seconds(),
    })
}
