//! The results of `aliases.*` and `forwarding.*` as text.
use crate::ctl::table::{Table, printable};
use serde::Deserialize;
use std::fmt;

/// The result of `aliases.set`.
#[derive(Deserialize)]
pub(super) struct Alias {
    alias: String,
    subscriber: String,
}

impl fmt::Display for Alias {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (alias, subscriber) = (printable(&self.alias), printable(&self.subscriber));
        writeln!(formatter, "{alias} leads to {subscriber}")
    }
}

/// The result of `aliases.list`.
#[derive(Deserialize)]
pub(super) struct Aliases {
    aliases: Vec<Alias>,
    /// The last alias of this page, if more follow.
    next: Option<String>,
}

impl fmt::Display for Aliases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.aliases.is_empty() {
            return writeln!(formatter, "no aliases");
        }
        let mut table = Table::new(["ALIAS", "SUBSCRIBER"]);
        for Alias { alias, subscriber } in &self.aliases {
            table.row([alias, subscriber]);
        }
        table.fmt(formatter)?;
        match &self.next {
            Some(last) => {
                let last = printable(last);
                writeln!(formatter, "more follow; continue with --after {last}")
            }
            None => Ok(()),
        }
    }
}

/// The result of `forwarding.show` and `forwarding.set`.
#[derive(Deserialize)]
pub(in crate::ctl) struct Forwarding {
    subscriber: String,
    always: Option<String>,
    busy: Option<String>,
    no_answer: Option<String>,
    seconds: Option<u64>,
    not_registered: Option<String>,
}

impl fmt::Display for Forwarding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_answer = format!("no answer for {} s", self.seconds.unwrap_or_default());
        let mut table = Table::new(["CALLS", "TARGET"]);
        let mut is_empty = true;
        for (calls, target) in [
            ("always", &self.always),
            ("busy", &self.busy),
            (&no_answer, &self.no_answer),
            ("not registered", &self.not_registered),
        ] {
            if let Some(target) = target {
                table.row([&calls, target]);
                is_empty = false;
            }
        }
        if is_empty {
            let subscriber = printable(&self.subscriber);
            return writeln!(formatter, "{subscriber} forwards no calls");
        }
        table.fmt(formatter)
    }
}

/// The result of `aliases.delete` and `forwarding.delete`.
#[derive(Deserialize)]
pub(super) struct Removed {
    removed: bool,
}

impl fmt::Display for Removed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.removed {
            "removed"
        } else {
            "there was nothing to remove"
        };
        writeln!(formatter, "{text}")
    }
}
