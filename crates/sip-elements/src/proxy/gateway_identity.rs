//! The header field that says to a gateway who calls (RFC 3325 section 5).

use super::identity_headers::asks_for_privacy;
use crate::View;
use crate::domains::address_of_record;
use sip_message::{HeaderName, Host, Message, NameAddr, Patch, Scheme, Uri};
use sip_routing::gateway::{Caller, Gateway, IdentityHeader};

/// How far the identity of the sender of a request is proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// It is this subscriber (`user@domain`).
    Subscriber(Box<[u8]>),
    /// This subscriber diverts the call.
    Diverter(Box<[u8]>),
    /// It is a trusted peer, which is believed.
    Peer,
    /// Nothing is proven.
    #[default]
    Unknown,
}

impl Speaker {
    /// The same for a call that the subscriber diverts. What the request says about identities is not its word.
    pub(super) fn diverting(self) -> Self {
        match self {
            Self::Subscriber(address) => Self::Diverter(address),
            other => other,
        }
    }
}

/// Header fields of which a gateway gets one at most.
const IDENTITIES: [HeaderName; 3] = [
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
];

/// Writes the identity of the caller as the gateway wants it, in place of all that the request says about it. Without trust in the gateway,
/// it does not get the identity of a caller that asks for privacy.
pub(super) fn assert(
    patch: &mut Patch<'_, '_>,
    request: &Message<'_>,
    view: View<'_>,
    (speaker, gateway): (&Speaker, &Gateway),
    is_trusted: bool,
) {
    let rewriting = gateway.rewriting();
    let name = match rewriting.caller.header {
        IdentityHeader::Unchanged => return,
        IdentityHeader::None => None,
        IdentityHeader::Asserted => Some(HeaderName::PAssertedIdentity),
        IdentityHeader::Preferred => Some(HeaderName::PPreferredIdentity),
        IdentityHeader::RemotePartyId => Some(HeaderName::RemotePartyId),
    };
    for identity in IDENTITIES {
        patch.remove(identity);
    }
    let is_private = asks_for_privacy(request, &[b"id"]);
    let Some(name) = name.filter(|_| is_trusted || !is_private) else {
        return;
    };
    let caller = caller(request, view, speaker);
    let own = view.settings.domains.default_name();
    let mut value = Vec::with_capacity(96);
    let plan = &rewriting.plan;
    if rewriting
        .caller
        .write(plan, caller, own, is_private, &mut value)
    {
        patch.replace(name, &value);
    }
}

/// The proven identity of the caller.
fn caller<'c>(
    request: &'c Message<'_>,
    view: View<'_>,
    speaker: &'c Speaker,
) -> Option<Caller<'c>> {
    match speaker {
        Speaker::Subscriber(address) | Speaker::Diverter(address) => {
            let at = address.iter().rposition(|octet| *octet == b'@')?;
            let domain = address.get(at + 1..)?;
            let is_own = matches!(speaker, Speaker::Subscriber(_));
            let user = is_own.then(|| preferred(request, view, (address, domain)));
            let user = user.flatten();
            Some(Caller {
                user: user.or(address.get(..at))?,
                domain,
            })
        }
        Speaker::Peer => {
            let mut asserted = request.values(HeaderName::PAssertedIdentity);
            let asserted = asserted.find_map(|value| of_uri(&NameAddr::parse(value)?.uri()?));
            asserted.or_else(|| of_uri(request.from_uri()?))
        }
        Speaker::Unknown => None,
    }
}

/// The user that a subscriber prefers to be known as (P-Preferred-Identity), if it is an alias of the subscriber.
fn preferred<'c>(
    request: &'c Message<'_>,
    view: View<'_>,
    (subscriber, domain): (&[u8], &[u8]),
) -> Option<&'c [u8]> {
    let aliases = &view.shared.services.aliases;
    if aliases.is_empty() {
        return None;
    }
    let mut values = request.values(HeaderName::PPreferredIdentity);
    values.find_map(|value| {
        let uri = NameAddr::parse(value)?.uri()?;
        let address = match uri.scheme {
            Scheme::Sip | Scheme::Sips => {
                address_of_record(&uri, view.settings.domains.claimed_name(&uri)?)?
            }
            Scheme::Tel => [uri.user?, b"@", domain].concat().into(),
            Scheme::Other(_) => return None,
        };
        let owner = aliases.find(&address)?;
        uri.user.filter(|_| *owner == *subscriber)
    })
}

/// The caller that a trusted peer names. An anonymous URI names none (RFC 3323 section 4.1).
fn of_uri<'c>(uri: &Uri<'c>) -> Option<Caller<'c>> {
    let user = uri.user?;
    let domain = match uri.scheme {
        Scheme::Sip | Scheme::Sips => uri.host_bytes,
        Scheme::Tel => b"",
        Scheme::Other(_) => return None,
    };
    let is_anonymous = match uri.host {
        Host::Name(name) => name.eq_ignore_ascii_case(b"anonymous.invalid"),
        Host::Address(_) => false,
    };
    (!is_anonymous).then_some(Caller { user, domain })
}
