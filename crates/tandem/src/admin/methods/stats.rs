//! The methods `transactions.stats`, `proxy.stats` and `stats.summary`.
use crate::admin::process;
use crate::admin::totals::Totals;
use crate::serve::Control;
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

pub(super) fn transactions(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    let of_worker = |counters: &[Counter]| {
        let at = |place| counters.get(place).map_or(0, Counter::value);
        labelled(TRANSACTION_COUNTS, at)
    };
    let workers: Vec<_> = totals
        .metrics()
        .iter()
        .map(|worker| of_worker(&worker.transactions))
        .collect();
    let total = labelled(TRANSACTION_COUNTS, |place| {
        totals.sip_at(|worker| &worker.transactions, place)
    });
    json!({ "total": total, "workers": workers })
}

pub(super) fn proxy(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    json!({
        "created": totals.sip(|worker| &worker.response_contexts_created),
        "ended": totals.sip(|worker| &worker.response_contexts_ended),
        "live": totals.sip(|worker| &worker.response_contexts),
        "parked": totals.sip(|worker| &worker.parked),
        "refused_full": totals.sip(|worker| &worker.refused_full),
    })
}

pub(super) fn summary(control: &Control) -> Value {
    let totals = Totals(control.data_plane());
    let requests = occurred(Method::LABELS, |place| {
        totals.sip_at(|worker| &worker.requests, place)
    });
    let codes: Vec<String> = (100..700).map(|code: u16| code.to_string()).collect();
    let sent = occurred(codes.iter().map(String::as_str), |place| {
        totals.sip_at(|worker| &worker.responses_sent, place)
    });
    let received = occurred(["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"], |place| {
        totals.sip_at(|worker| &worker.responses_received, place)
    });
    let dropped = occurred(DROPS, |place| totals.sip_at(|worker| &worker.drops, place));
    let locations = totals.locations();
    json!({
        "uptime_seconds": control.started.elapsed().as_secs(),
        "requests": requests,
        "responses_sent": sent,
        "responses_received": received,
        "dropped": dropped,
        "transactions": {
            "server": totals.transactions("servers_live"),
            "client": totals.transactions("clients_live"),
        },
        "forwarding": totals.sip(|worker| &worker.response_contexts),
        "parked": totals.sip(|worker| &worker.parked),
        "unacknowledged": totals.sip(|worker| &worker.unacknowledged),
        "registrations": locations.live,
        "registered_addresses": locations.addresses,
        "unsaved_addresses": totals.unsaved(&control.figures),
        "kernel_drops": totals.io(|worker| &worker.kernel_drops),
        "resident_memory_bytes": process::resident_memory(),
        "cpu_seconds": process::cpu_seconds(),
    })
}
