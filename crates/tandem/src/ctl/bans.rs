//! The results of `bans.list`, `bans.add` and `bans.remove` as text.
use super::table::Table;
use super::text::duration;
use serde::Deserialize;
use std::fmt;

#[derive(Deserialize)]
pub(super) struct Bans {
    bans: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    source: String,
    seconds: u64,
}

impl fmt::Display for Bans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bans.is_empty() {
            return writeln!(formatter, "no bans");
        }
        let mut table = Table::new(["SOURCE", "ENDS IN"]);
        for ban in &self.bans {
            table.row([&ban.source, &duration(ban.seconds)]);
        }
        table.fmt(formatter)
    }
}

/// The result of `bans.add`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Banned(Ban);

impl fmt::Display for Banned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ban { source, seconds } = &self.0;
        writeln!(formatter, "banned {source} for {}", duration(*seconds))
    }
}

/// The result of `bans.remove`.
#[derive(Deserialize)]
pub(super) struct Unbanned {
    removed: bool,
}

impl fmt::Display for Unbanned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.removed {
            "the ban is lifted\n"
        } else {
            "there was no ban\n"
        })
    }
}
