//! The provenance of figures: date, program version, command line and machine.

use serde::Serialize;
use std::fs;
use std::thread::available_parallelism;
use std::time::SystemTime;

/// Options whose values are omitted, because reports are passed on.
const SECRETS: [&str; 1] = ["--password"];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Provenance {
    /// UTC, by RFC 3339.
    pub(crate) date: String,
    pub(crate) version: &'static str,
    pub(crate) command: String,
    pub(crate) machine: String,
}

impl Provenance {
    /// Of this process, now.
    pub(crate) fn here() -> Self {
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION"),
            command: command(std::env::args()),
            machine: machine(),
        }
    }
}

/// A command line, quoted for a shell, without secrets.
fn command(words: impl Iterator<Item = String>) -> String {
    let mut is_secret = false;
    let words = words.map(|word| {
        let hidden = std::mem::replace(&mut is_secret, SECRETS.contains(&&*word));
        let option = word.split_once('=').map(|(option, _)| option.to_owned());
        match option.filter(|option| SECRETS.contains(&&**option)) {
            Some(option) => format!("{option}=…"),
            None if hidden => "…".to_owned(),
            None => quoted(&word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Name, processors, memory and kernel of the machine.
fn machine() -> String {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let processors = available_parallelism().map_or(0, usize::from);
    let model =
        first_value("/proc/cpuinfo", "model name").unwrap_or_else(|| text(system.machine()));
    let memory = first_value("/proc/meminfo", "MemTotal");
    let kilobytes = memory.and_then(|memory| memory.split(' ').next()?.parse::<f64>().ok());
    let memory = kilobytes.map_or_else(String::new, |size| format!(", {:.1} GB", size / 1e6));
    format!(
        "{}: {processors} × {model}{memory}, {} {}",
        text(system.nodename()),
        text(system.sysname()),
        text(system.release())
    )
}

/// The value of the first line `name : value` of a file.
fn first_value(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell_and_tells_no_password() {
        let words = [
            "tandem",
            "run",
            "--user",
            "phone{}",
            "--password",
            "s e",
            "--password=x",
            "it's",
            "",
        ];
        let shown = command(words.into_iter().map(str::to_owned));
        assert_eq!(
            shown,
            r"tandem run --user 'phone{}' --password … --password=… 'it'\''s' ''"
        );
    }

    #[test]
    fn this_process_has_a_date_a_version_and_a_machine() {
        let here = Provenance::here();
        assert!(
            here.date.starts_with("20") && here.date.ends_with('Z'),
            "{here:?}"
        );
        assert!(here.machine.contains("Linux"), "{here:?}");
        assert_eq!(here.version, env!("CARGO_PKG_VERSION"));
    }
}
