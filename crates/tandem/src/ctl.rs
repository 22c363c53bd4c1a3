//! `tandem ctl`: shows the state of a running server and controls it, over its admin interface.
//!
//! ```text
//! command ─▶ request: method, parameters, type of the result ─▶ call ─▶ text for people, or JSON
//!            access: --admin, or the configuration ────────────┘
//! ```
//!
//! `tandem ctl trace` alone reads a stream: see `ctl/trace`.

mod access;
mod bans;
mod call;
mod command;
mod dialogs;
mod events;
mod location;
mod methods;
mod node;
mod params;
mod request;
mod routing;
mod services;
mod stats;
pub(crate) mod table;
mod text;
mod trace;
mod watch;

pub use access::{Access, Address};
pub use call::call;

use crate::configuration_file::ConfigurationFile;
use crate::output::{complain, show};
use command::{CtlCommand, Task};
use request::Request;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The command, the server and the format.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of all commands")]
pub struct Arguments {
    #[command(subcommand)]
    command: CtlCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Admin interface of the server: HOST:PORT, an http URL, or the path of a Unix socket
    /// (default: `admin.socket` or `admin.listen` of the configuration).
    #[arg(long, value_name = "ADDRESS", global = true)]
    admin: Option<Address>,
    /// File with the admin token of the server (default: `admin.token_file` of the configuration, unless --admin is given).
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Time for the whole call (default: 3s; for drain, undrain, dialogs and the start of a trace, which wait for workers, 8s; for reloads, which may read millions of prefixes, 2min).
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    file: ConfigurationFile,
}

/// Runs the command; fails with the server's error, or if no server answers.
pub fn run(arguments: &Arguments) -> ExitCode {
    let access = || {
        let token_file = arguments.token_file.as_deref();
        Access::find(arguments.admin.as_ref(), token_file, &arguments.file)
    };
    let task = match arguments.command.task() {
        Ok(Task::ListMethods) => return show(&methods::text(arguments.json)),
        Ok(task) => task,
        Err(problem) => return complain(problem),
    };
    let access = match access() {
        Ok(access) => access,
        Err(problem) => return complain(problem),
    };
    let request = match task {
        Task::Call(request) => request,
        Task::Follow(wanted) => {
            return events::follow(wanted, &access, arguments.timeout, arguments.json);
        }
        Task::Trace(trace) => {
            let traced = trace.run(&access, arguments);
            return traced.map_or_else(complain, |()| ExitCode::SUCCESS);
        }
        Task::ListMethods => return show(&methods::text(arguments.json)),
    };
    let result = || answer(&request, &access, arguments);
    match request.interval {
        Some(interval) => watch::repeat(interval, result),
        None => result().map_or_else(complain, |text| show(&text)),
    }
}

fn answer(request: &Request, access: &Access, arguments: &Arguments) -> anyhow::Result<String> {
    let timeout = arguments.timeout.unwrap_or(request.timeout);
    let result = call(access, &request.method, &request.params, timeout)?;
    request.printed(&result, arguments.json)
}
