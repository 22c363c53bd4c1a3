//! Who speaks? A local subscriber proves it by digest (401, 407) and may not use another name (403); a trusted peer is believed;
//! of all others nothing is known.

use super::{Need, Stop, destination};
use crate::answer::Refusal;
use crate::auth::{self, Challenger, Subject, Verdict};
use crate::metrics::Refused;
use crate::proxy::Routing;
use crate::{Round, Settings};
use sip_message::{HeaderName, Message, Method, Scheme, Uri};
use sip_transport::Flow;

/// Who a request speaks for, and what that is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// One of our subscribers (`user@domain`): proven by digest, or believed because the operator turned digest off.
    Subscriber(Box<[u8]>),
    /// Says that it is one of our subscribers, with a method that the operator chose not to challenge.
    Unproven,
    /// A trusted peer. Its From is believed.
    Peer,
    /// A sender from another domain. Nothing can be proven.
    Stranger,
}

/// Whether this is a REGISTER for one of our domains; one for another domain is proxied like anything else (section 10.3 step 1).
pub(crate) fn is_registration(round: &Round<'_>, request: &Message<'_>) -> bool {
    request.is_request()
        && request.method() == Method::Register
        && request
            .uri()
            .is_some_and(|uri| round.settings.domains.is_us(uri))
}

/// Finds who a REGISTER for one of our domains speaks for: the address in To (section 10.2). Returns it proven. A trusted peer
/// proves it too: it may forward a REGISTER, with the phone's credentials, but bind nothing.
pub(crate) fn registrant(
    round: &Round<'_>,
    request: &Message<'_>,
    source: Flow,
) -> Result<Box<[u8]>, Stop> {
    let malformed = || Refusal::Because(400, "Bad To: no SIP address of record");
    let uri = request
        .to_uri()
        .filter(|uri| is_sip(uri))
        .ok_or_else(malformed)?;
    // Section 10.3 step 5: an address of record that is not valid for the domain in the Request-URI.
    let domain = round.settings.domains.local_name(uri);
    let domain = domain.ok_or(Refusal::Status(404))?;
    let domains = &round.settings.domains;
    let is_asked = |asked: &Uri<'_>| {
        domains.is_own_address(asked) || domains.local_name(asked) == Some(domain)
    };
    if !request.uri().is_some_and(is_asked) {
        return Err(Refusal::Status(404).into());
    }
    let address = address_of_record(uri, domain).ok_or_else(malformed)?;
    if round.settings.challenge.contains(request.method()) {
        let claim = Claim {
            challenger: Challenger::Registrar,
            address: &address,
            domain,
            source,
        };
        prove(round, request, &claim)?;
    }
    refuse_third_party(round, request, &address)?;
    refuse_foreign_path(round, request, source)?;
    Ok(address)
}

/// Finds who any other request speaks for: the address in From. A request in the name of one of our domains is challenged where
/// its method is, and wherever credentials decide whether it may go on (`routing` says where it wants to go).
pub(crate) fn authenticate(
    round: &Round<'_>,
    request: &Message<'_>,
    source: Flow,
    routing: &Routing,
) -> Result<Identity, Stop> {
    let settings = round.settings;
    if settings.proxy.trusted_peers.contains(source.remote.ip()) {
        return Ok(Identity::Peer);
    }
    let uri = request.from_uri().filter(|uri| is_sip(uri));
    let claimed = uri.and_then(|uri| Some((uri, settings.domains.claimed_name(uri)?)));
    let Some((uri, domain)) = claimed else {
        return Ok(Identity::Stranger);
    };
    let Some(address) = address_of_record(uri, domain) else {
        round.metrics.refused(Refused::Nameless);
        return Err(Refusal::Because(403, "From names no user of this domain").into());
    };
    if settings.challenge.is_empty() {
        return Ok(Identity::Subscriber(address));
    }
    let challenged = settings.challenge.contains(request.method())
        || destination::is_for_subscribers(round, request, routing);
    if !challenged {
        return Ok(Identity::Unproven);
    }
    let claim = Claim {
        challenger: Challenger::Proxy,
        address: &address,
        domain,
        source,
    };
    prove(round, request, &claim)?;
    Ok(Identity::Subscriber(address))
}

fn is_sip(uri: &Uri<'_>) -> bool {
    matches!(uri.scheme, Scheme::Sip | Scheme::Sips)
}

