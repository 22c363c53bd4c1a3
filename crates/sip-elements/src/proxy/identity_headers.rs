//! Header fields that name a party, and which of them are forwarded (RFC 3325, RFC 5806): only a trusted peer may
//! assert an identity.

use sip_message::{HeaderName, Message, Patch};
use sip_transport::Networks;
use std::net::IpAddr;

/// Header fields that assert the identity of the caller or of the first callee. A phone or a gateway believes what its
/// proxy sends.
const ASSERTED: [HeaderName; 4] = [
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
    HeaderName::Diversion,
];

/// The sender of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    /// A routing rule trusts it.
    Trusted,
    /// It is trusted if its address is that of a trusted peer.
    At(IpAddr),
}

impl Sender {
    fn is_trusted(self, trusted: &Networks) -> bool {
        match self {
            Self::Trusted => true,
            Self::At(address) => trusted.contains(address),
        }
    }
}

/// Removes what the sender of a message may not assert, and what its receiver may not see. A caller that asks for
/// privacy (`Privacy: id`) is not named outside the trusted networks (RFC 3325 section 7).
pub(super) fn remove_untrusted(
    patch: &mut Patch<'_, '_>,
    message: &Message<'_>,
    trusted: &Networks,
    from: Sender,
    to: IpAddr,
) {
    if ASSERTED.iter().all(|name| message.header(*name).is_none()) {
        return;
    }
    if !from.is_trusted(trusted) {
        for name in ASSERTED {
            patch.remove(name);
        }
    } else if !trusted.contains(to) && asks_for_privacy(message) {
        patch.remove(HeaderName::PAssertedIdentity);
        patch.remove(HeaderName::PPreferredIdentity);
        patch.remove(HeaderName::RemotePartyId);
    }
}

/// Whether the message has `Privacy: id`, alone or among other values. Semicolons separate the values (RFC 3323
/// section 4.2).
fn asks_for_privacy(message: &Message<'_>) -> bool {
    let mut values = message.headers();
    values.any(|header| {
        header.name == HeaderName::Privacy
            && header
                .value
                .split(|octet| matches!(octet, b';' | b','))
                .any(|value| value.trim_ascii().eq_ignore_ascii_case(b"id"))
    })
}
