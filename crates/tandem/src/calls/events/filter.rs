//! Which events a reader wants: the query of `GET /events`.
use crate::calls::line::kind;
use crate::config::nearest;
use sip_dialog::{CallEvent, CallRecord};
use sip_message::Uri;

/// The kinds of events.
const TYPES: [&str; 4] = ["started", "ringing", "answered", "ended"];
/// The names of filters.
const NAMES: [&str; 4] = ["types", "user", "domain", "call_id"];

/// Which events a reader wants. All conditions must hold; without any, it wants all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The kinds of events; empty: all.
    types: Vec<&'static str>,
    /// The user part of a party.
    user: Option<String>,
    /// The host of the same party.
    domain: Option<String>,
    call_id: Option<String>,
}

impl Filter {
    /// Reads the names and values of a query.
    ///
    /// # Errors
    /// What is wrong with the first invalid one, and what is allowed.
    pub fn parse(query: &[(String, String)]) -> Result<Self, String> {
        let mut filter = Self::default();
        for (index, (name, value)) in query.iter().enumerate() {
            if query.iter().take(index).any(|(earlier, _)| earlier == name) {
                return Err(format!("the filter `{name}` is given twice"));
            }
            if value.is_empty() {
                return Err(format!("the filter `{name}` is empty: omit it"));
            }
            match name.as_str() {
                "types" => filter.types = types(value)?,
                "user" => filter.user = Some(value.clone()),
                "domain" => filter.domain = Some(value.clone()),
                "call_id" => filter.call_id = Some(value.clone()),
                _ => return Err(unknown("filter", name, &NAMES)),
            }
        }
        Ok(filter)
    }

    /// Whether the reader wants this event.
    pub(super) fn admits(&self, event: &CallEvent) -> bool {
        let call = &*event.call;
        (self.types.is_empty() || self.types.contains(&kind(event.change)))
            && self
                .call_id
                .as_ref()
                .is_none_or(|wanted| *wanted.as_bytes() == *call.call_id)
            && self.admits_parties(call)
    }

    /// Whether one of the parties has the wanted user and domain.
    fn admits_parties(&self, call: &CallRecord) -> bool {
        if self.user.is_none() && self.domain.is_none() {
            return true;
        }
        let uris = [&call.from, &call.to, &call.request_uri];
        let uris = uris.into_iter().filter_map(|uri| Uri::parse(uri));
        let mut parties = uris.map(|uri| (uri.user.unwrap_or_default(), uri.host_bytes));
        parties.any(|(user, host)| self.admits_party(user, host))
            || identity(call).is_some_and(|(user, host)| self.admits_party(user, host))
    }

    fn admits_party(&self, user: &[u8], host: &[u8]) -> bool {
        self.user
            .as_ref()
            .is_none_or(|wanted| wanted.as_bytes() == user)
            && self
                .domain
                .as_ref()
                .is_none_or(|wanted| wanted.as_bytes().eq_ignore_ascii_case(host))
    }
}

/// User and domain of the subscriber that authenticated.
fn identity(call: &CallRecord) -> Option<(&[u8], &[u8])> {
    let at = call.identity.iter().rposition(|byte| *byte == b'@')?;
    let (user, domain) = call.identity.split_at(at);
    Some((user, domain.get(1..)?))
}

fn types(list: &str) -> Result<Vec<&'static str>, String> {
    let known = |word: &str| {
        let mut types = TYPES.into_iter();
        let found = types.find(|known| *known == word);
        found.ok_or_else(|| unknown("type of event", word, &TYPES))
    };
    list.split(',').map(|word| known(word.trim())).collect()
}

fn unknown(what: &str, word: &str, known: &[&'static str]) -> String {
    let hint = match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let known = known.join(", ");
    let shown: String = word.chars().take(32).collect();
    format!(
        "there is no {what} `{}`; {hint}allowed are {known}",
        shown.escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample::event;
    use sip_dialog::{Change, Ended};

    fn parse(query: &[(&str, &str)]) -> Result<Filter, String> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let query: Vec<_> = query.iter().map(pair).collect();
        Filter::parse(&query)
    }

    #[test]
    fn all_conditions_must_hold_and_user_and_domain_for_one_party() {
        let answered = event(Change::Answered, 42);
        let rows: &[(&[(&str, &str)], bool)] = &[
            (&[], true),
            (&[("types", "answered")], true),
            (&[("types", "started, answered")], true),
            (&[("types", "started,ended")], false),
            (&[("user", "alice")], true),
            (&[("user", "bob")], true),
            (&[("user", "ALICE")], false),
            (&[("user", "carol")], false),
            (&[("domain", "Example.ORG")], true),
            (&[("domain", "example.net")], false),
            (&[("user", "alice"), ("domain", "example.org")], true),
            (&[("user", "alice"), ("domain", "example.net")], false),
            (&[("call_id", "call-42@192.0.2.7")], true),
            (&[("call_id", "call-4")], false),
            (&[("user", "alice"), ("types", "ended")], false),
        ];
        for (query, admitted) in rows {
            let filter = parse(query).expect("valid");
            assert_eq!(filter.admits(&answered), *admitted, "{query:?}");
        }
    }

    #[test]
    fn the_authenticated_subscriber_is_a_party() {
        let mut call = crate::calls::sample::call(1);
        call.from = b"sip:anonymous@anonymous.invalid"[..].into();
        call.request_uri = b"tel:+491234"[..].into();
        let event = CallEvent {
            change: Change::Ended(Ended::ByCaller),
            call: Box::new(call),
        };
        let query = [("user", "alice"), ("domain", "example.org")];
        assert!(parse(&query).expect("valid").admits(&event));
        let query = [("user", "alice"), ("domain", "anonymous.invalid")];
        assert!(!parse(&query).expect("valid").admits(&event));
    }

    #[test]
    fn a_wrong_filter_is_refused_with_what_is_allowed() {
        for (query, expected) in [
            (&[("type", "ended")][..], "did you mean `types`?"),
            (
                &[("colour", "red")],
                "allowed are types, user, domain, call_id",
            ),
            (&[("types", "endet")], "did you mean `ended`?"),
            (
                &[("types", "ended,")],
                "allowed are started, ringing, answered, ended",
            ),
            (&[("user", "")], "`user` is empty"),
            (&[("user", "a"), ("user", "b")], "`user` is given twice"),
            (&[("\u{1b}[2J", "x")], "no filter `\\u{1b}[2J`"),
        ] {
            let problem = parse(query).expect_err("invalid");
            assert!(problem.contains(expected), "{query:?}: {problem}");
        }
    }
}