/// The realm whose Proxy-Authorization in such a request is meant for us: whoever speaks for one of our subscribers must prove
/// it. An ACK repeats the credentials of its INVITE (section 13.2.2.4).
pub(crate) fn realm_of_ours<'s>(settings: &'s Settings, request: &Message<'_>) -> Option<&'s str> {
    let from = request.from_uri()?;
    let speaks = is_sip(from) && from.user.is_some() && !settings.challenge.is_empty();
    settings.domains.claimed_name(from).filter(|_| speaks)
}

/// Has the speaker in From proven, where From names one of our subscribers: in a dialog another than the one who began it. Trusted peers may
/// speak for our subscribers.
pub(crate) fn authenticate_speaker(
    round: &Round<'_>,
    request: &Message<'_>,
    source: Flow,
) -> Result<(), Stop> {
    let trusted = &round.settings.proxy.trusted_peers;
    match local_speaker(round.settings, request) {
        Some((address, domain)) if !trusted.contains(source.remote.ip()) => {
            let claim = Claim {
                challenger: Challenger::Proxy,
                address: &address,
                domain,
                source,
            };
            prove(round, request, &claim)
        }
        _ => Ok(()),
    }
}

/// Whose name From takes, if it is one of our subscribers', and the domain; `None` too where digest is turned off altogether.
pub(crate) fn local_speaker<'s>(
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
    /// `user@domain`.
    address: &'c [u8],
    domain: &'c str,
    source: Flow,
}

fn prove(round: &Round<'_>, request: &Message<'_>, claim: &Claim<'_>) -> Result<(), Stop> {
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
    let verdict = auth::verify(request, &subject, round.shared, round.settings, round.now);
    match verdict {
        Verdict::Accepted => Ok(()),
        Verdict::Challenge { stale } => Err(Refusal::Challenge {
            challenger,
            realm: domain.to_owned(),
            stale,
        }
        .into()),
        Verdict::Forbidden(reason) => {
            round.metrics.refused(Refused::Impostor);
            Err(Refusal::Because(403, reason).into())
        }
        Verdict::Malformed(reason) => Err(Refusal::Because(400, reason).into()),
        Verdict::AskStore { username } => Err(Stop::Ask(Need::Credentials {
            username,
            domain: domain.as_bytes().into(),
        })),
    }
}

/// Registering for somebody else needs a right that nobody has yet: From must be To.
fn refuse_third_party(
    round: &Round<'_>,
    request: &Message<'_>,
    address: &[u8],
) -> Result<(), Stop> {
    let same = request.from_uri().is_some_and(|uri| {
        if request.to_uri().is_some_and(|to| to.bytes == uri.bytes) {
            return true; // As nearly all phones write it.
        }
        let domain = round.settings.domains.local_name(uri);
        domain
            .and_then(|domain| address_of_record(uri, domain))
            .is_some_and(|from| *from == *address)
    });
    if same {
        Ok(())
    } else {
        round.metrics.refused(Refused::Impostor);
        Err(Refusal::Because(403, "From and To name different users").into())
    }
}

/// A Path says where the subscriber's calls are sent (RFC 3327), so it is taken from our edge proxies only. It is refused rather
/// than left out: without it the phone would be registered, and never reached.
fn refuse_foreign_path(round: &Round<'_>, request: &Message<'_>, source: Flow) -> Result<(), Stop> {
    let is_edge = || {
        round
            .settings
            .proxy
            .edge_proxies
            .contains(source.remote.ip())
    };
    if request.header(HeaderName::Path).is_none() || is_edge() {
        return Ok(());
    }
    round.metrics.refused(Refused::Path);
    Err(Refusal::Because(403, "Path is accepted from edge proxies only").into())
}

/// `user@domain` in canonical form, with our name for the domain; `None` without a user.
pub(crate) fn address_of_record(uri: &Uri<'_>, domain: &str) -> Option<Box<[u8]>> {
    let user = uri.user?;
    // As long as it gets: nothing is left to give back.
    let host = uri.host_bytes.len().max(domain.len());
    let mut address = Vec::with_capacity(user.len() + 1 + host);
    uri.write_address_of_record(&mut address);
    let at = address.iter().rposition(|byte| *byte == b'@')?;
    address.truncate(at + 1);
    address.extend_from_slice(domain.as_bytes());
    Some(address.into_boxed_slice())
}
