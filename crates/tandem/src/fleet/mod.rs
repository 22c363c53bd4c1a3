//! `tandem fleet`: shows the nodes of a fleet and decides which of them get calls, over the API of a controller. Hooks of Kubernetes and of
//! systemd call it when a node starts and stops.

use crate::ctl::table::Table;
use crate::ctl::{Access, Address, call};
use crate::output::{complain, show};
use anyhow::Context as _;
use clap::Subcommand;
use hyper::Uri;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tandem_fleet::members::Member;
use tandem_fleet::membership::Override;
use tandem_http::Token;

/// The port of `api.listen` by default.
const PORT: u16 = 8061;

/// The command and the controller.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of all commands")]
pub struct Arguments {
    #[command(subcommand)]
    command: FleetCommand,
    /// API of the controller: HOST:PORT or an http URL (default port: 8061).
    #[arg(
        long,
        value_name = "ADDRESS",
        global = true,
        default_value = "127.0.0.1:8061"
    )]
    controller: String,
    /// File with the token of the controller (`api.token_file` of its configuration).
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        default_value = "/etc/tandem/fleet.token"
    )]
    token_file: PathBuf,
    /// Time for the whole call.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, global = true, default_value = "3s")]
    timeout: Duration,
}

/// The node that a command is about.
#[derive(Debug, clap::Args)]
struct Target {
    /// Instance of the node (`fleet.instance` of its configuration; in Kubernetes the UID of its pod).
    #[arg(long, value_name = "INSTANCE", env = "TANDEM_INSTANCE")]
    instance: String,
    /// Do it even if this is the last active node.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// List all nodes with their state.
    #[command(after_help = "Examples:
  tandem fleet list
  tandem fleet list --controller control.example.org --json")]
    List {
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let a node take new calls: add it, or end a drain.
    ///
    /// A new node needs --name and --address, and a controller whose members come from the API.
    #[command(after_help = "Examples:
  tandem fleet enable --instance sip-1
  tandem fleet enable --instance sip-1 --name sip-1 --address 192.0.2.11:5060")]
    Enable {
        /// Instance of the node (`fleet.instance` of its configuration; in Kubernetes the UID of its pod).
        #[arg(long, value_name = "INSTANCE", env = "TANDEM_INSTANCE")]
        instance: String,
        /// Name of the node.
        #[arg(long, requires = "address")]
        name: Option<String>,
        /// Address and port at which the node takes SIP.
        #[arg(long, requires = "name")]
        address: Option<SocketAddr>,
        /// Address and port of the node's admin interface.
        #[arg(long, value_name = "ADDRESS", requires = "address")]
        admin: Option<SocketAddr>,
        /// Replace the record of the same instance.
        #[arg(long)]
        force: bool,
    },
    /// Give a node no new calls; its calls go on.
    #[command(after_help = "Examples:
  tandem fleet drain --instance sip-1")]
    Drain(Target),
    /// Take a node out of the fleet at once, without a grace period.
    #[command(after_help = "Examples:
  tandem fleet remove --instance sip-1")]
    Remove(Target),
}

/// Runs the command; fails with the controller's error, or if no controller answers.
pub fn run(arguments: &Arguments) -> ExitCode {
    match perform(arguments) {
        Ok(text) => show(&text),
        Err(problem) => complain(format_args!("{problem:#}")),
    }
}

fn perform(arguments: &Arguments) -> anyhow::Result<String> {
    let token = Token::read_text(&arguments.token_file)?;
    let access = Access::to_controller(address(&arguments.controller)?, token);
    let call = |method: &str, params: &Value| call(&access, method, params, arguments.timeout);
    let ordered = |done: &str, instance: &str, method: &str, params: &Value| {
        let generation = call(method, params)?["generation"].take();
        anyhow::Ok(format!("{instance} is {done}; member set {generation}\n"))
    };
    match &arguments.command {
        FleetCommand::List { json: true } => Ok(format!("{:#}\n", call("nodes.list", &json!({}))?)),
        FleetCommand::List { json: false } => list(&call("nodes.list", &json!({}))?),
        FleetCommand::Enable {
            instance,
            name,
            address,
            admin,
            force,
        } => {
            let force = force.then_some(true).filter(|_| name.is_some());
            let record = json!({ "instance": instance, "name": name, "address": address, "admin": admin, "force": force });
            ordered("enabled", instance, "nodes.enable", &record)
        }
        FleetCommand::Drain(Target { instance, force }) => {
            let params = json!({ "instance": instance, "force": force });
            ordered("draining", instance, "nodes.drain", &params)
        }
        FleetCommand::Remove(Target { instance, force }) => {
            let params = json!({ "instance": instance, "force": force });
            ordered("removed", instance, "nodes.remove", &params)
        }
    }
}

/// The address of a controller, at the default port if it names none.
fn address(text: &str) -> anyhow::Result<Address> {
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let parsed: Uri = url
        .parse()
        .context("--controller: use HOST:PORT or an http:// URL")?;
    match (parsed.port(), parsed.host()) {
        (None, Some(host)) => format!("http://{host}:{PORT}").parse(),
        _ => url.parse(),
    }
}

/// The nodes that the controller knows.
#[derive(Deserialize)]
struct Listed {
    source: String,
    problem: Option<String>,
    nodes: Vec<ListedNode>,
}

#[derive(Deserialize)]
struct ListedNode {
    #[serde(flatten)]
    member: Member,
    #[serde(rename = "override")]
    ordered: Option<Override>,
    listed: bool,
}

fn list(result: &Value) -> anyhow::Result<String> {
    let listed = Listed::deserialize(result)
        .context("the result is not as expected, so the controller is probably another version than this program: use --json")?;
    let mut table = Table::new(["INSTANCE", "NAME", "ADDRESS", "STATE", "WHY"]);
    for ListedNode {
        member,
        ordered,
        listed,
    } in listed.nodes
    {
        let why = match (ordered, listed) {
            (Some(Override::Remove), _) => "removed by an operator",
            (_, false) => "gone, in its grace period",
            (Some(Override::Drain), true) => "drained by an operator",
            (None, true) => "",
        };
        let state = if ordered == Some(Override::Remove) {
            "hidden"
        } else {
            member.state.word()
        };
        table.row([
            &member.instance,
            &member.name,
            &member.address,
            &state,
            &why,
        ]);
    }
    let mut text = table.to_string();
    if let Some(problem) = listed.problem {
        let source = &listed.source;
        text = format!("{text}\nThe source of members ({source}) fails: {problem}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_at_its_default_port_unless_another_is_named() {
        for (text, expected) in [
            ("control", "http://control:8061"),
            ("192.0.2.9:1", "http://192.0.2.9:1"),
            (
                "http://control.example.org",
                "http://control.example.org:8061",
            ),
            ("[2001:db8::1]", "http://[2001:db8::1]:8061"),
        ] {
            assert_eq!(address(text).expect(text).to_string(), expected);
        }
        assert!(address("https://control:1").is_err());
        assert!(address("a b").is_err());
    }
}
