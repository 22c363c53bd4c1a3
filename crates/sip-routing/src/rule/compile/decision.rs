//! The decision of a rule, and what comes with it.

use super::super::action::{Action, Decision, Reference, Refusal};
use super::super::description::RefusalDescription;
use super::super::mistake::Problem;
use super::{Compiler, is_line};
use crate::limit::EXEMPT;
use sip_message::{Scheme, Uri};
use sip_transport::selection::Destination;

/// The maximum length of a reason phrase, in bytes.
const MAX_REASON: usize = 128;
/// The maximum number of contacts of a redirection.
const MAX_CONTACTS: usize = 16;

impl Compiler<'_> {
    /// `None` if there is no decision, or none that can be used.
    pub(super) fn action(&mut self) -> Option<Action> {
        let decision = self.decision();
        let limit = self.description.limit.as_deref();
        let limit = limit.and_then(|name| self.limit(name));
        let header_edits = self.header_edits();
        let number_edit = self.number_edit();
        let decision = decision?;
        self.check_edits_are_used(&decision);
        Some(Action {
            decision,
            authentication: self.description.authenticate,
            limit,
            header_edits,
            number_edit,
        })
    }

    fn limit(&mut self, name: &str) -> Option<Reference> {
        if name == EXEMPT {
            let (name, index) = (name.into(), self.known.limits.len());
            return Some(Reference { name, index });
        }
        self.reference("limit", name, self.known.limits)
    }

    fn decision(&mut self) -> Option<Decision> {
        let description = self.description;
        let keys = [
            ("refuse", description.refuse.is_some()),
            ("redirect", description.redirect.is_some()),
            ("group", description.group.is_some()),
            ("prefixes", description.prefixes.is_some()),
            ("local", description.local),
            ("stateless", description.stateless.is_some()),
            ("balance", description.balance.is_some()),
        ];
        let present = keys.iter().filter(|(_, is_present)| *is_present);
        let present: Vec<&'static str> = present.map(|(key, _)| *key).collect();
        match present[..] {
            [] => self.problem(Problem::NoDecision),
            [_] => {}
            _ => self.problem(Problem::SeveralDecisions(present)),
        }
        if let Some(refusal) = &description.refuse {
            return self.refusal(refusal).map(Decision::Refuse);
        }
        if description.redirect.is_some() {
            return self.redirection();
        }
        if let Some(name) = &description.group {
            let reference = self.reference("group", name, self.known.groups);
            return reference.map(Decision::Group);
        }
        if let Some(name) = &description.balance {
            let reference = self.reference("group", name, self.known.groups);
            return reference.map(Decision::Balance);
        }
        if let Some(name) = &description.prefixes {
            let reference = self.reference("prefixes", name, self.known.prefixes);
            return reference.map(Decision::Prefixes);
        }
        if let Some(uri) = &description.stateless {
            return self.stateless(uri);
        }
        description.local.then_some(Decision::Local)
    }

    fn refusal(&mut self, refusal: &RefusalDescription) -> Option<Refusal> {
        let status = refusal.status;
        if !(300..700).contains(&status) {
            self.problem(Problem::Status(status));
        }
        if let Some((field, hint)) = needed_field(status) {
            self.problem(Problem::StatusNeedsField {
                status,
                field,
                hint,
            });
        }
        let reason = refusal.reason.as_deref();
        if let Some(reason) = reason.filter(|reason| !is_line(reason, MAX_REASON)) {
            self.problem(Problem::Text {
                key: "refuse.reason",
                value: reason.to_owned(),
                most: MAX_REASON,
            });
            return None;
        }
        Some(Refusal {
            status,
            reason: reason.map(Into::into),
            retry_after: refusal.retry_after,
        })
    }

    fn redirection(&mut self) -> Option<Decision> {
        let uris = self.list("redirect", self.description.redirect.as_deref())?;
        if uris.len() > MAX_CONTACTS {
            self.problem(Problem::TooManyEntries {
                key: "redirect",
                count: uris.len(),
                most: MAX_CONTACTS,
            });
        }
        for uri in uris.iter().take(MAX_CONTACTS) {
            let scheme = Uri::parse(uri.as_bytes()).map(|uri| uri.scheme);
            if !matches!(scheme, Some(Scheme::Sip | Scheme::Sips | Scheme::Tel)) {
                self.problem(Problem::Uri {
                    key: "redirect",
                    uri: uri.clone(),
                    allowed: "sip, sips or tel",
                });
            }
        }
        Some(Decision::Redirect(
            uris.iter().map(|uri| uri.as_str().into()).collect(),
        ))
    }

    fn stateless(&mut self, uri: &str) -> Option<Decision> {
        let parsed = Uri::parse(uri.as_bytes());
        let destination = parsed.and_then(|uri| Destination::of_uri(&uri));
        let destination = destination.ok_or_else(|| Problem::Uri {
            key: "stateless",
            uri: uri.to_owned(),
            allowed: "sip or sips",
        });
        self.checked(destination).map(Decision::Stateless)
    }

    fn reference(&mut self, key: &'static str, name: &str, known: &[&str]) -> Option<Reference> {
        let index = known.iter().position(|known| *known == name);
        let reference = index.map(|index| Reference {
            name: name.into(),
            index,
        });
        self.checked(reference.ok_or_else(|| Problem::Unknown {
            key,
            name: name.to_owned(),
            known: known.iter().map(|name| (*name).to_owned()).collect(),
        }))
    }
}

/// The header field that a response with this status must have and a rule cannot give, and what to do instead.
const fn needed_field(status: u16) -> Option<(&'static str, &'static str)> {
    match status {
        401 => Some(("WWW-Authenticate", "use authenticate = \"digest\"")),
        407 => Some(("Proxy-Authenticate", "use authenticate = \"digest\"")),
        420 => Some(("Unsupported", "use another status, such as 403")),
        421 => Some(("Require", "use another status, such as 403")),
        422 => Some(("Min-SE", "use another status, such as 403")),
        423 => Some(("Min-Expires", "use another status, such as 403")),
        _ => None,
    }
}
