//! The methods `node.status` and `node.drain`.
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_transport::Listener;
use tandem_http::rpc::{Arguments, Failure};

/// The status of the server. While it starts, there is no database, listener, worker or registration.
pub(super) fn status(control: &Control) -> Value {
    let configuration = control.configuration.load();
    let running = control.running();
    let running = running.as_deref();
    let listeners = running.map(|running| running.listeners.as_slice());
    let listeners = listeners.unwrap_or_default().iter();
    let domains = configuration.domains.iter();
    json!({
        "phase": control.phase().word(),
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_seconds": control.started.elapsed().as_secs(),
        "configuration": control.file.as_ref().map(|file| file.display().to_string()),
        "node": configuration.node.name.0.as_str(),
        "database": running.map(|running| running.store.url()),
        "domains": domains.map(|domain| domain.0.as_str()).collect::<Vec<_>>(),
        "listeners": listeners.map(listener).collect::<Vec<_>>(),
        "workers": running.map_or(0, |running| running.metrics.len()),
        "registrations": running.map_or(0, |running| running.shared.locations.stats().live),
    })
}

fn listener(listener: &Listener) -> Value {
    json!({
        "transport": listener.protocol.via_token().to_ascii_lowercase(),
        "address": listener.address.to_string(),
        "advertised": listener.advertised,
    })
}

pub(super) async fn drain(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    control
        .drain(running, arguments.truth("on").unwrap_or(true))
        .await
        .map_err(Failure::refused)?;
    Ok(json!({ "phase": control.phase().word() }))
}
