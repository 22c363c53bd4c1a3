//! The methods `node.status` and `node.drain`.
use super::{Arguments, Failure};
use crate::admin::totals::Totals;
use crate::serve::Control;
use serde_json::{Value, json};

pub(super) fn status(control: &Control) -> Value {
    let configuration = control.configuration.load();
    let totals = Totals(control.data_plane());
    let listeners: Vec<Value> = control
        .data_plane()
        .map(|data_plane| data_plane.listeners.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|listener| {
            json!({
                "transport": listener.protocol.via_token().to_ascii_lowercase(),
                "address": listener.address.to_string(),
                "advertised": listener.advertised,
            })
        })
        .collect();
    json!({
        "phase": control.phase().word(),
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_seconds": control.started.elapsed().as_secs(),
        "configuration": control.file.as_ref().map(|file| file.display().to_string()),
        "database": control.store().map(|store| store.url().to_owned()),
        "domains": configuration.domains.iter().map(|domain| domain.0.as_str()).collect::<Vec<_>>(),
        "listeners": listeners,
        "workers": totals.metrics().len(),
        "registrations": totals.locations().live,
    })
}

pub(super) async fn drain(control: &Control, arguments: Arguments) -> Result<Value, Failure> {
    control
        .drain(arguments.truth("on").unwrap_or(true))
        .await
        .map_err(Failure::refused)?;
    Ok(json!({ "phase": control.phase().word() }))
}
