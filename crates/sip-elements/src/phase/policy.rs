//! Applies the operator's policy to requests outside dialogs: which routing rule decides, who may use it, where the request goes, and
//! whether a limit admits the call.
//!
//! What a rule decides is in its response, but never which rule it was.

use super::{Stop, destination};
use crate::identity::Identity;
use crate::metrics::Refused;
use crate::own_response::{Origin, Refusal};
use crate::proxy::{CallPolicy, GatewayRoute, Onward, Speaker};
use crate::routing::failure::Failure;
use crate::routing::{NextHop, Routing, Target};
use crate::{Settings, WorkerParts};
use sip_message::{Message, Method, Patch, Scheme, Uri, home_hash};
use sip_routing::Policy;
use sip_routing::gateway::{Group, TriedSet};
use sip_routing::limit::{Call, Excess, Limit, Permits, Refused as Excessive, Scope};
use sip_routing::rule::{Arrival, Authentication, Decision, Facts, Rule, RuleSet};
use sip_transport::selection::Destination;
use sip_transport::{Flow, Protocol};
use std::sync::Arc;

const NO_GATEWAY: Refusal = Refusal::Because(503, "No gateway is available");

/// The rule that decides about a request, and the policy that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruling<'p> {
    policy: &'p Arc<Policy>,
    /// `None`: no rule matches, and the request is served as if there were no rules.
    rule: Option<&'p Rule>,
}

impl<'p> Ruling<'p> {
    /// Finds the rule. A match counts when the request arrives, and not again when a parked request continues.
    pub(crate) fn of(
        parts: &WorkerParts<'p>,
        request: &Message<'_>,
        origin: &Origin,
        routing: &Routing,
    ) -> Self {
        let find = if origin.questions_asked == 0 {
            RuleSet::first
        } else {
            RuleSet::find
        };
        Self::found_by(find, parts, request, origin.from(), routing)
    }

    /// Finds the rule of a CANCEL or an ACK: that of its INVITE. The match does not count.
    pub(crate) fn of_follower(
        parts: &WorkerParts<'p>,
        request: &Message<'_>,
        source: Flow,
        routing: &Routing,
    ) -> Self {
        Self::found_by(RuleSet::find, parts, request, source, routing)
    }

    fn found_by(
        find: impl FnOnce(&'p RuleSet, &Facts<'_, '_>) -> Option<&'p Rule>,
        parts: &WorkerParts<'p>,
        request: &Message<'_>,
        source: Flow,
        routing: &Routing,
    ) -> Self {
        let policy = &parts.settings.policy;
        let mut rule = None;
        if !policy.rules.is_empty() {
            as_rules_see(request, routing, |request| {
                rule = find(&policy.rules, &facts(parts.settings, request, source));
            });
        }
        Self { policy, rule }
    }

    /// The rule of a request that this server sends on behalf of a subscriber. The match counts.
    pub(crate) fn first(policy: &'p Arc<Policy>, facts: &Facts<'_, '_>) -> Self {
        let rule = policy.rules.first(facts);
        Self { policy, rule }
    }

    /// Whether the rule answers the request instead of forwarding it.
    pub(crate) fn is_answered(&self) -> bool {
        let decision = self.rule.map(Rule::decision);
        matches!(decision, Some(Decision::Refuse(_) | Decision::Redirect(_)))
    }

    /// How the sender is authenticated; `None`: as without rules.
    pub(crate) fn authentication(&self) -> Option<Authentication> {
        self.rule?.authentication()
    }

    /// Whether the rule sends the request to a gateway or another server. Only subscribers and trusted peers may use it, unless the
    /// operator says that the sender is not authenticated.
    pub(crate) fn leads_out(&self) -> bool {
        self.rule.is_some_and(|rule| leads_out(rule.decision()))
    }

    /// Whether the rule forwards the request without a transaction.
    pub(crate) fn is_stateless(&self) -> bool {
        self.rule.is_some_and(|rule| rule.decision().is_stateless())
    }

    /// Whether the sender is trusted by its address. It is known without a transaction, and it is no stranger that could make others
    /// answer a forged address.
    pub(crate) fn trusts(&self, settings: &Settings, source: Flow) -> bool {
        match self.authentication() {
            Some(Authentication::Trust) => true,
            Some(Authentication::Digest | Authentication::Never) => false,
            None => settings.proxy.trusted_peers.contains(source.remote.ip()),
        }
    }

    /// Whether the rule says where the request goes, whatever the scheme of its Request-URI.
    pub(crate) fn leads_away(&self) -> bool {
        let decision = self.rule.map(Rule::decision);
        matches!(
            decision,
            Some(
                Decision::Group(_)
                    | Decision::Prefixes(_)
                    | Decision::Redirect(_)
                    | Decision::Balance(_)
            )
        )
    }

    fn limit(&self) -> Option<&'p Arc<Limit>> {
        let name = &self.rule?.limit()?.name;
        self.policy.limits.named(name)
    }
}

