//! Challenges for credentials (RFC 3261 section 22.2, RFC 8760 section 2.3).

use super::{Challenger, Nonces};
use crate::Settings;
use crate::bans::Source;
use sip_message::{HeaderName, ResponseWriter};
use sip_transport::Time;

/// A challenge to send.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'c> {
    /// The challenging role.
    pub challenger: Challenger,
    /// The realm to authenticate for.
    pub realm: &'c [u8],
    /// The source of the request. The nonce is valid only from there.
    pub source: Source,
    /// Whether only the nonce was invalid.
    pub stale: bool,
}

/// Adds one challenge for each configured algorithm, best first, each with a new nonce.
pub fn add_challenges<'o>(
    response: ResponseWriter<'o>,
    challenge: &Challenge<'_>,
    nonces: &Nonces,
    settings: &Settings,
    now: Time,
) -> ResponseWriter<'o> {
    let Challenge {
        challenger,
        realm,
        source,
        stale,
    } = *challenge;
    let header = match challenger {
        Challenger::Registrar => HeaderName::WwwAuthenticate,
        Challenger::Proxy => HeaderName::ProxyAuthenticate,
    };
    settings
        .algorithms
        .iter()
        .fold(response, |response, algorithm| {
            response.header_with(header, |into| {
                into.extend_from_slice(b"Digest realm=\"");
                into.extend_from_slice(realm);
                into.extend_from_slice(b"\", nonce=\"");
                into.extend_from_slice(&nonces.issue(realm, source, now));
                into.extend_from_slice(b"\", algorithm=");
                into.extend_from_slice(algorithm.token().as_bytes());
                into.extend_from_slice(b", qop=\"auth\"");
                if stale {
                    into.extend_from_slice(b", stale=true");
                }
            })
        })
}
