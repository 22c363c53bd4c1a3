//! What would happen to a request outside dialogs, and why, for operators. Nothing is sent, counted or taken, and any thread may ask.

use crate::View;
use crate::domains::address_of_record;
use crate::phase::policy;
use crate::proxy::request_uri_at;
use crate::routing::{Routing, route};
use crate::services::CallForwarding;
use sip_message::{Message, Method, Uri};
use sip_routing::Policy;
use sip_routing::gateway::{self, Algorithm, Group, State, Verdict};
use sip_routing::prefix::RouteList;
use sip_routing::rule::{Authentication, Decision, Rule, Step};
use sip_transport::selection::Destination;
use sip_transport::{Flow, Time};
use std::sync::Arc;

/// What would happen to a request, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Why each rule does not match, up to the first one that does.
    pub steps: Vec<Step>,
    /// The rule that decides; `None`: the request is served as if there were no rules.
    pub rule: Option<Box<str>>,
    /// How the rule authenticates the sender; `None`: as without rules.
    pub authentication: Option<Authentication>,
    /// The Request-URI with the changed number of the rule, before the host of a gateway replaces its host.
    pub request_uri: Box<[u8]>,
    /// The named limits that a call passes: of its network and of its rule.
    pub limits: Vec<Box<str>>,
    /// Where the request goes.
    pub way: Way,
    /// The subscriber that it is for, if it goes the ordinary way.
    pub callee: Option<ExplainedCallee>,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Along the route set of the dialog that it proves to belong to. No rule applies.
    Dialog,
    /// Nowhere: it is refused.
    Refused {
        /// The status code.
        status: u16,
        /// The reason phrase; `None`: that of the RFC.
        reason: Option<Box<str>>,
    },
    /// Nowhere: the sender is redirected to these URIs.
    Redirected(Box<[Box<str>]>),
    /// To a gateway of these groups, in their order. Without groups, no prefix matches, and the request is refused with 404.
    Gateways {
        /// How the groups were found; `None`: the rule names the group.
        prefixes: Option<Prefixes>,
        /// The groups.
        groups: Vec<ExplainedGroup>,
    },
    /// To another server.
    Server(Destination),
    /// The ordinary way: registrar, location, next hop.
    Ordinary,
}

/// The subscriber that a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedCallee {
    /// Its address of record (`user@domain`). Whether there is such a subscriber is not known here.
    pub address: Box<[u8]>,
    /// The Request-URI names an alias of it.
    pub is_by_alias: bool,
    /// The number of its registered contacts.
    pub contacts: usize,
    /// Where calls to it go instead.
    pub forwarding: Option<Arc<CallForwarding>>,
}

/// The prefixes of a called number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// The table that decides, if any.
    pub table: Option<Box<str>>,
    /// The digits that are compared. Empty if it is no number.
    pub digits: String,
    /// The prefixes that match and their groups, the longest first. That one decides.
    pub candidates: Vec<(String, Vec<Box<str>>)>,
}

/// A group of gateways, and what the call meets there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedGroup {
    /// Its name.
    pub name: Box<str>,
    /// How the call chooses among members of one priority.
    pub algorithm: Algorithm,
    /// The members that the call would try, in this order, and then the others. Those with [`Verdict::LastResort`] follow those of all
    /// groups with [`Verdict::Try`].
    pub members: Vec<ExplainedMember>,
}

/// A member of a group, as a call meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedMember {
    /// The name of the gateway.
    pub gateway: Box<str>,
    /// Its state.
    pub state: State,
    /// Whether the call would try it.
    pub verdict: Verdict,
    /// The Request-URI that it would get.
    pub request_uri: Box<[u8]>,
}

/// Why a request cannot be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotExplained {
    /// The bytes are no SIP message.
    NotSip,
    /// They are a response, an ACK or a CANCEL, which follow their request.
    NoRequest,
}