/// Calls `look` with the request as rules see it: with the Request-URI that it is forwarded to. If a strict router has moved that to the
/// end of the Route, or `maddr` names this server, a caller could otherwise evade rules.
pub(crate) fn as_rules_see(
    request: &Message<'_>,
    routing: &Routing,
    look: impl FnOnce(&Message<'_>),
) {
    let Some(uri) = routing.request_uri.as_deref() else {
        return look(request);
    };
    let mut rewritten = Vec::new();
    Patch::new(request).request_uri(uri).write(&mut rewritten);
    match Message::parse(&rewritten) {
        Ok(rewritten) => look(&rewritten),
        Err(_) => look(request),
    }
}

/// What rules know about a request.
pub(crate) fn facts<'f, 'm>(
    settings: &Settings,
    request: &'f Message<'m>,
    source: Flow,
) -> Facts<'f, 'm> {
    let listener = settings.listeners.get(usize::from(source.listener.0));
    Facts {
        request,
        arrival: Some(Arrival {
            source: source.remote.ip(),
            listener: source.listener,
            protocol: listener.map_or(Protocol::Udp, |listener| listener.protocol),
        }),
    }
}

/// Refuses a request if its rule says so.
pub(crate) fn refuse(parts: &WorkerParts<'_>, ruling: Ruling<'_>) -> Result<(), Refusal> {
    let Some(Decision::Refuse(refusal)) = ruling.rule.map(Rule::decision) else {
        return Ok(());
    };
    parts.metrics.refused(Refused::Rule);
    Err(Refusal::Rule {
        status: refusal.status,
        reason: refusal.reason.clone(),
        retry_after: refusal.retry_after,
    })
}

/// Refuses a REGISTER if its rule says so, or if there are more than the limit of the rule admits in a second.
pub(crate) fn admit_registration(
    parts: &WorkerParts<'_>,
    ruling: Ruling<'_>,
) -> Result<(), Refusal> {
    refuse(parts, ruling)?;
    charge(parts, ruling)
}

/// Refuses a request that holds no place in limits if there are more than the limit of its rule admits in a second.
pub(crate) fn charge(parts: &WorkerParts<'_>, ruling: Ruling<'_>) -> Result<(), Refusal> {
    let charged = ruling.limit().map_or(Ok(()), |it| it.charge(parts.now));
    charged.map_err(|_| {
        parts.metrics.refused(Refused::Limit);
        too_many(parts, Scope::Rule, Excess::Rate)
    })
}

/// Redirects a request if its rule says so (RFC 3261 section 8.3). A sender that has proven nothing gets only as many contacts as its
/// request has room for: the response could otherwise be much longer than a request with a forged source.
pub(crate) fn redirect(
    request: &Message<'_>,
    origin: &Origin,
    ruling: Ruling<'_>,
) -> Result<(), Refusal> {
    let Some(Decision::Redirect(uris)) = ruling.rule.map(Rule::decision) else {
        return Ok(());
    };
    let mut room = if origin.is_stranger() {
        request.bytes().len()
    } else {
        usize::MAX
    };
    let mut fits = |uri: &str| {
        let left = room.checked_sub(uri.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let fitting = uris.iter().take_while(|uri| fits(uri));
    Err(Refusal::Redirect(fitting.cloned().collect()))
}

/// Where a request goes: as its rule says, else as without rules. It leads somewhere.
pub(crate) fn find(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    routing: &Routing,
    identity: &Identity,
    ruling: Ruling<'_>,
) -> Result<Onward, Stop> {
    let Some(rule) = ruling.rule else {
        return destination::find(parts, request, routing, identity);
    };
    let edited = edited(request, routing, rule);
    if Uri::parse(&edited).is_none() {
        return Err(Refusal::Because(400, "Bad Request-URI").into());
    }
    if ruling.leads_out() {
        refuse_outsiders(parts, routing, identity, ruling)?;
        if is_malformed(received(request, routing)) || is_malformed(&edited) {
            return Err(Refusal::Status(404).into());
        }
    }
    let mut policy = CallPolicy {
        is_trusted: rule.authentication() == Some(Authentication::Trust),
        ..CallPolicy::default()
    };
    let ruled = || Some((Arc::clone(ruling.policy), rule.number()));
    if !rule.header_edits().is_empty() {
        policy.rule = ruled();
    }
    if rule.limit().is_some() {
        policy.limited_by = ruled();
    }
    let groups = match rule.decision() {
        Decision::Group(reference) => ruling.groups([&*reference.name]),
        Decision::Prefixes(reference) => {
            let uri = Uri::parse(&edited);
            let number = uri.and_then(|uri| uri.user).unwrap_or_default();
            let found = ruling.policy.prefixes.lookup(&reference.name, number);
            // RFC 3398 section 7.2.4.1: no route to the destination.
            let found = found.ok_or(Refusal::Status(404))?;
            ruling.groups(found.routes.groups())
        }
        Decision::Stateless(destination) => {
            return Ok(without_state(destination, &edited, policy));
        }
        Decision::Balance(reference) => {
            let group = ruling.policy.gateways.group(&reference.name);
            let call_hash = home_hash(request.call_id().unwrap_or_default());
            let gateway =
                group.and_then(|group| group.first(call_hash, TriedSet::default(), parts.now));
            let (_, gateway) = gateway.ok_or(NO_GATEWAY)?;
            return Ok(without_state(gateway.destination(), &edited, policy));
        }
        Decision::Local | Decision::Refuse(_) | Decision::Redirect(_) => {
            let routing = Routing {
                request_uri: Some(edited),
                ..routing.clone()
            };
            let onward = destination::find(parts, request, &routing, identity)?;
            return Ok(onward.under(policy));
        }
    };
    if groups.is_empty() {
        return Err(NO_GATEWAY.into());
    }
    if groups.iter().any(|group| group.sends_identity()) {
        policy.speaker = speaker(identity);
    }
    let call_id = request.call_id().unwrap_or_default();
    let uri = match identity {
        Identity::Peer => edited,
        _ => without_routing_parameters(&edited),
    };
    policy.route = Some(GatewayRoute::new(groups, call_id, uri));
    Ok(Onward::new(Vec::new(), policy))
}

/// The server that a request is forwarded to without a transaction.
fn without_state(destination: &Destination, uri: &[u8], policy: CallPolicy) -> Onward {
    let target = Target {
        next_hop: Some(NextHop::Server(destination.clone())),
        ..destination::straight(uri)
    };
    let policy = CallPolicy {
        is_stateless: true,
        ..policy
    };
    Onward::new(vec![target], policy)
}

/// Parameters of a URI that everyone may send to a gateway.
const HARMLESS: [&[u8]; 3] = [b"user", b"isub", b"ext"];

/// The URI without the parameters that carriers may route by: `rn` (RFC 4694), `tgrp` (RFC 4904), `cause` (RFC 4458). Rules and prefixes do
/// not see them, so only trusted peers may send them. The context of a telephone number stays (RFC 3966 section 5.1.5).
fn without_routing_parameters(uri: &[u8]) -> Box<[u8]> {
    let is_context = |name: &[u8]| name.eq_ignore_ascii_case(b"phone-context");
    let is_harmless = |name: &[u8]| HARMLESS.iter().any(|it| name.eq_ignore_ascii_case(it));
    let Some(parsed) = Uri::parse(uri) else {
        return uri.into();
    };
    let scheme: &[u8] = match parsed.scheme {
        Scheme::Sip => b"sip:",
        Scheme::Sips => b"sips:",
        Scheme::Tel => b"tel:",
        Scheme::Other(_) => return uri.into(),
    };
    let is_tel = parsed.scheme == Scheme::Tel;
    let mut plain = scheme.to_vec();
    if let Some(user) = parsed.user {
        let mut parts = user.split(|octet| *octet == b';');
        plain.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            let name = part.split(|octet| *octet == b'=').next();
            if name.is_some_and(is_context) {
                plain.push(b';');
                plain.extend_from_slice(part);
            }
        }
        if !is_tel {
            plain.push(b'@');
        }
    }
    plain.extend_from_slice(parsed.host_bytes);
    if let Some(port) = parsed.port {
        plain.extend_from_slice(format!(":{port}").as_bytes());
    }
    for (name, value) in parsed.params.iter() {
        if is_harmless(name) || (is_tel && is_context(name)) {
            plain.push(b';');
            plain.extend_from_slice(name);
            for part in value.map(|value| [&b"="[..], value]).into_iter().flatten() {
                plain.extend_from_slice(part);
            }
        }
    }
    plain.into()
}

fn speaker(identity: &Identity) -> Speaker {
    match identity {
        Identity::Subscriber(address) => Speaker::Subscriber(address.clone()),
        Identity::Peer => Speaker::Peer,
        Identity::Unproven | Identity::Stranger => Speaker::Unknown,
    }
}

impl Ruling<'_> {
    fn groups<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<Arc<Group>> {
        let gateways = &self.policy.gateways;
        let groups = names.into_iter().filter_map(|name| gateways.group(name));
        groups.cloned().collect()
    }
}

/// The Request-URI that rules see.
fn received<'r>(request: &'r Message<'_>, routing: &'r Routing) -> &'r [u8] {
    let uri = routing.request_uri.as_deref();
    uri.unwrap_or_else(|| request.request_uri())
}

