//! Header fields that name a party or say where a call has been, and between whom they pass (RFC 3325, RFC 5806, RFC 7044): only a
//! trusted peer may assert them, and only a trusted peer sees what a party withholds.

use sip_message::{HeaderName, Message, NameAddr, Patch};
use sip_transport::Networks;
use std::net::IpAddr;

/// Header fields that only trusted peers may send. A phone or a gateway believes what its proxy sends.
const ASSERTED: [HeaderName; 5] = [
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
    HeaderName::Diversion,
    HeaderName::HistoryInfo,
];

/// The sender or the receiver of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Party {
    /// A routing rule or a gateway trusts it.
    Trusted,
    /// It is trusted if its address is that of a trusted peer.
    At(IpAddr),
}

impl Party {
    /// The party at this address, which is trusted in any case if `is_trusted`.
    pub(super) const fn new(address: IpAddr, is_trusted: bool) -> Self {
        if is_trusted {
            Self::Trusted
        } else {
            Self::At(address)
        }
    }

    pub(super) fn is_trusted(self, trusted: &Networks) -> bool {
        match self {
            Self::Trusted => true,
            Self::At(address) => trusted.contains(address),
        }
    }
}

/// Who is trusted besides the trusted peers: who has sent a request, and who receives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) sender: bool,
    pub(super) receiver: bool,
}

/// Removes what the sender of a message may not assert, and what its receiver may not see.
pub(super) fn remove_untrusted(
    patch: &mut Patch<'_, '_>,
    message: &Message<'_>,
    trusted: &Networks,
    from: Party,
    to: Party,
) {
    if ASSERTED.iter().all(|name| message.header(*name).is_none()) {
        return;
    }
    let believes = from.is_trusted(trusted);
    let shows = to.is_trusted(trusted);
    for name in ASSERTED {
        if !believes || (!shows && is_withheld(message, name)) {
            patch.remove(name);
        }
    }
}

/// Whether the message asks that parties outside the trust domain do not see this header field.
fn is_withheld(message: &Message<'_>, name: HeaderName) -> bool {
    match name {
        HeaderName::Diversion => has_private_value(message, name),
        // RFC 7044 section 10.1.2. An entry can ask on its own, with an escaped Privacy in its URI.
        HeaderName::HistoryInfo => {
            asks_for_privacy(message, &[b"history", b"header", b"session"])
                || message.values(name).any(has_escaped_privacy)
        }
        HeaderName::RemotePartyId => {
            asks_for_privacy(message, &[b"id"]) || has_private_value(message, name)
        }
        // RFC 3325 section 7.
        _ => asks_for_privacy(message, &[b"id"]),
    }
}

/// Whether the message has one of these values in Privacy, alone or among others. Semicolons separate the values (RFC 3323
/// section 4.2).
pub(super) fn asks_for_privacy(message: &Message<'_>, wanted: &[&[u8]]) -> bool {
    let is_wanted = |value: &[u8]| {
        let value = value.trim_ascii();
        wanted.iter().any(|it| value.eq_ignore_ascii_case(it))
    };
    let mut values = message.headers();
    values.any(|header| {
        header.name == HeaderName::Privacy
            && header
                .value
                .split(|octet| matches!(octet, b';' | b','))
                .any(is_wanted)
    })
}

/// Whether a value has a `privacy` parameter other than `off` (RFC 5806 section 4.1, and Remote-Party-ID). A value that cannot be read may
/// have one.
fn has_private_value(message: &Message<'_>, name: HeaderName) -> bool {
    message.values(name).any(|value| {
        let privacy = NameAddr::parse(value).map(|value| value.params.find(b"privacy"));
        match privacy {
            Some(Some(Some(value))) => !value.trim_ascii().eq_ignore_ascii_case(b"off"),
            Some(None) => false,
            Some(Some(None)) | None => true,
        }
    })
}

fn has_escaped_privacy(entry: &[u8]) -> bool {
    let name = b"privacy=";
    let mut windows = entry.windows(name.len());
    windows.any(|window| window.eq_ignore_ascii_case(name))
}
