//! The methods `transactions.stats`, `proxy.stats` and `stats.summary`.
use crate::admin::process;
use crate::control::{Control, Running};
use serde_json::{Map, Value, json};
use sip_elements::metrics::{DROPS, TRANSACTION_COUNTS};
use sip_message::Method;
use sip_transport::Counter;

/// Counters by label.
fn labelled<'l>(
    labels: impl IntoIterator<Item = &'l str>,
    value: impl Fn(usize) -> u64,
) -> Map<String, Value> {
    let labels = labels.into_iter().enumerate();
    labels
        .map(|(place, label)| (label.to_owned(), Value::from(value(place))))
        .collect()
}

/// Non-zero counters by label.
fn occurred<'l>(
    labels: impl IntoIterator<Item = &'l str>,
    value: impl Fn(usize) -> u64,
) -> Map<String, Value> {
    let mut all = labelled(labels, value);
    all.retain(|_, value| *value != 0);
    all
}

pub(super) fn transactions(running: &Running) -> Value {
    let of_worker = |counters: &[Counter]| {
        let at = |place| counters.get(place).map_or(0, Counter::value);
        labelled(TRANSACTION_COUNTS, at)
    };
    let workers: Vec<_> = running
        .metrics
        .iter()
        .map(|worker| of_worker(&worker.transactions))
        .collect();
    let total = labelled(TRANSACTION_COUNTS, |place| {
        running.sip_at(|worker| &worker.transactions, place)
    });
    json!({ "total": total, "workers": workers })
}

pub(super) fn proxy(running: &Running) -> Value {
    json!({
        "created": running.sip(|worker| &worker.response_contexts_created),
        "ended": running.sip(|worker| &worker.response_contexts_ended),
        "live": running.sip(|worker| &worker.response_contexts),
        "parked": running.sip(|worker| &worker.parked),
        "refused_full": running.sip(|worker| &worker.refused_full),
    })
}

pub(super) fn summary(control: &Control, running: &Running) -> Value {
    let requests = occurred(Method::LABELS, |place| {
        running.sip_at(|worker| &worker.requests, place)
    });
    let codes: Vec<String> = (100..700).map(|code: u16| code.to_string()).collect();
    let sent = occurred(codes.iter().map(String::as_str), |place| {
        running.sip_at(|worker| &worker.responses_sent, place)
    });
    let received = occurred(["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"], |place| {
        running.sip_at(|worker| &worker.responses_received, place)
    });
    let dropped = occurred(DROPS, |place| running.sip_at(|worker| &worker.drops, place));
    let locations = running.shared.locations.stats();
    json!({
        "uptime_seconds": control.started.elapsed().as_secs(),
        "requests": requests,
        "responses_sent": sent,
        "responses_received": received,
        "dropped": dropped,
        "transactions": {
            "server": running.transactions("servers_live"),
            "client": running.transactions("clients_live"),
        },
        "forwarding": running.sip(|worker| &worker.response_contexts),
        "parked": running.sip(|worker| &worker.parked),
        "unacknowledged": running.sip(|worker| &worker.unacknowledged),
        "registrations": locations.live,
        "registered_addresses": locations.addresses,
        "unsaved_addresses": running.unsaved_addresses(&control.counters),
        "kernel_drops": running.io(|worker| &worker.kernel_drops),
        "resident_memory_bytes": process::resident_memory(),
        "cpu_seconds": process::cpu_seconds(),
    })
}