/// The Request-URI with the changed number of the rule.
pub(crate) fn edited(request: &Message<'_>, routing: &Routing, rule: &Rule) -> Box<[u8]> {
    let uri = received(request, routing);
    let mut edited = Vec::new();
    match (rule.number_edit(), Uri::parse(uri)) {
        (Some(edit), Some(parsed)) if edit.write(&parsed, &mut edited) => edited.into(),
        _ => uri.into(),
    }
}

/// Rejects a request that its rule sends to a gateway, unless it comes from a subscriber or a trusted peer: others would call at the
/// expense of the operator. A rule may say that its senders are not authenticated. A Route to another server would make the gateway
/// forward the request in our name.
fn refuse_outsiders(
    parts: &WorkerParts<'_>,
    routing: &Routing,
    identity: &Identity,
    ruling: Ruling<'_>,
) -> Result<(), Refusal> {
    let is_known = matches!(identity, Identity::Subscriber(_) | Identity::Peer);
    if !is_known && ruling.authentication() != Some(Authentication::Never) {
        return Err(destination::no_relay(parts));
    }
    if routing.next_route.is_some() {
        return Err(destination::foreign_route(parts));
    }
    Ok(())
}

/// Whether an INVITE outside our dialogs has a To tag, and places are counted. As a new call it would have no dialog that holds its places,
/// so its sender could exceed every maximum.
pub(crate) fn claims_dialog(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    onward: &Onward,
) -> bool {
    let is_counted = !parts.settings.policy.limits.is_unlimited() || onward.may_reach_gateways();
    is_counted
        && request.method() == Method::Invite
        && parts.settings.proxy.record_route
        && request.to().is_some_and(|to| to.tag().is_some())
}

