//! Determines who a request speaks for.
//!
//! A local subscriber must prove its identity by digest (401, 407) and may not use another name (403). A trusted peer is
//! believed. Other senders cannot prove anything.

use super::policy::Ruling;
use super::{Need, ResumeAt, Stop, destination, edge};
use crate::auth::{self, Challenger, Subject, Verdict};
use crate::domains::address_of_record;
use crate::identity::Identity;
use crate::metrics::Refused;
use crate::own_response::Refusal;
use crate::routing::Routing;
use crate::{Record, Settings, WorkerParts};
use sip_message::{HeaderName, Message, Method, Scheme, Uri};
use sip_routing::rule::Authentication;
use sip_transport::Flow;

/// Whether this is a REGISTER for one of our domains. A REGISTER for another domain is proxied like any other request
/// (section 10.3 step 1).
pub(crate) fn is_registration(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    request.is_request()
        && request.method() == Method::Register
        && request
            .uri()
            .is_some_and(|uri| parts.settings.domains.is_us(uri))
}

/// Authenticates a REGISTER for one of our domains and returns the address of record in To (section 10.2). Trusted peers
/// need credentials too: a peer may forward a REGISTER with the phone's credentials, but cannot bind anything on its own.
pub(crate) fn registrant(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
) -> Result<Box<[u8]>, Stop> {
    let malformed = || Refusal::Because(400, "Bad To: no SIP address of record");
    let uri = request
        .to_uri()
        .filter(|uri| is_sip(uri))
        .ok_or_else(malformed)?;
    // Section 10.3 step 5: the address of record is not valid for the domain in the Request-URI.
    let domains = &parts.settings.domains;
    let domain = domains.local_name(uri).ok_or(Refusal::Status(404))?;
    let is_asked = |asked: &Uri<'_>| {
        domains.is_own_address(asked) || domains.local_name(asked) == Some(domain)
    };
    if !request.uri().is_some_and(is_asked) {
        return Err(Refusal::Status(404).into());
    }
    let address = address_of_record(uri, domain).ok_or_else(malformed)?;
    if parts.settings.challenge.contains(request.method()) {
        let claim = Claim {
            challenger: Challenger::Registrar,
            address: &address,
            domain,
            source,
        };
        prove(parts, request, &claim)?;
    }
    refuse_third_party(parts, request, &address)?;
    refuse_foreign_path(parts, request, source)?;
    Ok(address)
}

/// Determines who any other request speaks for: the address in From. A request in the name of one of our domains is
/// challenged if its method is challenged, or if its destination is open to subscribers only. `routing` tells the
/// destination. The routing rule of the request may say otherwise.
pub(crate) fn authenticate(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
    routing: &Routing,
    ruling: Ruling<'_>,
) -> Result<Identity, Stop> {
    let settings = parts.settings;
    let needs_digest = match ruling.authentication() {
        Some(Authentication::Trust) => return Ok(Identity::Peer),
        Some(Authentication::Never) => return Ok(Identity::Stranger),
        Some(Authentication::Digest) => true,
        None if settings.proxy.trusted_peers.contains(source.remote.ip()) => {
            return Ok(Identity::Peer);
        }
        None => false,
    };
    let uri = request.from_uri().filter(|uri| is_sip(uri));
    let claimed = uri.and_then(|uri| Some((uri, settings.domains.claimed_name(uri)?)));
    let Some((uri, domain)) = claimed else {
        if needs_digest {
            parts.metrics.refused(Refused::Stranger);
            return Err(Refusal::Because(403, "From names no subscriber of this server").into());
        }
        return Ok(Identity::Stranger);
    };
    let Some(address) = address_of_record(uri, domain) else {
        parts.metrics.refused(Refused::Nameless);
        return Err(Refusal::Because(403, "From names no user of this domain").into());
    };
    if settings.challenge.is_empty() && !needs_digest {
        return Ok(Identity::Subscriber(address));
    }
    let challenged = needs_digest
        || ruling.leads_out()
        || settings.challenge.contains(request.method())
        || destination::is_for_subscribers(parts, request, routing);
    if !challenged {
        return Ok(Identity::Unproven);
    }
    let claim = Claim {
        challenger: Challenger::Proxy,
        address: &address,
        domain,
        source,
    };
    prove(parts, request, &claim)?;
    Ok(Identity::Subscriber(address))
}

fn is_sip(uri: &Uri<'_>) -> bool {
    matches!(uri.scheme, Scheme::Sip | Scheme::Sips)
}

