//! A Redis server for tests (`redis-server`, which `scripts/setup test` installs).
use crate::redis_connection::{Bounds, Connection, RedisServer};
use redis::{Pipeline, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running server without persistence, at a socket that stays the same across restarts.
pub(super) struct Store {
    directory: TempDir,
    process: Child,
}

impl Store {
    pub(super) async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let process = spawn(&directory);
        let store = Self { directory, process };
        store.answers().await;
        store
    }

    /// Ends the process without notice.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Starts it again, without data.
    pub(super) async fn start_again(&mut self) {
        self.process = spawn(&self.directory);
        self.answers().await;
    }

    /// Stops and continues the process, which keeps its connections.
    pub(super) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process");
        kill_process(Pid::from_raw(id).expect("a process"), signal).expect("it runs");
    }

    pub(super) fn server(&self) -> RedisServer {
        let path = self.directory.path().join("redis.sock");
        let url = format!("redis+unix://{}", path.display());
        RedisServer::parse(&url).expect("a URL")
    }

    /// Sends one command.
    pub(super) async fn command(&self, words: &[&str]) -> Value {
        let mut connection = Connection::open(&self.server()).await.expect("it listens");
        let mut commands = Pipeline::new();
        commands.ignore_errors().cmd(words[0]).arg(&words[1..]);
        let responses = connection.request(&commands, Bounds::SHORT).await;
        let mut responses = responses.expect("it answers").into_iter();
        responses.next().expect("a response").expect("no error")
    }

    async fn answers(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Connection::open(&self.server()).await.is_err() {
            assert!(Instant::now() < deadline, "redis-server does not start");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(directory: &TempDir) -> Child {
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no"])
        .args(["--unixsocket", "redis.sock", "--dir", "."])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed (scripts/setup test)")
}
