//! A real controller with real agents, as processes.

use crate::process::{Child, PATIENCE, eventually, free_port, run};
use crate::server::Server;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The longest run of a test, including the time in which calls end.
const LONGEST_RUN: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// A controller with its agents.
#[derive(Debug)]
pub struct Laboratory {
    folder: TempDir,
    address: SocketAddr,
    controller: Option<Child>,
}

impl Laboratory {
    /// Starts a controller with an empty folder of scenarios.
    pub fn start() -> Self {
        let folder = TempDir::new().expect("temporary folder");
        std::fs::create_dir(folder.path().join("scenarios")).expect("a folder");
        let mut laboratory = Self {
            folder,
            address: ([127, 0, 0, 1], free_port()).into(),
            controller: None,
        };
        laboratory.restart();
        laboratory
    }

    /// Starts the controller again. It continues where it was.
    pub fn restart(&mut self) {
        // End the old one first, because it holds the port.
        self.controller = None;
        let mut command = Command::new(Server::binary());
        command
            .args(["lab", "controller", "--registrations-per-second", "400"])
            .arg("--listen")
            .arg(self.address.to_string())
            .arg("--scenarios")
            .arg(self.folder.path().join("scenarios"));
        self.controller = Some(Child::start(
            &mut command,
            &self.folder.path().join("controller.log"),
        ));
        let answers = eventually(PATIENCE, || self.get("/state").is_some());
        assert!(answers, "no controller:\n{}", self.log());
    }

    /// Ends the controller as in a crash.
    pub fn end_controller(&mut self) {
        self.controller = None;
    }

    /// Starts an agent whose phones are subscribers of a server, named by their number.
    pub fn agent(&self, name: &str, server: &Server) -> Child {
        let mut command = Command::new(Server::binary());
        command
            .args(["lab", "agent", "--user", "{}", "--password", "{}-secret"])
            .args([
                "--name",
                name,
                "--domain",
                server.domain(),
                "--phones",
                "500",
            ])
            .args(["--controller", &self.address.to_string()])
            .args(["--server", &server.address().to_string()]);
        Child::start(
            &mut command,
            &self.folder.path().join(format!("{name}.log")),
        )
    }

    /// Writes a scenario with calls between these phones in turn, `wait_ms` apart. Returns its path.
    pub fn scenario(
        &self,
        name: &str,
        calls: u32,
        wait_ms: &[u32],
        pairs: &[(u32, u32)],
    ) -> PathBuf {
        let mut text = String::from(
            "caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s\n",
        );
        let mut elapsed = 0;
        let waits = wait_ms.iter().cycle();
        let mean = f64::from(wait_ms.iter().sum::<u32>())
            / u32::try_from(wait_ms.len()).map_or(1.0, f64::from);
        for ((_, wait), (caller, callee)) in (0..calls).zip(waits).zip(pairs.iter().cycle()) {
            let (second, rate) = (elapsed / 1_000, 1_000.0 / mean);
            let _ = writeln!(text, "{caller:04};{callee:04};{wait};{second};{rate}");
            elapsed += wait;
        }
        let path = self.folder.path().join("scenarios").join(name);
        std::fs::write(&path, text).expect("a scenario");
        path
    }

    /// A path next to the folder of scenarios.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The URL of the page.
    pub fn page(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Sends a GET request. Returns the answer of the controller, if there is one.
    pub fn get(&self, path: &str) -> Option<Value> {
        let url = format!("http://{}{path}", self.address);
        let (code, output) = run(Command::new("curl").args(["--silent", "--max-time", "5", &url]));
        (code == 0).then(|| serde_json::from_str(&output).unwrap_or(Value::String(output)))
    }

    /// Sends a POST request. Returns status and answer.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}{path}", self.address);
        let (_, output) = run(Command::new("curl")
            .args([
                "--silent",
                "--max-time",
                "20",
                "--write-out",
                "\n%{http_code}",
            ])
            .args(["--json", &body.to_string(), &url]));
        let (answer, status) = output.rsplit_once('\n').unwrap_or_default();
        let answer = serde_json::from_str(answer).unwrap_or(Value::String(answer.to_owned()));
        (status.parse().unwrap_or(0), answer)
    }

    /// Waits until the state is as wanted.
    pub fn wait_for(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut state = Value::Null;
        let came = eventually(PATIENCE, || {
            state = self.get("/state").unwrap_or_default();
            is_wanted(&state)
        });
        assert!(came, "{what}: {state:#}\n{}", self.log());
        state
    }

    /// Waits for the end of a started run and returns its report. It polls seldom, because polling keeps the machine busy.
    pub fn report_at_the_end(&self) -> Value {
        let mut report = Value::Null;
        let ended = eventually(LONGEST_RUN, || {
            std::thread::sleep(BETWEEN_LOOKS);
            report = self.get("/report").unwrap_or_default();
            report["status"] == "ended"
        });
        assert!(ended, "{report:#}\n{}", self.log());
        report
    }

    /// The output of the controller.
    pub fn log(&self) -> String {
        self.controller
            .as_ref()
            .map(Child::output)
            .unwrap_or_default()
    }
}
