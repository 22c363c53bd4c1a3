//! Determines the target set of a request: RFC 3261 section 16.5.

use super::{Need, ResumeAt, Stop, events};
use crate::auth::Cached;
use crate::domains::address_of_record;
use crate::identity::Identity;
use crate::location::Binding;
use crate::metrics::Refused;
use crate::own_response::Refusal;
use crate::proxy::{Callee, Onward};
use crate::routing::{Routing, Target};
use crate::{Foreign, Settings, Strangers, WorkerParts};
use sip_message::{HeaderName, Host, Message, Method, Scheme, Uri};
use sip_transport::{Flow, Protocol};

/// Finds the targets of a request. There is at least one, unless the callee forwards the call.
pub(crate) fn find(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    routing: &Routing,
    identity: &Identity,
) -> Result<Onward, Stop> {
    let uri = request_uri(request, routing).ok_or(Refusal::Because(400, "Bad Request-URI"))?;
    if routing.next_route.is_some() {
        refuse_foreign_route(parts, identity)?;
    }
    match parts.settings.domains.local_name(&uri) {
        // A remaining Route decides (section 16.5: "the request has a predetermined next hop").
        Some(domain) if routing.next_route.is_none() => {
            local(parts, request, &uri, domain, identity)
        }
        _ => Ok(foreign(parts, uri.bytes, identity)?.into()),
    }
}

/// Whether only subscribers and trusted peers may send a request to this destination.
pub(crate) fn is_for_subscribers(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    routing: &Routing,
) -> bool {
    let proxy = &parts.settings.proxy;
    let may_leave = match proxy.foreign {
        Foreign::Refuse => proxy.outbound.is_some(),
        Foreign::Subscribers => true,
        Foreign::Relay => false,
    };
    may_leave
        && routing.next_route.is_none()
        && request_uri(request, routing)
            .is_some_and(|uri| parts.settings.domains.local_name(&uri).is_none())
}

/// The Request-URI after route preprocessing.
fn request_uri<'u>(request: &'u Message<'_>, routing: &'u Routing) -> Option<Uri<'u>> {
    match routing.request_uri.as_deref() {
        Some(changed) => Uri::parse(changed),
        None => request.uri().copied(),
    }
}

/// Rejects a Route that does not name this server.
///
/// It would make the next server forward the request in our name, and a trunk that trusts our address would do so.
/// Trusted peers may send such a request, and so may everyone if `proxy.foreign` is `"relay"`.
fn refuse_foreign_route(parts: &WorkerParts<'_>, identity: &Identity) -> Result<(), Refusal> {
    if *identity == Identity::Peer || parts.settings.proxy.foreign == Foreign::Relay {
        return Ok(());
    }
    Err(foreign_route(parts))
}

/// The refusal of a request with a Route to another server.
pub(crate) fn foreign_route(parts: &WorkerParts<'_>) -> Refusal {
    parts.metrics.refused(Refused::Route);
    Refusal::Because(403, "Route leads to another server")
}

/// The refusal of a request whose sender may not leave our domains.
pub(crate) fn no_relay(parts: &WorkerParts<'_>) -> Refusal {
    parts.metrics.refused(Refused::Relay);
    Refusal::Because(403, "Relaying to other domains is not allowed")
}

/// The target inside a dialog that this server record-routed: the Request-URI itself, whatever its domain.
pub(crate) fn in_dialog(request: &Message<'_>, routing: &Routing) -> Target {
    let uri = routing
        .request_uri
        .as_deref()
        .unwrap_or_else(|| request.request_uri());
    Target {
        flow: routing.flow,
        ..straight(uri)
    }
}

/// A target that its URI or Route leads to.
pub(crate) fn straight(uri: &[u8]) -> Target {
    Target {
        uri: uri.into(),
        q: 1000,
        route: Box::default(),
        next_hop: None,
        listener: None,
        flow: None,
        is_owned: false,
        instance: 0,
    }
}

/// Finds the contacts of one of our subscribers. The status is 404 if there is no such subscriber, and 480 if it is not
/// registered. A stranger gets 480 in both cases.
fn local(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    uri: &Uri<'_>,
    domain: &str,
    identity: &Identity,
) -> Result<Onward, Stop> {
    let Some(written) = address_of_record(uri, domain) else {
        return Err(for_the_server_itself(request.method()).into());
    };
    if *identity == Identity::Stranger {
        refuse_strangers(parts, request.method())?;
    }
    events::refuse(parts, request)?;
    let services = &parts.shared.services;
    let address = services.aliases.find(&written).unwrap_or(written);
    let method = match request.method() {
        // They go where their INVITE went.
        Method::Cancel | Method::Ack => Method::Invite,
        method => method,
    };
    let callee = Callee::of(parts, &address, method);
    let targets = if callee.as_ref().is_some_and(Callee::forwards_always) {
        Vec::new()
    } else {
        contacts(parts, uri, &address)
    };
    let takes_call = callee.as_ref().is_some_and(Callee::takes_unregistered);
    if targets.is_empty() && !takes_call {
        return Err(unavailable(parts, &address, identity));
    }
    Ok(Onward::from(targets).to(callee))
}

