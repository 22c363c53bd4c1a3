//! `--watch`: shows a result again and again.
use crate::output::complain;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Shortest interval: an operator's eye is no faster, and the server has other work.
const SHORTEST: Duration = Duration::from_millis(100);
/// Moves to the top left corner of the terminal and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The option of commands that show the state of the server.
#[derive(Debug, Default, clap::Args)]
pub struct Watch {
    /// Show the result again and again, until Ctrl-C; by default every 2 seconds.
    #[arg(long = "watch", value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = interval)]
    pub interval: Option<Duration>,
}

fn interval(text: &str) -> Result<Duration, anyhow::Error> {
    let interval = humantime::parse_duration(text)?;
    anyhow::ensure!(interval >= SHORTEST, "must be at least 100ms");
    Ok(interval)
}

/// Shows results until the reader closes the pipe. A terminal shows only the last one. A failure of the first call ends the command;
/// later ones are shown instead of a result, because the server may be restarting.
pub fn repeat(interval: Duration, result: impl Fn() -> anyhow::Result<String>) -> ExitCode {
    let output = io::stdout();
    let before = if output.is_terminal() { CLEAR } else { "" };
    let mut next = match result() {
        Ok(text) => text,
        Err(problem) => return complain(problem),
    };
    loop {
        match write!(output.lock(), "{before}{next}").and_then(|()| output.lock().flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Err(error) => return complain(format!("cannot print the result: {error}")),
        }
        std::thread::sleep(interval);
        next = result().unwrap_or_else(|problem| format!("{problem:#}\n"));
    }
}
