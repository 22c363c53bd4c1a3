//! The results of `location.list`, `location.get` and `location.remove` as text.
use super::table::{Table, printable};
use super::text::duration;
use serde::Deserialize;
use std::fmt;

/// An address of record with its bindings: the result of `location.get`.
#[derive(Deserialize)]
pub(super) struct Location {
    address: String,
    bindings: Vec<Binding>,
}

#[derive(Deserialize)]
struct Binding {
    contact: String,
    q: f64,
    expires_in: u64,
    path: Option<String>,
    instance: Option<String>,
    user_agent: Option<String>,
    source: String,
    listener: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bindings.is_empty() {
            return writeln!(formatter, "{} has no bindings", self.address);
        }
        for (number, binding) in self.bindings.iter().enumerate() {
            if number > 0 {
                writeln!(formatter)?;
            }
            binding.facts().fmt(formatter)?;
        }
        Ok(())
    }
}

impl Binding {
    fn facts(&self) -> Table {
        let mut facts = Table::default();
        facts.row([&"contact", &self.contact]);
        facts.row([&"q", &self.q]);
        facts.row([&"expires in", &duration(self.expires_in)]);
        facts.row([&"source", &self.source]);
        for (name, value) in [
            ("listener", &self.listener),
            ("user agent", &self.user_agent),
            ("instance", &self.instance),
            ("path", &self.path),
        ] {
            if let Some(value) = value {
                facts.row([&name, value]);
            }
        }
        facts
    }
}

/// One page of addresses of record.
#[derive(Deserialize)]
pub(super) struct Locations {
    addresses: Vec<Location>,
    /// The last address of this page, if more follow.
    next: Option<String>,
}

impl fmt::Display for Locations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.addresses.is_empty() {
            return writeln!(formatter, "no registrations");
        }
        let mut table = Table::new(["ADDRESS", "CONTACT", "EXPIRES IN", "SOURCE", "USER AGENT"]);
        for Location { address, bindings } in &self.addresses {
            for binding in bindings {
                let user_agent = binding.user_agent.as_deref().unwrap_or_default();
                table.row([
                    address,
                    &binding.contact,
                    &duration(binding.expires_in),
                    &binding.source,
                    &user_agent,
                ]);
            }
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

/// The result of `location.remove`.
#[derive(Deserialize)]
pub(super) struct Unregistered {
    removed: u64,
}

impl fmt::Display for Unregistered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.removed == 1 { "" } else { "s" };
        writeln!(formatter, "removed {} binding{plural}", self.removed)
    }
}
