//! A Redis server for tests (`redis-server`, which `scripts/setup test` installs).

use super::until;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A Redis server without persistence, which ends with this value.
pub struct Redis {
    process: Child,
    _directory: TempDir,
}

impl Redis {
    /// Starts a server on this port of loopback, and waits until it listens.
    pub async fn start(port: u16) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (scripts/setup test)");
        until("redis-server listens", async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self {
            process,
            _directory: directory,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