/// Whether a decision sends the request to a gateway or another server.
pub(crate) const fn leads_out(decision: &Decision) -> bool {
    matches!(
        decision,
        Decision::Group(_) | Decision::Prefixes(_) | Decision::Stateless(_) | Decision::Balance(_)
    )
}

/// Whether the user of a URI begins like an international number but is none. Prefixes and formats do not know it, and a gateway may take
/// it for a number that rules have not seen, so no rule sends it to one.
pub(crate) fn is_malformed(uri: &[u8]) -> bool {
    let user = Uri::parse(uri).and_then(|uri| uri.user);
    user.is_some_and(sip_routing::is_malformed)
}

/// Admits a new call to the limits. `None` if there are no limits, if the request is no call, or if its rule says that it passes all.
pub(crate) fn admit(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
    identity: &Identity,
    ruling: Ruling<'_>,
) -> Result<Option<Permits>, Refusal> {
    let limits = &ruling.policy.limits;
    let is_exempt = ruling.rule.is_some_and(Rule::is_exempt);
    if request.method() != Method::Invite || limits.is_unlimited() || is_exempt {
        return Ok(None);
    }
    let call = Call {
        source: source.remote.ip(),
        subscriber: match identity {
            Identity::Subscriber(address) => Some(address),
            _ => None,
        },
        rule: ruling.limit().map(AsRef::as_ref),
    };
    let admitted = limits.admit(&call, parts.now);
    admitted
        .map(Some)
        .map_err(|Excessive { scope, excess, .. }| {
            parts.metrics.refused(Refused::Limit);
            too_many(parts, scope, excess)
        })
}

