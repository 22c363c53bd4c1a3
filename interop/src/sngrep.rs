//! sngrep as a HEP collector, without its screen.

use crate::capture::Packets;
use crate::process::{Child, free_port, wait_until};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A running sngrep that writes what it receives into a capture file.
#[derive(Debug)]
pub struct Sngrep {
    child: Child,
    port: u16,
    file: PathBuf,
    _folder: TempDir,
}

impl Sngrep {
    /// Starts it, and waits until it listens.
    pub fn start() -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let (port, file) = (free_port(), folder.path().join("packets"));
        let mut command = Command::new("sngrep");
        command.args(["-N", "-q", "-L", &format!("udp:127.0.0.1:{port}"), "-O"]);
        let child = Child::start(command.arg(&file), &folder.path().join("output"));
        let sngrep = Self {
            child,
            port,
            file,
            _folder: folder,
        };
        wait_until("sngrep listens", || sngrep.waiting().is_some());
        sngrep
    }

    /// The port that it listens at, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Bytes in the receive queue of its socket; `None` if there is no socket.
    fn waiting(&self) -> Option<u64> {
        let table = std::fs::read_to_string("/proc/net/udp").expect("the sockets");
        let address = format!("0100007F:{:04X}", self.port);
        table.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().filter(|local| *local == address)?;
            let (_, received) = fields.nth(2)?.split_once(':')?;
            u64::from_str_radix(received, 16).ok()
        })
    }

    /// Ends it when it has taken everything that was sent to it. `server_port`: the server's port for UDP.
    pub fn finish(mut self, server_port: u16) -> (Self, Packets) {
        wait_until("sngrep reads everything", || self.waiting() == Some(0));
        self.child.signal("INT");
        self.child.wait();
        let packets = Packets::of_file(&self.file, server_port);
        (self, packets)
    }
}
