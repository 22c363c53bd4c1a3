//! Redis from Debian, with a password, and subscribers by its own client.

use crate::host::Host;
use crate::process::{Child, free_port, run, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A Redis server that keeps nothing.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    host: Host,
    folder: TempDir,
    port: u16,
    /// The certificate, with which it also listens for TLS, on the next port.
    certificate: Option<PathBuf>,
}

impl Redis {
    /// Its password, with a character that a URL must escape.
    pub const PASSWORD: &str = "p@ssword";

    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        Self::start_on(&Host::default())
    }

    /// Starts it with the certificate and key of a folder.
    pub fn start_with_tls(folder: &Path) -> Self {
        Self::launch_first(Host::default(), Some(folder.to_owned()))
    }

    /// Like [`Redis::start`], on this machine.
    pub fn start_on(host: &Host) -> Self {
        Self::launch_first(host.clone(), None)
    }

    fn launch_first(host: Host, certificate: Option<PathBuf>) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let port = free_port();
        let redis = Self {
            child: launch(&host, folder.path(), port, certificate.as_deref()),
            host,
            folder,
            port,
            certificate,
        };
        redis.wait_until_it_answers();
        redis
    }

    /// Ends it at once, as in a crash.
    pub fn kill(&mut self) {
        self.child.signal("KILL");
        self.child.wait();
    }

    /// Starts it again after [`Redis::kill`].
    pub fn restart(&mut self) {
        self.child = launch(
            &self.host,
            self.folder.path(),
            self.port,
            self.certificate.as_deref(),
        );
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        wait_until("Redis answers", || {
            run(self.client().arg("PING")).1.contains("PONG")
        });
    }

    /// Its URL, with the password.
    pub fn url(&self) -> String {
        format!(
            "redis://:p%40ssword@{}:{}/0",
            self.host.address(),
            self.port
        )
    }

    /// Its URL over TLS, with the password.
    pub fn url_with_tls(&self) -> String {
        format!("rediss://:p%40ssword@127.0.0.1:{}/0", self.port + 1)
    }

    /// Its client.
    fn client(&self) -> Command {
        let mut command = self.host.command("redis-cli");
        command
            .args(["-h", &self.host.address().to_string()])
            .args(["-p", &self.port.to_string()])
            .env("REDISCLI_AUTH", Self::PASSWORD);
        command
    }

    /// Subscribes to a channel.
    pub fn subscribe(&self, channel: &str, name: &str) -> Subscriber {
        let file = self.folder.path().join(name);
        let mut command = self.client();
        let child = Child::start(command.args(["SUBSCRIBE", channel]), &file);
        wait_until("it is subscribed", || child.output().ends_with("\n1\n"));
        Subscriber { child }
    }
}

fn launch(host: &Host, folder: &Path, port: u16, certificate: Option<&Path>) -> Child {
    let mut command = host.command("redis-server");
    command
        .args([
            "--bind",
            &host.address().to_string(),
            "--port",
            &port.to_string(),
        ])
        .args(["--requirepass", Redis::PASSWORD])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder);
    if let Some(certificate) = certificate {
        let file = |name: &str| certificate.join(name);
        command
            .args(["--tls-port", &(port + 1).to_string()])
            .arg("--tls-cert-file")
            .arg(file("chain.pem"))
            .arg("--tls-key-file")
            .arg(file("key.pem"))
            .args(["--tls-auth-clients", "no"]);
    }
    Child::start(&mut command, &folder.join("redis.log"))
}

/// A client that is subscribed.
#[derive(Debug)]
pub struct Subscriber {
    child: Child,
}

impl Subscriber {
    /// What was published since it subscribed.
    pub fn messages(&self) -> Vec<String> {
        let output = self.child.output();
        let lines: Vec<&str> = output.lines().collect();
        // Each message is three lines: its kind, the channel, and what was published.
        let (messages, _) = lines.as_chunks::<3>();
        let messages = messages.iter().filter(|[kind, ..]| *kind == "message");
        messages.map(|[_, _, text]| (*text).to_owned()).collect()
    }
}
