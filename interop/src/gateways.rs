//! Gateways that answer calls, and fail when the test says so: `tandem lab gateways`.

use crate::process::{Child, PATIENCE, eventually, free_port};
use crate::server::Server;
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// Running gateways. They have the numbers 1, 2, …
#[derive(Debug)]
pub struct Gateways {
    child: Child,
    ports: Vec<u16>,
    /// Lines of output that were read.
    read: usize,
    _folder: TempDir,
}

impl Gateways {
    /// Starts this many gateways.
    pub fn start(count: usize) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let mut command = Command::new(Server::binary());
        command.args(["lab", "gateways"]);
        for port in &ports {
            command.args(["--listen", &format!("127.0.0.1:{port}")]);
        }
        let mut gateways = Self {
            child: Child::start(&mut command, &folder.path().join("gateways.log")),
            ports,
            read: 0,
            _folder: folder,
        };
        let ready = gateways.next_line();
        assert_eq!(ready, "ready");
        gateways
    }

    /// The address of a gateway.
    pub fn address(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.ports[number - 1])
    }

    /// Changes what a gateway does, such as `silent`.
    pub fn behave(&mut self, number: usize, behaviour: &str) {
        self.child.say(&format!("{number} {behaviour}"));
        let answer = self.next_line();
        assert_eq!(answer, "ok");
    }

    /// What all of them have counted.
    pub fn counts(&mut self) -> Vec<Value> {
        self.child.say("counts");
        let line = self.next_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// One count of a gateway.
    pub fn count(&mut self, number: usize, name: &str) -> u64 {
        let counts = self.counts();
        let count = counts[number - 1][name].as_u64();
        count.unwrap_or_else(|| panic!("no count {name}: {counts:?}"))
    }

    fn next_line(&mut self) -> String {
        let mut line = None;
        let read = self.read;
        eventually(PATIENCE, || {
            let output = self.child.output();
            let whole = output.rfind('\n').map_or("", |end| &output[..end]);
            line = whole.lines().nth(read).map(str::to_owned);
            line.is_some()
        });
        self.read += 1;
        line.unwrap_or_else(|| panic!("the gateways are silent:\n{}", self.child.output()))
    }
}