/// The realm whose Proxy-Authorization in this request is meant for this server, because the request speaks for one of
/// our subscribers. An ACK repeats the credentials of its INVITE (section 13.2.2.4).
pub(crate) fn realm_of_ours<'s>(settings: &'s Settings, request: &Message<'_>) -> Option<&'s str> {
    let from = request.from_uri()?;
    let asks = || {
        let mut rules = settings.policy.rules.iter();
        !settings.challenge.is_empty()
            || rules.any(|rule| rule.authentication() == Some(Authentication::Digest))
    };
    let speaks = is_sip(from) && from.user.is_some() && asks();
    settings.domains.claimed_name(from).filter(|_| speaks)
}

/// Authenticates the sender in From if it is one of our subscribers. It may be another one than the subscriber that began
/// the dialog. Trusted peers may speak for our subscribers.
pub(crate) fn authenticate_sender(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
) -> Result<(), Stop> {
    let trusted = &parts.settings.proxy.trusted_peers;
    match local_sender(parts.settings, request) {
        Some((address, domain)) if !trusted.contains(source.remote.ip()) => {
            let claim = Claim {
                challenger: Challenger::Proxy,
                address: &address,
                domain,
                source,
            };
            prove(parts, request, &claim)
        }
        _ => Ok(()),
    }
}

/// The address and the domain of our subscriber that From names. `None` if it names none, or if digest is off.
pub(crate) fn local_sender<'s>(
    settings: &'s Settings,
    request: &Message<'_>,
) -> Option<(Box<[u8]>, &'s str)> {
    let from = request
        .from_uri()
        .filter(|from| is_sip(from) && !settings.challenge.is_empty())?;
    let domain = settings.domains.claimed_name(from)?;
    Some((address_of_record(from, domain)?, domain))
}

/// What a request must prove.
struct Claim<'c> {
    challenger: Challenger,
    /// The form is `user@domain`.
    address: &'c [u8],
    domain: &'c str,
    source: Flow,
}

fn prove(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    claim: &Claim<'_>,
) -> Result<(), Stop> {
    let Claim {
        challenger,
        address,
        domain,
        source,
    } = *claim;
    let username = address
        .get(..address.len().saturating_sub(domain.len() + 1))
        .unwrap_or_default();
    let subject = Subject {
        challenger,
        username,
        realm: domain.as_bytes(),
        source: source.remote.ip(),
    };
    let (view, output) = (parts.view(), &mut *parts.output);
    let verdict = auth::verify(request, &subject, view, &mut |notice| {
        output.record(Record::Notice(notice));
    });
    match verdict {
        Verdict::Accepted => Ok(()),
        Verdict::Challenge { stale } => Err(Refusal::Challenge {
            challenger,
            realm: domain.to_owned(),
            stale,
        }
        .into()),
        Verdict::Forbidden(reason) => {
            parts.metrics.refused(Refused::Impostor);
            Err(Refusal::Because(403, reason).into())
        }
        Verdict::Malformed(reason) => Err(Refusal::Because(400, reason).into()),
        Verdict::AskStore { username } => {
            let need = Need::Credentials {
                username,
                domain: domain.as_bytes().into(),
            };
            Err(Stop::Ask(need, ResumeAt::Authenticate))
        }
    }
}

/// Rejects a REGISTER whose From and To differ. There is no permission yet to register for another subscriber.
fn refuse_third_party(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    address: &[u8],
) -> Result<(), Stop> {
    let same = request.from_uri().is_some_and(|uri| {
        if request.to_uri().is_some_and(|to| to.bytes == uri.bytes) {
            return true; // Most phones write both URIs alike.
        }
        let domain = parts.settings.domains.local_name(uri);
        domain
            .and_then(|domain| address_of_record(uri, domain))
            .is_some_and(|from| *from == *address)
    });
    if same {
        Ok(())
    } else {
        parts.metrics.refused(Refused::Impostor);
        Err(Refusal::Because(403, "From and To name different users").into())
    }
}

/// Rejects a Path that does not come from one of our edge proxies. A Path decides where the subscriber's calls are sent
/// (RFC 3327). Ignoring it is no solution: the phone would be registered but not reachable.
fn refuse_foreign_path(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
) -> Result<(), Stop> {
    let is_edge = || {
        parts
            .settings
            .proxy
            .edge_proxies
            .contains(source.remote.ip())
    };
    let is_of_fleet = || edge::has_forwarded(parts.settings, request);
    if request.header(HeaderName::Path).is_none() || is_edge() || is_of_fleet() {
        return Ok(());
    }
    parts.metrics.refused(Refused::Path);
    Err(Refusal::Because(403, "Path is accepted from edge proxies only").into())
}
