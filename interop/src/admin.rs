//! The admin interface of a process under test: health, metrics and JSON-RPC.

use crate::host::Host;
use crate::server::Server;
use serde_json::Value;
use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

impl Server {
    /// Sends a GET request. Returns status and body.
    pub fn http(&self, path: &str) -> (u16, String) {
        get(self.host(), self.admin_address(), path)
    }

    /// Calls a JSON-RPC method. Panics with the error if it fails.
    pub fn rpc(&self, method: &str, params: &Value) -> Value {
        let body =
            serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                .to_string();
        let request = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let (_, answer) =
            exchange(self.host(), self.admin_address(), &request).expect("the admin API answers");
        let answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer.get("result").cloned().unwrap_or_default()
    }

    /// The sum of a metric over all its series whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        sum(&self.http("/metrics").1, name, label)
    }

    /// Like [`Server::metric`], for a counter.
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "counts are whole numbers and not negative"
    )]
    pub fn count(&self, name: &str, label: &str) -> u64 {
        self.metric(name, label) as u64
    }
}

/// Sends a GET request. Returns status and body.
pub(crate) fn get(host: &Host, admin: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(host, admin, &request).unwrap_or_default()
}

/// The sum of a metric over all its series on a page whose labels contain `label`.
pub(crate) fn sum(page: &str, name: &str, label: &str) -> f64 {
    let values = page.lines().filter_map(|line| {
        let (key, value) = line.rsplit_once(' ')?;
        let bare = key.split('{').next()?;
        (bare == name && key.contains(label))
            .then(|| value.parse::<f64>().ok())
            .flatten()
    });
    values.sum()
}

fn exchange(host: &Host, admin: SocketAddr, request: &str) -> Option<(u16, String)> {
    let mut stream = host.connect(admin).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