/// The registered contacts of an address of record that a request to this URI may go to.
fn contacts(parts: &WorkerParts<'_>, uri: &Uri<'_>, address: &[u8]) -> Vec<Target> {
    let mut targets = Vec::new();
    let most = parts.settings.proxy.max_targets;
    parts.shared.locations.visit(address, parts.now, |binding| {
        let contact = Uri::parse(binding.contact);
        if targets.len() < most
            && !leads_back(parts, contact.as_ref())
            && is_as_secure(uri, contact.as_ref())
        {
            targets.extend(registered(parts, binding, contact.as_ref()));
        }
    });
    targets
}

/// How a request ends whose callee is not registered. The status is 404 if there is no such subscriber.
fn unavailable(parts: &WorkerParts<'_>, address: &[u8], identity: &Identity) -> Stop {
    if *identity == Identity::Stranger {
        // Do not reveal to strangers whether the subscriber exists, and do not ask the store.
        return Refusal::Status(480).into();
    }
    let at = address.iter().rposition(|byte| *byte == b'@');
    let (username, domain) = address.split_at(at.unwrap_or(address.len()));
    let domain = domain.get(1..).unwrap_or_default();
    match parts.shared.credentials.find(username, domain, parts.now) {
        Cached::Known(_) => Refusal::Status(480).into(),
        Cached::Unknown => Refusal::Status(404).into(),
        Cached::NotCached => {
            let need = Need::Credentials {
                username: username.into(),
                domain: domain.into(),
            };
            Stop::Ask(need, ResumeAt::Route(identity.clone()))
        }
    }
}

/// Rejects requests that other domains may not send to our subscribers. Their senders are not authenticated. So requests
/// that act on a phone (`NOTIFY` with `check-sync`, `REFER`) are not allowed by default.
fn refuse_strangers(parts: &WorkerParts<'_>, method: Method<'_>) -> Result<(), Refusal> {
    let proxy = &parts.settings.proxy;
    let (reason, phrase) = match proxy.strangers {
        Strangers::Refuse => (
            Refused::Stranger,
            "Requests from other domains are not accepted",
        ),
        Strangers::Accept if proxy.stranger_methods.contains(&method) => return Ok(()),
        Strangers::Accept => (
            Refused::StrangerMethod,
            "Method is not accepted from other domains",
        ),
    };
    parts.metrics.refused(reason);
    Err(Refusal::Because(403, phrase))
}

/// Rejects a NOTIFY from another domain inside a call, unless it reports the progress of a transfer (RFC 3515). Otherwise
/// a phone that only rings would accept `check-sync` from it. A subscription uses another dialog.
pub(crate) fn refuse_foreign_notify(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
    routing: &Routing,
) -> Result<(), Refusal> {
    let is_in_call = routing.dialog.is_some_and(|dialog| dialog.is_call);
    if request.method() != Method::Notify || !is_in_call {
        return Ok(());
    }
    let is_ours = |uri: &Uri<'_>| parts.settings.domains.claimed_name(uri).is_some();
    let trusted = &parts.settings.proxy.trusted_peers;
    if request.from_uri().is_some_and(is_ours)
        || trusted.contains(source.remote.ip())
        || is_about_transfer(request)
    {
        return Ok(());
    }
    parts.metrics.refused(Refused::StrangerMethod);
    Err(Refusal::Because(
        403,
        "Event is not accepted from other domains",
    ))
}

/// Whether every Event is `refer`.
fn is_about_transfer(request: &Message<'_>) -> bool {
    let mut events = request.values(HeaderName::Event).peekable();
    let is_refer = |value: &[u8]| {
        let package = value.split(|octet| *octet == b';').next();
        package.is_some_and(|package| package.trim_ascii().eq_ignore_ascii_case(b"refer"))
    };
    events.peek().is_some() && events.all(is_refer)
}

/// The refusal of a request that names the server but no user. The server is not a user agent for calls.
fn for_the_server_itself(method: Method<'_>) -> Refusal {
    match method {
        Method::Other(_) => Refusal::Status(501),
        Method::Bye | Method::Info | Method::Prack | Method::Update | Method::Notify => {
            Refusal::Status(481)
        }
        _ => Refusal::NotAllowed,
    }
}

/// Whether a contact names this server. Forwarding to it would bring the request back, to be forked again. Ten such
/// contacts turn one INVITE into millions (RFC 5393).
fn leads_back(parts: &WorkerParts<'_>, contact: Option<&Uri<'_>>) -> bool {
    contact.is_some_and(|uri| parts.settings.domains.is_us(uri))
}

