//! Child processes that never outlive their test.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The timeout for everything that should happen soon. It is long because the machine may be busy. Only a broken test
/// waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process whose output goes to a file and that is killed when dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts a command. Its output goes to `log`, its input comes from [`Child::say`].
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::create(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let errors = file
            .try_clone()
            .unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let started = command
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(errors)
            .spawn();
        Self {
            child: started.unwrap_or_else(|error| missing(command, &error)),
            log: log.to_owned(),
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        writeln!(input, "{line}")
            .unwrap_or_else(|error| panic!("{line}: {error}\n{}", self.output()));
    }

    /// Its exit status. `None` if it still runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end, but not longer than `at_most`.
    pub fn wait_at_most(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let mut status = None;
        eventually(at_most, || {
            status = self.ended();
            status.is_some()
        });
        status
    }

    /// Waits for its end. Panics with its output after [`PATIENCE`].
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.wait_at_most(PATIENCE);
        status.unwrap_or_else(|| panic!("still running:\n{}", self.output()))
    }

    /// Sends a signal by name (`TERM`, `KILL`, `HUP`, `INT`).
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.id().to_string()])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "cannot send {name}"
        );
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end and returns its exit code and output. Panics if the command cannot be started.
pub fn run(command: &mut Command) -> (i32, String) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| missing(command, &error));
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn missing(command: &Command, error: &io::Error) -> ! {
    panic!(
        "cannot start {}: {error}; scripts/setup test installs it",
        command.get_program().display()
    )
}

/// Polls until a condition is true. Panics if that takes longer than [`PATIENCE`].
pub fn wait_until(what: &str, is_true: impl FnMut() -> bool) {
    assert!(
        eventually(PATIENCE, is_true),
        "not within {PATIENCE:?}: {what}"
    );
}

/// Polls until a condition is true or the time is over. Returns whether it became true.
pub fn eventually(at_most: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + at_most;
    while !is_true() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A UDP port of 127.0.0.1 that is unused now, also for TCP. Ports are handed out in sequence, so that two tests do not
/// get the same one. Ephemeral ports are avoided.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 2000) as u16 * 10;
    for _ in 0..2000 {
        let port = first.wrapping_add(NEXT.fetch_add(2, Ordering::Relaxed));
        if port > 1024 && is_free(port).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

fn is_free(port: u16) -> io::Result<()> {
    UdpSocket::bind(("127.0.0.1", port))?;
    std::net::TcpListener::bind(("127.0.0.1", port))?;
    Ok(())
}
