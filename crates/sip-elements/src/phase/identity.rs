//! Who speaks? A local subscriber proves it by digest (401, 407) and speaks for nobody else (403).

use super::{Need, Stop};
use crate::answer::Refusal;
use crate::auth::{self, Challenger, Verdict};
use crate::{Round, Settings};
use sip_message::{Message, Method, Scheme, Uri};

/// The address of record a request speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// One of our subscribers, proven where the operator asks for proof: `user@domain`.
    Subscriber(Box<[u8]>),
    /// Somebody of another domain, or somebody who says he is ours with a method that is not challenged.
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

/// Finds who the request claims to be from, and has it proven where its method is challenged.
///
/// A REGISTER speaks for the address in To (section 10.2), everything else for the one in From.
pub(crate) fn authenticate(round: &Round<'_>, request: &Message<'_>) -> Result<Identity, Stop> {
    let registers = is_registration(round, request);
    let (uri, challenger, header) = if registers {
        (
            request.to_uri(),
            Challenger::Registrar,
            "Bad To: no SIP address of record",
        )
    } else {
        (
            request.from_uri(),
            Challenger::Proxy,
            "Bad From: no SIP address",
        )
    };
    let sip = uri.filter(|uri| matches!(uri.scheme, Scheme::Sip | Scheme::Sips));
    let Some(uri) = sip else {
        return if registers {
            Err(Refusal::Because(400, header).into())
        } else {
            Ok(Identity::Stranger)
        };
    };
    let Some(domain) = round.settings.domains.local_name(uri) else {
        // Section 10.3 step 5: an address of record that is not valid for our domains.
        return if registers {
            Err(Refusal::Status(404).into())
        } else {
            Ok(Identity::Stranger)
        };
    };
    let Some(address) = address_of_record(uri, domain) else {
        return if registers {
            Err(Refusal::Because(400, header).into())
        } else {
            Ok(Identity::Stranger)
        };
    };
    let challenged = is_challenged(round.settings, request.method());
    if challenged {
        prove(round, request, challenger, &address, domain)?;
    }
    if registers {
        refuse_third_party(round, request, &address)?;
    }
    // With digest turned off altogether the operator trusts the network.
    let trusted = challenged || registers || round.settings.challenge.is_empty();
    Ok(if trusted {
        Identity::Subscriber(address)
    } else {
        Identity::Stranger
    })
}

fn is_challenged(settings: &Settings, method: Method<'_>) -> bool {
    settings
        .challenge
        .iter()
        .any(|name| name.as_bytes() == method.as_bytes())
}

/// The realm whose Proxy-Authorization in such a request is meant for us: whoever speaks for one of our subscribers must prove
/// it. An ACK repeats the credentials of its INVITE (section 13.2.2.4).
pub(crate) fn realm_of_ours<'s>(settings: &'s Settings, request: &Message<'_>) -> Option<&'s str> {
    let method = match request.method() {
        Method::Ack => Method::Invite,
        other => other,
    };
    let from = request.from_uri()?;
    let speaks = matches!(from.scheme, Scheme::Sip | Scheme::Sips) && from.user.is_some();
    settings
        .domains
        .local_name(from)
        .filter(|_| speaks && is_challenged(settings, method))
}

fn prove(
    round: &Round<'_>,
    request: &Message<'_>,
    challenger: Challenger,
    address: &[u8],
    domain: &str,
) -> Result<(), Stop> {
    let username = address
        .get(..address.len().saturating_sub(domain.len() + 1))
        .unwrap_or_default();
    let verdict = auth::verify(
        request,
        challenger,
        username,
        domain.as_bytes(),
        &round.shared.credentials,
        &round.shared.nonces,
        round.settings,
        round.now,
    );
    match verdict {
        Verdict::Accepted => Ok(()),
        Verdict::Challenge { stale } => Err(Refusal::Challenge {
            challenger,
            realm: domain.to_owned(),
            stale,
        }
        .into()),
        Verdict::Forbidden(reason) => Err(Refusal::Because(403, reason).into()),
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
        Err(Refusal::Because(403, "From and To name different users").into())
    }
}

/// `user@domain` in canonical form, with our name for the domain; `None` without a user.
pub(crate) fn address_of_record(uri: &Uri<'_>, domain: &str) -> Option<Box<[u8]>> {
    uri.user?;
    let mut address = Vec::with_capacity(64);
    uri.write_address_of_record(&mut address);
    let at = address.iter().rposition(|byte| *byte == b'@')?;
    address.truncate(at + 1);
    address.extend_from_slice(domain.as_bytes());
    Some(address.into_boxed_slice())
}
