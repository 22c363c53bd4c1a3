//! How numbers and identities are written for a gateway, as text.
use crate::ctl::table::Table;
use serde::Deserialize;

/// What `gateways.get` says about numbers and identities.
#[derive(Deserialize)]
pub(super) struct Rewriting {
    trusted: bool,
    called: Called,
    caller: Caller,
}

#[derive(Deserialize)]
struct Called {
    format: String,
    strip: u8,
    prefix: String,
}

#[derive(Deserialize)]
struct Caller {
    identity: String,
    #[serde(rename = "caller")]
    source: String,
    number: Option<String>,
    format: String,
    domain: Option<String>,
}

impl Rewriting {
    /// Adds a row for each fact that is not as by default.
    pub(super) fn rows(&self, facts: &mut Table) {
        if self.trusted {
            facts.row([&"trusted", &"yes"]);
        }
        let Called {
            format,
            strip,
            prefix,
        } = &self.called;
        let mut called = changed(format);
        called.extend((*strip > 0).then(|| format!("strip {strip}")));
        called.extend((!prefix.is_empty()).then(|| format!("prefix {prefix}")));
        if !called.is_empty() {
            facts.row([&"called number", &called.join(", ")]);
        }
        let Caller {
            identity,
            source,
            number,
            format,
            domain,
        } = &self.caller;
        let mut who = changed(identity);
        who.extend((source == "trunk").then(|| "always the trunk".to_owned()));
        who.extend(changed(format));
        who.extend(number.as_ref().map(|number| format!("trunk {number}")));
        who.extend(domain.as_ref().map(|domain| format!("domain {domain}")));
        if !who.is_empty() {
            facts.row([&"identity", &who.join(", ")]);
        }
    }
}

fn changed(word: &str) -> Vec<String> {
    let changed = (word != "unchanged").then(|| word.to_owned());
    changed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_configured_is_shown() {
        let shown = |json| {
            let rewriting: Rewriting = serde_json::from_value(json).expect("the fields");
            let mut facts = Table::default();
            rewriting.rows(&mut facts);
            facts.to_string()
        };
        let plain = json!({
            "trusted": false,
            "called": { "format": "unchanged", "strip": 0, "prefix": "" },
            "caller": { "identity": "unchanged", "caller": "own", "number": null, "format": "unchanged", "domain": null },
        });
        assert_eq!(shown(plain), "");
        let full = json!({
            "trusted": true,
            "called": { "format": "national", "strip": 1, "prefix": "9911" },
            "caller": {
                "identity": "asserted", "caller": "trunk", "number": "+4930123400", "format": "e164", "domain": "trunk.example.net"
            },
        });
        let expected = "\
trusted        yes
called number  national, strip 1, prefix 9911
identity       asserted, always the trunk, e164, trunk +4930123400, domain trunk.example.net
";
        assert_eq!(shown(full), expected);
    }
}