/// Whether a contact may be used for an address of record: only sips contacts for a sips address (RFC 5630 section 5.3).
fn is_as_secure(address: &Uri<'_>, contact: Option<&Uri<'_>>) -> bool {
    address.scheme != Scheme::Sips || contact.is_some_and(|uri| uri.scheme == Scheme::Sips)
}

/// Turns a binding into a target.
///
/// A phone behind NAT registers a contact that is not the source of its REGISTER, so it is reached through the flow of
/// the REGISTER. If that was a connection that has ended, it cannot be reached: only the phone can open a new one (RFC
/// 5626 section 5.3).
fn registered(
    parts: &WorkerParts<'_>,
    binding: &Binding<'_>,
    contact: Option<&Uri<'_>>,
) -> Option<Target> {
    // A `tel:` or `mailto:` contact is only information about the subscriber. The server cannot send to it.
    if contact.is_some_and(|uri| !matches!(uri.scheme, Scheme::Sip | Scheme::Sips)) {
        return None;
    }
    let translated = is_translated(parts.settings, binding, contact);
    let protocol = protocol_of(parts.settings, binding);
    let target = Target {
        uri: binding.contact.into(),
        q: binding.q,
        route: binding.path.into(),
        next_hop: None,
        listener: None,
        flow: None,
        is_owned: false,
        instance: instance(parts, binding),
    };
    if !binding.path.is_empty() {
        return Some(target);
    }
    let flow = Flow {
        listener: binding.listener,
        connection: binding.connection,
        remote: binding.source,
    };
    match protocol {
        None => Some(target),
        Some(Protocol::Udp) if !translated => Some(Target {
            listener: Some(binding.listener),
            is_owned: is_at_source(binding, contact),
            ..target
        }),
        Some(protocol) if protocol == Protocol::Udp || binding.connection.is_some() => {
            Some(Target {
                flow: Some(flow),
                ..target
            })
        }
        Some(Protocol::Ws | Protocol::Wss) => None,
        Some(_) => (!translated).then_some(target),
    }
}

/// Whether the contact differs from the source of its REGISTER. Then the phone is behind NAT, or a browser, or the
/// contact belongs to another machine, which the subscriber has no right to direct calls to. A name may resolve to any
/// address, and `maddr` may be any address.
fn is_translated(settings: &Settings, binding: &Binding<'_>, contact: Option<&Uri<'_>>) -> bool {
    let follow = settings.registrar.follow_contact;
    contact.is_some_and(|uri| match uri.host {
        _ if uri.params.contains(b"maddr") => true,
        Host::Address(_) => !follow && !is_at_source(binding, contact),
        Host::Name(name) => !follow || name.to_ascii_lowercase().ends_with(b".invalid"),
    })
}

/// Whether the contact has the same address as the source of its REGISTER.
fn is_at_source(binding: &Binding<'_>, contact: Option<&Uri<'_>>) -> bool {
    let source = binding.source.ip().to_canonical();
    contact.is_some_and(|uri| {
        matches!(uri.host, Host::Address(ip) if ip.to_canonical() == source)
            && !uri.params.contains(b"maddr")
    })
}

fn protocol_of(settings: &Settings, binding: &Binding<'_>) -> Option<Protocol> {
    let listener = settings.listeners.get(usize::from(binding.listener.0));
    listener.map(|listener| listener.protocol)
}

/// Whether a phone is reachable at its contact after its connection has ended (RFC 3261 section 16.6 step 7). This
/// requires that it accepts connections, and has not asked to be reached over its flow.
pub(crate) fn outlives_connection(settings: &Settings, binding: &Binding<'_>) -> bool {
    let contact = Uri::parse(binding.contact);
    matches!(
        protocol_of(settings, binding),
        Some(Protocol::Tcp | Protocol::Tls)
    ) && !binding.names_flow()
        && !is_translated(settings, binding, contact.as_ref())
}

/// A number that identifies the phone of a binding, for [`Target::instance`].
fn instance(parts: &WorkerParts<'_>, binding: &Binding<'_>) -> u64 {
    match binding.instance_id() {
        [] => 0,
        id => parts.shared.hasher.hash(&[b"instance", id]).max(1),
    }
}

/// Finds the target for a domain that is not ours. The server is not an open relay: requests of subscribers and trusted
/// peers leave through the configured next hop, or directly if the operator allows it. Only `"relay"` forwards requests
/// of strangers.
fn foreign(parts: &WorkerParts<'_>, uri: &[u8], identity: &Identity) -> Result<Vec<Target>, Stop> {
    let proxy = &parts.settings.proxy;
    let is_known = matches!(identity, Identity::Subscriber(_) | Identity::Peer);
    let may_leave = match proxy.foreign {
        Foreign::Refuse => is_known && proxy.outbound.is_some(),
        Foreign::Subscribers => is_known,
        Foreign::Relay => true,
    };
    if !may_leave {
        return Err(no_relay(parts).into());
    }
    let next_hop = proxy.outbound.clone();
    Ok(vec![Target {
        next_hop,
        ..straight(uri)
    }])
}
