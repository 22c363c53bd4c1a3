//! Tandem's own load generator as a peer of the server: `tandem lab run`.

use crate::process::run;
use crate::server::Server;
use serde_json::Value;
use sip_transport::Protocol;
use std::process::Command;

/// The command that runs a profile against the server. The subscribers are `user0`, `user1`, … with the passwords of
/// [`Server::password`]. The report goes to `report.json` in the server's folder.
pub fn lab_command(server: &Server, protocol: Protocol, arguments: &[&str]) -> Command {
    let json = server.path("report.json");
    let transport = protocol.via_token().to_ascii_lowercase();
    let mut command = Command::new(Server::binary());
    command.args(["lab", "run"]).args(arguments);
    command.args(["--transport", &transport]);
    if !arguments.contains(&"--password") {
        command.args(["--password", "user{}-secret"]);
    }
    command
        .args(["--domain", server.domain(), "--json"])
        .arg(&json);
    command
        .arg("--server")
        .arg(server.address_of(protocol).to_string());
    command
}

/// Runs [`lab_command`]. Returns its exit code, its report and its output.
pub fn lab_run(server: &Server, protocol: Protocol, arguments: &[&str]) -> (i32, Value, String) {
    let json = server.path("report.json");
    let mut command = lab_command(server, protocol, arguments);
    let (code, output) = run(&mut command);
    let report = std::fs::read_to_string(&json).unwrap_or_default();
    let report = serde_json::from_str(&report).unwrap_or_default();
    (code, report, output)
}

/// The subscribers that the load generator uses.
pub fn lab_users(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("user{number}")).collect()
}
