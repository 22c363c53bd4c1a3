//! The server under test: its processes, and its own metrics.

use super::options::Arguments;
use crate::process::Processes;
use anyhow::{anyhow, bail};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// Memory readings before giving up on a stable value.
const LOOKS: u32 = 12;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Change between two readings, in bytes, that counts as stable.
const AT_REST: u64 = 128 << 10;

pub(super) struct Server {
    processes: Processes,
    admin: Option<SocketAddr>,
}

impl Server {
    pub(super) fn find(arguments: &Arguments) -> anyhow::Result<Self> {
        let pid = match (arguments.pid, arguments.admin) {
            (Some(pid), _) => pid,
            (None, Some(admin)) => pid_of(admin)?,
            (None, None) => bail!("add --pid PID or --admin ADDRESS"),
        };
        Ok(Self {
            processes: Processes::family(pid)?,
            admin: arguments.admin,
        })
    }

    /// CPU time so far, once the server is idle.
    pub(super) fn cpu_at_rest(&self) -> anyhow::Result<Duration> {
        self.processes.wait_until_idle()?;
        self.processes.cpu_time()
    }

    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        self.processes.cpu_time()
    }

    /// Proportional set size in bytes, once it is stable.
    pub(super) fn memory_at_rest(&self) -> anyhow::Result<u64> {
        let (mut before, _) = self.processes.memory()?;
        for _ in 0..LOOKS {
            std::thread::sleep(LOOK_EVERY);
            let (now, _) = self.processes.memory()?;
            if now.abs_diff(before) < AT_REST {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }

    /// The server's limit of open descriptors.
    pub(super) fn descriptor_limit(&self) -> anyhow::Result<u64> {
        self.processes.descriptor_limit()
    }

    /// The server's own count of connections, if it has an admin interface.
    pub(super) fn connections(&self) -> anyhow::Result<Option<u64>> {
        let Some(admin) = self.admin else {
            return Ok(None);
        };
        let text = get(admin, "/metrics")?;
        let values = text.lines().filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            (key.split('{').next() == Some("tandem_connections"))
                .then(|| value.parse::<u64>().ok())
                .flatten()
        });
        Ok(Some(values.sum()))
    }
}

fn pid_of(admin: SocketAddr) -> anyhow::Result<u32> {
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"node.status","params":{}}"#;
    let answer = ureq::post(format!("http://{admin}/rpc"))
        .header("content-type", "application/json")
        .send(question)
        .and_then(|mut response| response.body_mut().read_to_string())
        .map_err(|error| anyhow!("http://{admin}: {error}"))?;
    let answer: Value = serde_json::from_str(&answer)?;
    let pid = answer.pointer("/result/pid").and_then(Value::as_u64);
    pid.and_then(|pid| u32::try_from(pid).ok())
        .ok_or_else(|| anyhow!("http://{admin} does not name its process"))
}

fn get(admin: SocketAddr, path: &str) -> anyhow::Result<String> {
    ureq::get(format!("http://{admin}{path}"))
        .call()
        .and_then(|mut response| response.body_mut().read_to_string())
        .map_err(|error| anyhow!("http://{admin}{path}: {error}"))
}
