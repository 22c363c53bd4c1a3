//! What a command asks the server, and how it prints the result.
use super::watch::Watch;
use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::{Display, Write as _};
use std::time::Duration;

const USUAL_TIMEOUT: Duration = Duration::from_secs(3);
/// More than the five seconds after which the server names a worker that has not taken an order.
pub(super) const ORDER_TIMEOUT: Duration = Duration::from_secs(8);
/// More than two searches among all dialogs take, each with ten seconds and at most five for the last answer.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(35);

const PREFIX_TIMEOUT: Duration = Duration::from_secs(120);

/// One call of the admin interface.
pub struct Request {
    pub method: String,
    pub params: Value,
    /// How often to repeat the call; `None`: not at all.
    pub interval: Option<Duration>,
    /// Time for the call, unless the command line says otherwise.
    pub timeout: Duration,
    text: fn(&Value) -> serde_json::Result<String>,
}

impl Request {
    /// A call whose result is a `Shown`, which prints itself for people.
    pub fn new<Shown: DeserializeOwned + Display>(method: &str, params: Value) -> Self {
        Self {
            method: method.to_owned(),
            params,
            interval: None,
            timeout: USUAL_TIMEOUT,
            text: |result| Ok(Shown::deserialize(result)?.to_string()),
        }
    }

    /// A call whose result is printed as JSON.
    pub fn raw(method: &str, params: Value) -> Self {
        Self {
            text: json,
            ..Self::new::<Value>(method, params)
        }
    }

    /// The same call, repeated.
    pub fn every(self, watch: &Watch) -> Self {
        let interval = watch.interval;
        Self { interval, ..self }
    }

    /// The same call, with time for every worker to take an order.
    pub fn of_all_workers(self) -> Self {
        let timeout = ORDER_TIMEOUT;
        Self { timeout, ..self }
    }

    /// The same call, with time to search the dialogs of all workers.
    pub fn of_dialogs(self) -> Self {
        let timeout = SEARCH_TIMEOUT;
        Self { timeout, ..self }
    }

    /// The same call, with time to read millions of prefixes from a busy database.
    pub fn of_prefixes(self) -> Self {
        let timeout = PREFIX_TIMEOUT;
        Self { timeout, ..self }
    }

    /// The result for people, or as JSON.
    ///
    /// # Errors
    /// The server is another version, whose result has other fields.
    pub fn printed(&self, result: &Value, as_json: bool) -> anyhow::Result<String> {
        let print = if as_json { json } else { self.text };
        print(result).with_context(|| {
            format!(
                "the result of {} is not as expected, so the server is probably another version than this program: use --json",
                self.method
            )
        })
    }
}

/// The result as indented JSON. It never fails.
#[expect(clippy::unnecessary_wraps, reason = "the other formats can fail")]
fn json(result: &Value) -> serde_json::Result<String> {
    Ok(printable_json(&format!("{result:#}\n")))
}

/// JSON without the control characters that it may contain and a terminal obeys.
pub(super) fn printable_json(json: &str) -> String {
    let mut escaped = String::new();
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}
