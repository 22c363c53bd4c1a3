//! What the server reports to a service manager that listens on `NOTIFY_SOCKET`.
mod common;

use common::{PATIENCE, Place};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// `tandem serve` with this process as its service manager. It is killed when the test ends.
struct Supervised {
    process: Child,
    notifications: UnixDatagram,
    _directory: TempDir,
}

impl Supervised {
    fn start(place: &Place) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket: PathBuf = directory.path().join("notify");
        let notifications = UnixDatagram::bind(&socket).expect("a socket");
        notifications
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        let process = Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["serve", "--config"])
            .arg(place.file())
            .env("NOTIFY_SOCKET", &socket)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Self {
            process,
            notifications,
            _directory: directory,
        }
    }

    /// The lines of the next notification.
    fn notification(&self) -> Vec<String> {
        let mut buffer = [0; 1024];
        let length = self
            .notifications
            .recv(&mut buffer)
            .expect("a notification in time");
        String::from_utf8_lossy(&buffer[..length])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the signal is sent");
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_service_manager_learns_of_start_reloads_and_stop() {
    let place = Place::new("[shutdown]\ndrain_timeout = \"5s\"\n");
    let mut server = Supervised::start(&place);
    let started = [
        "READY=1",
        "STATUS=Started with 1 listener(s) and 2 worker(s)",
    ];
    assert_eq!(server.notification(), started);

    server.signal(Signal::HUP);
    let reloading = server.notification();
    assert_eq!(reloading[0], "RELOADING=1");
    let since_boot = reloading[1].strip_prefix("MONOTONIC_USEC=");
    let since_boot: u64 = since_boot.expect("a time").parse().expect("a number");
    assert!(since_boot > 0);
    assert_eq!(
        server.notification(),
        ["READY=1", "STATUS=Reloaded the configuration"]
    );

    place.configure_exactly("domains = 7\n");
    server.signal(Signal::HUP);
    assert_eq!(server.notification()[0], "RELOADING=1");
    let failed = server.notification();
    assert_eq!(failed[0], "READY=1", "it still serves");
    assert!(failed[1].contains("the last reload failed"), "{failed:?}");

    server.signal(Signal::TERM);
    let stopping = server.notification();
    // The drain timeout, ten seconds for the last saves, and five to distribute the last events, end their readers and close the database.
    assert_eq!(
        stopping[..2],
        ["STOPPING=1", "EXTEND_TIMEOUT_USEC=20000000"]
    );
    assert!(server.process.wait().expect("it ends").success());
}
