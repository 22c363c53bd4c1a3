//! Where does the request go? RFC 3261 section 16.5: the target set.

use super::identity::{Identity, address_of_record};
use super::{Need, Stop};
use crate::answer::Refusal;
use crate::auth::Cached;
use crate::location::Binding;
use crate::proxy::{Routing, Target};
use crate::{Foreign, Round};
use sip_message::{Host, Message, Method, Uri};
use sip_transport::{Flow, Protocol};

/// The targets of a request, never empty.
pub(crate) fn find(
    round: &Round<'_>,
    request: &Message<'_>,
    routing: &Routing,
    identity: &Identity,
) -> Result<Vec<Target>, Stop> {
    let uri = match routing.request_uri.as_deref() {
        Some(changed) => Uri::parse(changed),
        None => request.uri().copied(),
    };
    let uri = uri.ok_or(Refusal::Because(400, "Bad Request-URI"))?;
    match round.settings.domains.local_name(&uri) {
        // A Route that is still there decides (section 16.5: "the request has a predetermined next hop").
        Some(domain) if routing.next_route.is_none() => local(round, request, &uri, domain),
        _ => foreign(round, uri.bytes, identity),
    }
}

/// In a dialog that we record-routed the remote target is the Request-URI itself, whatever its domain.
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

fn straight(uri: &[u8]) -> Target {
    Target {
        uri: uri.into(),
        q: 1000,
        route: Box::default(),
        next_hop: None,
        listener: None,
        flow: None,
    }
}

/// The contacts of one of our subscribers: 404 when there is no such subscriber, 480 when he is not registered.
fn local(
    round: &Round<'_>,
    request: &Message<'_>,
    uri: &Uri<'_>,
    domain: &str,
) -> Result<Vec<Target>, Stop> {
    let Some(address) = address_of_record(uri, domain) else {
        return Err(for_the_server_itself(request.method()).into());
    };
    let mut targets = Vec::new();
    let most = round.settings.proxy.max_targets;
    round
        .shared
        .locations
        .visit(&address, round.now, |binding| {
            let contact = Uri::parse(binding.contact);
            if targets.len() < most && !leads_back(round, contact.as_ref()) {
                targets.extend(registered(round, binding, contact.as_ref()));
            }
        });
    if !targets.is_empty() {
        return Ok(targets);
    }
    let username = address
        .get(..address.len().saturating_sub(domain.len() + 1))
        .unwrap_or_default();
    match round
        .shared
        .credentials
        .find(username, domain.as_bytes(), round.now)
    {
        Cached::Known(_) => Err(Refusal::Status(480).into()),
        Cached::Unknown => Err(Refusal::Status(404).into()),
        Cached::NotCached => Err(Stop::Ask(Need::Credentials {
            username: username.into(),
            domain: domain.as_bytes().into(),
        })),
    }
}

/// A request that names the server but no user: we are no user agent for calls.
fn for_the_server_itself(method: Method<'_>) -> Refusal {
    match method {
        Method::Other(_) => Refusal::Status(501),
        Method::Bye | Method::Info | Method::Prack | Method::Update | Method::Notify => {
            Refusal::Status(481)
        }
        _ => Refusal::NotAllowed,
    }
}

/// Whether a contact names us. Forwarding to it would only bring the request back, to be forked again: with ten such contacts one
/// INVITE becomes millions (RFC 5393).
fn leads_back(round: &Round<'_>, contact: Option<&Uri<'_>>) -> bool {
    contact.is_some_and(|uri| round.settings.domains.is_us(uri))
}

/// A binding as a target. A phone behind a translator registers a contact that is not where its REGISTER came from: it is
/// reached through the flow of the REGISTER, and where that was a connection that is known no more, not at all (RFC 5626
/// section 5.3: nobody opens a connection to it).
fn registered(
    round: &Round<'_>,
    binding: &Binding<'_>,
    contact: Option<&Uri<'_>>,
) -> Option<Target> {
    let translated = contact.is_some_and(|uri| match uri.host {
        Host::Address(ip) => ip != binding.source.ip().to_canonical(),
        Host::Name(name) => name.to_ascii_lowercase().ends_with(b".invalid"),
    });
    let protocol = round
        .settings
        .listeners
        .get(usize::from(binding.listener.0))
        .map(|listener| listener.protocol);
    let target = Target {
        uri: binding.contact.into(),
        q: binding.q,
        route: binding.path.into(),
        next_hop: None,
        listener: None,
        flow: None,
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

/// For a domain that is not ours: no open relay. A subscriber's calls leave through the configured next hop, and no Route of
/// his leads past it; relaying for everybody is the operator's explicit choice.
fn foreign(round: &Round<'_>, uri: &[u8], identity: &Identity) -> Result<Vec<Target>, Stop> {
    let proxy = &round.settings.proxy;
    let subscriber = matches!(identity, Identity::Subscriber(_));
    if proxy.foreign == Foreign::Refuse && !(subscriber && proxy.outbound.is_some()) {
        return Err(Refusal::Because(403, "Relaying to other domains is not allowed").into());
    }
    let next_hop = proxy.outbound.clone();
    Ok(vec![Target {
        next_hop,
        ..straight(uri)
    }])
}
