//! The startup banner: log lines with listeners, domains, database and admin URL, written once the server is ready.
use crate::control::{Control, Running};
use std::net::SocketAddr;

/// About a dozen lines for people.
pub(super) async fn lines(control: &Control, running: &Running, admin: SocketAddr) -> Vec<String> {
    let configuration = control.configuration.load();
    let source = control.file.as_ref().map_or_else(
        || "built-in defaults".to_owned(),
        |file| file.display().to_string(),
    );
    let domains = configuration.domains.iter();
    let domains: Vec<&str> = domains.map(|domain| domain.0.as_str()).collect();
    let mut lines = vec![
        format!("Tandem {} is ready", env!("CARGO_PKG_VERSION")),
        format!("configuration: {source}"),
        format!("domains: {}", domains.join(", ")),
    ];
    let tls = running.tls.as_ref().map(|tls| tls.context());
    for certificate in tls.iter().flat_map(|tls| tls.certificates().iter()) {
        let (names, end) = (certificate.names().join(", "), certificate.last_day());
        lines.push(format!("certificate: {names}, until {end}"));
    }
    for listener in &running.listeners {
        let (transport, address) = (listener.protocol.via_token(), listener.address);
        let advertised = if listener.advertised == address.to_string() {
            String::new()
        } else {
            format!(", advertised as {}", listener.advertised)
        };
        lines.push(format!("listening: {transport} {address}{advertised}"));
    }
    let granted = running.stats.iter().map(|it| it.receive_buffer.value());
    let store = &running.store;
    let is_new = if store.created() { " (new)" } else { "" };
    let subscribers = match store.subscribers().count(None).await {
        Ok(0) => "none; add one with `tandem user add NAME@DOMAIN`".to_owned(),
        Ok(count) => count.to_string(),
        Err(error) => format!("unknown ({error})"),
    };
    lines.extend([
        format!("workers: {}", running.metrics.len()),
        format!(
            "receive buffers: {} KiB each, {} KiB requested",
            granted.min().unwrap_or_default() / 1024,
            configuration.udp.receive_buffer / 1024
        ),
        format!("registrations restored: {}", running.restored),
        format!("node: {}", configuration.node.name.0),
        format!("database: {}{is_new}", store.url()),
        format!("subscribers: {subscribers}"),
        format!("admin: http://{admin}/health/ready, /metrics, /rpc"),
    ]);
    if let Some(url) = &configuration.events.publish {
        let channel = &configuration.events.publish_channel;
        lines.push(format!("events: to {} as {channel}", url.shown().as_str()));
    }
    lines
}
