//! The controller of a fleet: the real binary. Operators, that is tests, add its nodes.

use crate::host::Host;
use crate::process::{Child, free_port, run, wait_until};
use crate::server::Server;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The token of all controllers in tests.
const TOKEN: &str = "0123456789abcdef";

/// A running controller.
#[derive(Debug)]
pub struct FleetController {
    child: Option<Child>,
    host: Host,
    folder: TempDir,
    address: SocketAddr,
    program: PathBuf,
}

impl FleetController {
    /// Starts a controller that knows no nodes.
    pub fn start() -> Self {
        Self::start_with(&Server::binary(), &Host::default())
    }

    /// Like [`FleetController::start`], with this program, on this machine.
    pub fn start_with(program: &Path, host: &Host) -> Self {
        let mut controller = Self {
            child: None,
            host: host.clone(),
            folder: TempDir::new().expect("temporary folder"),
            address: (host.address(), free_port()).into(),
            program: program.to_owned(),
        };
        let path = |name: &str| controller.path(name).display().to_string();
        let text = format!(
            "[api]\nlisten = \"{}\"\ntoken_file = \"{}\"\n\n[members]\nsource = \"api\"\nstate_file = \"{}\"\n",
            controller.address,
            path("token"),
            path("state.json")
        );
        std::fs::write(controller.path("token"), TOKEN).expect("the token");
        std::fs::write(controller.path("control.toml"), text).expect("configuration");
        controller.restart();
        controller
    }

    /// Starts it (again) and waits until it answers.
    pub fn restart(&mut self) {
        let mut command = self.host.command(&self.program);
        command.args(["control", "--config"]);
        command.arg(self.path("control.toml"));
        // End the old one first, because it holds the port.
        self.child = None;
        self.child = Some(Child::start(&mut command, &self.path("control.log")));
        wait_until("the controller answers", || {
            self.get("/health/live").is_some()
        });
    }

    /// Uses another program from the next start on.
    pub fn set_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Kills it at once, as in a crash.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends it with a signal.
    pub fn end(&mut self, signal: &str) {
        let child = self.child.as_mut().expect("running");
        child.signal(signal);
        child.wait();
    }

    /// Adds a node.
    pub fn add(&self, name: &str, address: SocketAddr) {
        let record = serde_json::json!({"instance": name, "name": name, "address": address});
        let url = format!("http://{}/v1/nodes", self.address);
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail-with-body", "--max-time", "5"]);
        command.args(["--json", &record.to_string()]);
        let (code, output) = run(authorized(&mut command).arg(url));
        assert_eq!(code, 0, "{output}");
    }

    /// Gives an order for a node with `tandem fleet`: `drain`, `enable`, `remove`.
    pub fn order(&self, order: &str, instance: &str) {
        let mut command = Command::new(&self.program);
        command.args(["fleet", order, "--instance", instance]);
        command.args(["--controller", &self.address.to_string()]);
        command.arg("--token-file").arg(self.token_file());
        let (code, output) = run(&mut command);
        assert_eq!(code, 0, "{output}");
    }

    fn get(&self, path: &str) -> Option<String> {
        let url = format!("http://{}{path}", self.address);
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--max-time", "5"]);
        let (code, output) = run(authorized(&mut command).arg(url));
        (code == 0).then_some(output)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The file with its token.
    pub fn token_file(&self) -> PathBuf {
        self.path("token")
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("control.log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn authorized(command: &mut Command) -> &mut Command {
    command.args(["--header", &format!("Authorization: Bearer {TOKEN}")])
}
