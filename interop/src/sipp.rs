//! SIPp: scenarios of ours, run by its own state machine; its statistics decide.

use crate::process::{Child, free_port};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A running SIPp.
#[derive(Debug)]
pub struct Sipp {
    child: Child,
    folder: TempDir,
    /// The port it uses on 127.0.0.1.
    pub port: u16,
}

/// What SIPp counted, by the names of its statistics file.
#[derive(Clone, Debug)]
pub struct Statistics(Vec<(String, String)>);

impl Statistics {
    /// A count, by the name of its column.
    pub fn count(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(column, _)| column == name);
        let (_, value) = found.unwrap_or_else(|| panic!("SIPp counts no {name}"));
        value
            .parse()
            .unwrap_or_else(|error| panic!("{name} = {value}: {error}"))
    }
}

impl Sipp {
    /// Runs the scenario `interop/sipp/NAME.xml` towards `server`, on any free port, with more arguments for SIPp.
    pub fn start(scenario: &str, server: std::net::SocketAddr, arguments: &[&str]) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let port = free_port();
        let mut command = Command::new("sipp");
        command
            .current_dir(folder.path())
            .arg(server.to_string())
            .arg("-sf")
            .arg(scenario_file(scenario))
            .args([
                "-i",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "-nostdin",
                "-trace_stat",
                "-trace_err",
                "-stf",
                "statistics.csv",
                "-fd",
                "1",
            ])
            .args(arguments);
        let child = Child::start(&mut command, &folder.path().join("output"));
        Self {
            child,
            folder,
            port,
        }
    }

    /// Waits for the end of all calls; panics with SIPp's errors unless every call went as the scenario says.
    pub fn finish(mut self, at_most: Duration) -> Statistics {
        let status = self.child.wait(at_most);
        assert!(
            status.success(),
            "SIPp: {status}\n{}\n{}",
            self.errors(),
            tail(&self.child.output())
        );
        self.statistics()
    }

    /// Ends a SIPp that would answer for ever and returns its statistics.
    pub fn stop(mut self) -> Statistics {
        self.child.signal("USR1");
        self.child.wait(Duration::from_secs(20));
        self.statistics()
    }

    /// What SIPp complained about.
    pub fn errors(&self) -> String {
        let entries = std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten();
        let logs =
            entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("_errors.log"));
        logs.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default())
            .collect()
    }

    fn statistics(&self) -> Statistics {
        let text = std::fs::read_to_string(self.folder.path().join("statistics.csv"))
            .expect("statistics of SIPp");
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split(';');
        let values = lines.last().unwrap_or_default().split(';');
        Statistics(
            names
                .zip(values)
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

fn scenario_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sipp")
        .join(format!("{name}.xml"))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(40)..)
        .unwrap_or_default()
        .join("\n")
}
