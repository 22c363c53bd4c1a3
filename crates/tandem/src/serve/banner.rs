//! The startup banner: log lines with listeners, domains, database and admin URL, written once the server is ready.
use super::control::Control;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// About a dozen lines for people.
pub async fn lines(control: &Control, admin: SocketAddr) -> Vec<String> {
    let configuration = control.configuration.load();
    let mut lines = vec![format!("Tandem {} is ready", env!("CARGO_PKG_VERSION"))];
    let source = control.file.as_ref().map_or_else(
        || "built-in defaults".to_owned(),
        |file| file.display().to_string(),
    );
    lines.push(format!("configuration: {source}"));
    let domains: Vec<&str> = configuration
        .domains
        .iter()
        .map(|domain| domain.0.as_str())
        .collect();
    lines.push(format!("domains: {}", domains.join(", ")));
    let tls = control.tls().map(|tls| tls.context());
    for certificate in tls.iter().flat_map(|tls| tls.certificates().iter()) {
        let (names, end) = (certificate.names().join(", "), certificate.last_day());
        lines.push(format!("certificate: {names}, until {end}"));
    }
    if let Some(data_plane) = control.data_plane() {
        for listener in &data_plane.listeners {
            let mut line = format!(
                "listening: {} {}",
                listener.protocol.via_token(),
                listener.address
            );
            if listener.advertised != listener.address.to_string() {
                let _ = write!(line, ", advertised as {}", listener.advertised);
            }
            lines.push(line);
        }
        lines.push(format!("workers: {}", data_plane.metrics.len()));
        let granted = data_plane
            .stats
            .iter()
            .map(|stats| stats.receive_buffer.value())
            .min()
            .unwrap_or_default();
        lines.push(format!(
            "receive buffers: {} KiB each, {} KiB requested",
            granted / 1024,
            configuration.udp.receive_buffer / 1024
        ));
        lines.push(format!("registrations restored: {}", data_plane.restored));
    }
    if let Some(store) = control.store() {
        let made = if store.created() { " (new)" } else { "" };
        lines.push(format!("database: {}{made}", store.url()));
        lines.push(match store.subscribers().count(None).await {
            Ok(0) => "subscribers: none; add one with `tandem user add NAME@DOMAIN`".to_owned(),
            Ok(count) => format!("subscribers: {count}"),
            Err(error) => format!("subscribers: unknown ({error})"),
        });
    }
    if configuration.auth.challenge.is_empty() {
        lines.push(
            "digest authentication is off: anyone can register and call under any identity"
                .to_owned(),
        );
    }
    lines.push(format!(
        "admin: http://{admin}/health/ready, /metrics, /rpc"
    ));
    lines
}