/// Admits a call that this subscriber diverts to its own limit and to that of the rule. The call itself has passed the other limits.
/// `None` if there are no limits.
pub(crate) fn admit_diverted(
    parts: &WorkerParts<'_>,
    subscriber: &[u8],
    ruling: Ruling<'_>,
) -> Result<Option<Permits>, Failure> {
    let limits = &ruling.policy.limits;
    if limits.is_unlimited() || ruling.rule.is_some_and(Rule::is_exempt) {
        return Ok(None);
    }
    let rule = ruling.limit().map(AsRef::as_ref);
    let admitted = limits.admit_diverted(subscriber, rule, parts.now);
    admitted.map(Some).map_err(|_| {
        parts.metrics.refused(Refused::Limit);
        Failure::NotDiverted
    })
}

/// The response to a call that a limit refuses.
///
/// - A limit that many senders share: 503 with `Retry-After`. A proxy or trunk upstream then tries another server (RFC 3261 section
///   21.5.4).
/// - The limit of one subscriber: 486 if it has too many calls, 480 with `Retry-After` if it begins too many in a second. After a 503, a
///   proxy upstream would not send the calls of others either.
fn too_many(parts: &WorkerParts<'_>, scope: Scope, excess: Excess) -> Refusal {
    const CALLS: &str = "Too many calls";
    const RATE: &str = "Too many new calls";
    let retry_after = match excess {
        Excess::Rate => 1,
        Excess::Calls => parts.settings.limits.retry_after,
    };
    let (status, reason) = match (scope, excess) {
        (Scope::Subscriber, Excess::Calls) => return Refusal::Because(486, CALLS),
        (Scope::Subscriber, Excess::Rate) => (480, RATE),
        (_, Excess::Rate) => (503, RATE),
        (_, Excess::Calls) => (503, CALLS),
    };
    Refusal::Rule {
        status,
        reason: Some(reason.into()),
        retry_after: Some(retry_after),
    }
}
