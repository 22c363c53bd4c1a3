//! The results of `dialogs.list`, `dialogs.get` and `dialogs.end` as text.
use crate::ctl::table::{Table, printable};
use crate::ctl::text::duration;
use serde::Deserialize;
use std::fmt;

/// What a list shows of a dialog.
#[derive(Deserialize)]
struct Summary {
    id: String,
    call_id: String,
    state: String,
    age: u64,
    from: String,
    to: String,
    source: String,
    destination: Option<String>,
    expires_in: Option<u64>,
}

/// One page of dialogs.
#[derive(Deserialize)]
pub(super) struct Listed {
    dialogs: Vec<Summary>,
    /// Where the next page begins, if more may follow.
    next: Option<String>,
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.next, self.dialogs.is_empty()) {
            (_, false) => self.table().fmt(formatter)?,
            (None, true) => writeln!(formatter, "no dialogs")?,
            (Some(_), true) => writeln!(formatter, "no dialogs so far")?,
        }
        match &self.next {
            Some(next) => {
                let next = printable(next);
                writeln!(formatter, "more may follow; continue with --after {next}")
            }
            None => Ok(()),
        }
    }
}

impl Listed {
    fn table(&self) -> Table {
        let mut table = Table::new([
            "ID",
            "STATE",
            "AGE",
            "FROM",
            "TO",
            "SOURCE",
            "DESTINATION",
            "EXPIRES IN",
        ]);
        for dialog in &self.dialogs {
            table.row([
                &dialog.id,
                &dialog.state,
                &duration(dialog.age),
                &dialog.from,
                &dialog.to,
                &dialog.source,
                &dialog.destination.as_deref().unwrap_or_default(),
                &dialog.expires_in.map(duration).unwrap_or_default(),
            ]);
        }
        table
    }
}

/// All that is known about the dialogs of one call.
#[derive(Deserialize)]
pub(super) struct Dialogs {
    dialogs: Vec<Dialog>,
}

impl fmt::Display for Dialogs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, dialog) in self.dialogs.iter().enumerate() {
            if number > 0 {
                writeln!(formatter)?;
            }
            dialog.facts().fmt(formatter)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Dialog {
    #[serde(flatten)]
    summary: Summary,
    from_tag: Option<String>,
    to_tag: Option<String>,
    request_uri: String,
    identity: Option<String>,
    attempts: u64,
    status: Option<u16>,
    acknowledged: bool,
    started: String,
    ringing: Option<String>,
    answered: Option<String>,
    expires: Option<String>,
    caller: Party,
    callee: Option<Party>,
    worker: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Party {
    address: String,
    transport: String,
    flow_only: bool,
    target: Option<String>,
    route: Option<String>,
    last_cseq: Option<u32>,
}

impl Dialog {
    fn facts(&self) -> Table {
        let summary = &self.summary;
        let mut facts = Table::default();
        facts.row([&"id", &summary.id]);
        facts.row([&"Call-ID", &summary.call_id]);
        let is_pending = self.answered.is_some() && !self.acknowledged;
        let pending = if is_pending { ", without ACK" } else { "" };
        facts.row([&"state", &format!("{}{pending}", summary.state)]);
        facts.row([&"age", &duration(summary.age)]);
        self.add_parties(&mut facts);
        self.add_times(&mut facts);
        add(&mut facts, "status", self.status.as_ref());
        facts.row([&"attempts", &self.attempts]);
        add_leg(&mut facts, "caller", &self.caller);
        if let Some(callee) = &self.callee {
            add_leg(&mut facts, "callee", callee);
        }
        facts.row([&"worker", &self.worker]);
        facts.row([&"bytes", &self.bytes]);
        facts
    }

    fn add_parties(&self, facts: &mut Table) {
        facts.row([&"from", &tagged(&self.summary.from, self.from_tag.as_ref())]);
        facts.row([&"to", &tagged(&self.summary.to, self.to_tag.as_ref())]);
        facts.row([&"Request-URI", &self.request_uri]);
        add(facts, "identity", self.identity.as_ref());
    }

    fn add_times(&self, facts: &mut Table) {
        facts.row([&"started", &self.started]);
        add(facts, "ringing", self.ringing.as_ref());
        add(facts, "answered", self.answered.as_ref());
        if let (Some(expires), Some(left)) = (&self.expires, self.summary.expires_in) {
            facts.row([&"expires", &format!("{expires}, in {}", duration(left))]);
        }
    }
}

/// A URI with its tag.
fn tagged(uri: &str, tag: Option<&String>) -> String {
    match tag {
        Some(tag) => format!("{uri}, tag {tag}"),
        None => uri.to_owned(),
    }
}

fn add_leg(facts: &mut Table, name: &str, party: &Party) {
    let only = if party.flow_only {
        ", over this flow only"
    } else {
        ""
    };
    let path = format!("{} {}{only}", party.transport, party.address);
    facts.row([&name, &path]);
    add(facts, &format!("{name} target"), party.target.as_ref());
    add(facts, &format!("{name} route"), party.route.as_ref());
    add(facts, &format!("{name} CSeq"), party.last_cseq.as_ref());
}

/// A row for a value that is known.
fn add(facts: &mut Table, name: &str, value: Option<&impl fmt::Display>) {
    if let Some(value) = value {
        facts.row([&name, value]);
    }
}

/// The result of `dialogs.end`.
#[derive(Deserialize)]
pub(super) struct Ended {
    dialogs: Vec<EndedDialog>,
}

#[derive(Deserialize)]
struct EndedDialog {
    id: String,
    state: String,
    to_caller: Option<String>,
    to_callee: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dialog in &self.dialogs {
            let verb = match dialog.state.as_str() {
                "early" => "cancelled",
                _ => "ended",
            };
            let sent = |sent: &Option<String>| match sent {
                Some(sent) => printable(sent),
                None => "nothing, because its next hop cannot be reached".to_owned(),
            };
            let (id, caller, callee) = (
                printable(&dialog.id),
                sent(&dialog.to_caller),
                sent(&dialog.to_callee),
            );
            writeln!(
                formatter,
                "{verb} {id}; sent to the caller: {caller}; to the callee: {callee}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed<T: serde::de::DeserializeOwned + fmt::Display>(value: serde_json::Value) -> String {
        let shown: T = serde_json::from_value(value).expect("the fields");
        shown.to_string()
    }

    #[test]
    fn a_party_that_gets_nothing_is_named() {
        let text = printed::<Ended>(json!({ "dialogs": [
            { "id": "1", "call_id": "c", "state": "confirmed", "to_caller": "BYE", "to_callee": null },
            { "id": "2", "call_id": "c", "state": "early", "to_caller": "487", "to_callee": "CANCEL" },
        ] }));
        assert_eq!(
            text,
            "ended 1; sent to the caller: BYE; to the callee: nothing, because its next hop cannot be reached\n\
             cancelled 2; sent to the caller: 487; to the callee: CANCEL\n"
        );
    }

    #[test]
    fn an_empty_list_says_so_and_whether_the_search_is_complete() {
        for (next, text) in [
            (json!(null), "no dialogs\n"),
            (
                json!("1-2048"),
                "no dialogs so far\nmore may follow; continue with --after 1-2048\n",
            ),
        ] {
            let list = json!({ "dialogs": [], "next": next });
            assert_eq!(printed::<Listed>(list), text);
        }
    }
}