/// Explains what would happen to a request that arrived on this flow.
pub fn explain(view: View<'_>, source: Flow, bytes: &[u8]) -> Result<Explanation, NotExplained> {
    let request = Message::parse(bytes).map_err(|_| NotExplained::NotSip)?;
    if !request.is_request() || matches!(request.method(), Method::Ack | Method::Cancel) {
        return Err(NotExplained::NoRequest);
    }
    let routing = route::preprocess(&request, view, |_, _| false);
    let written = routing.request_uri.as_deref();
    let mut explanation = Explanation {
        steps: Vec::new(),
        rule: None,
        authentication: None,
        request_uri: written.unwrap_or_else(|| request.request_uri()).into(),
        limits: Vec::new(),
        way: Way::Dialog,
        callee: None,
    };
    if routing.in_our_dialog() {
        return Ok(explanation);
    }
    let rules = &view.settings.policy.rules;
    let is_malformed = policy::is_malformed(&explanation.request_uri);
    policy::as_rules_see(&request, &routing, |seen| {
        let facts = policy::facts(view.settings, seen, source);
        explanation.steps = rules.explain(&facts);
        let rule = rules.find(&facts);
        if let Some(rule) = rule {
            explanation.rule = Some(rule.name().into());
            explanation.authentication = rule.authentication();
            explanation.request_uri = policy::edited(&request, &routing, rule);
        }
        explanation.limits = limits(&view.settings.policy, rule, source);
        let call_id = request.call_id().unwrap_or_default();
        let called = (&*explanation.request_uri, call_id);
        let leads_out = rule.is_some_and(|rule| policy::leads_out(rule.decision()));
        let is_malformed = is_malformed || policy::is_malformed(called.0);
        explanation.way = if leads_out && is_malformed {
            Way::Refused {
                status: 404,
                reason: None,
            }
        } else {
            way(&view.settings.policy, rule, called, view.now)
        };
    });
    if explanation.way == Way::Ordinary {
        explanation.callee = callee(view, &routing, &explanation.request_uri);
    }
    Ok(explanation)
}

fn callee(view: View<'_>, routing: &Routing, uri: &[u8]) -> Option<ExplainedCallee> {
    let uri = Uri::parse(uri).filter(|_| routing.next_route.is_none())?;
    let domain = view.settings.domains.local_name(&uri)?;
    let written = address_of_record(&uri, domain)?;
    let services = &view.shared.services;
    let subscriber = services.aliases.find(&written);
    let is_by_alias = subscriber.is_some();
    let address = subscriber.unwrap_or(written);
    Some(ExplainedCallee {
        contacts: view.shared.locations.visit(&address, view.now, |_| {}),
        forwarding: services.forwardings.find(&address),
        is_by_alias,
        address,
    })
}

fn limits(policy: &Policy, rule: Option<&Rule>, source: Flow) -> Vec<Box<str>> {
    if rule.is_some_and(Rule::is_exempt) {
        return Vec::new();
    }
    let network = policy.limits.network(source.remote.ip());
    let network = network.map(|limit| limit.name().into());
    let of_rule = rule.and_then(Rule::limit).map(|limit| limit.name.clone());
    network.into_iter().chain(of_rule).collect()
}

fn way(policy: &Policy, rule: Option<&Rule>, called: (&[u8], &[u8]), now: Time) -> Way {
    let group = |name: &str| policy.gateways.group(name).map(|group| &**group);
    match rule.map(Rule::decision) {
        None | Some(Decision::Local) => Way::Ordinary,
        Some(Decision::Refuse(refusal)) => Way::Refused {
            status: refusal.status,
            reason: refusal.reason.clone(),
        },
        Some(Decision::Redirect(uris)) => Way::Redirected(uris.clone()),
        Some(Decision::Stateless(destination)) => Way::Server(destination.clone()),
        Some(Decision::Group(reference) | Decision::Balance(reference)) => Way::Gateways {
            prefixes: None,
            groups: explained(group(&reference.name).into_iter(), called, now),
        },
        Some(Decision::Prefixes(reference)) => {
            let number = Uri::parse(called.0)
                .and_then(|uri| uri.user)
                .unwrap_or_default();
            let found = policy.prefixes.explain(&reference.name, number);
            let names = found.candidates.first().map(|longest| longest.routes);
            let names = names.into_iter().flat_map(RouteList::groups);
            Way::Gateways {
                groups: explained(names.filter_map(group), called, now),
                prefixes: Some(Prefixes {
                    table: found.table.map(Into::into),
                    digits: found.digits,
                    candidates: found
                        .candidates
                        .into_iter()
                        .map(|it| (it.prefix, it.routes.groups().map(Into::into).collect()))
                        .collect(),
                }),
            }
        }
    }
}

fn explained<'g>(
    groups: impl Iterator<Item = &'g Group>,
    (uri, call_id): (&[u8], &[u8]),
    now: Time,
) -> Vec<ExplainedGroup> {
    let groups: Vec<&Group> = groups.collect();
    let empty = |group: &&Group| ExplainedGroup {
        name: group.name().into(),
        algorithm: group.algorithm(),
        members: Vec::new(),
    };
    let mut explained: Vec<ExplainedGroup> = groups.iter().map(empty).collect();
    let call_hash = sip_message::home_hash(call_id);
    gateway::explain(&groups, call_hash, now, |index, gateway, verdict| {
        if let Some(group) = explained.get_mut(index) {
            group.members.push(ExplainedMember {
                gateway: gateway.name().into(),
                state: gateway.state(now),
                verdict,
                request_uri: request_uri_at(uri, gateway),
            });
        }
    });
    explained
}
