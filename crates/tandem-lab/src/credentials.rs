//! How the phones of the laboratory answer challenges: with the digest client of `sip-message`, and one constant cnonce.

use sip_message::digest::{Account, ClientNonce};
use sip_message::{Challenge, HeaderName, Message};

/// The same cnonce for all. It would protect the phone against chosen plain text of a malicious server, which does not matter in a
/// laboratory.
const CNONCE: &[u8] = b"0a4f113b";

/// A nonce and its use count.
#[derive(Clone, Debug)]
pub(crate) struct Nonce(ClientNonce);

impl Nonce {
    /// From the first supported challenge, which is the preferred one (RFC 8760 section 2.4). `is_proxy`: from a 407.
    pub(crate) fn of(response: &Message<'_>, is_proxy: bool) -> Option<Self> {
        let name = if is_proxy {
            HeaderName::ProxyAuthenticate
        } else {
            HeaderName::WwwAuthenticate
        };
        let mut headers = response.headers().filter(|header| header.name == name);
        headers.find_map(|header| ClientNonce::new(&Challenge::parse(header.value)?).map(Self))
    }

    /// Appends the value of an Authorization or Proxy-Authorization header field, with the next nonce count.
    pub(crate) fn authorize(
        &mut self,
        account: Account<'_>,
        method: &[u8],
        uri: &[u8],
        into: &mut Vec<u8>,
    ) {
        self.0.authorize(account, (method, uri), CNONCE, into);
    }
}

/// Whether the challenge only says that the nonce is stale.
pub(crate) fn is_stale(response: &Message<'_>) -> bool {
    let challenges = [HeaderName::ProxyAuthenticate, HeaderName::WwwAuthenticate];
    let mut headers = response
        .headers()
        .filter(|header| challenges.contains(&header.name));
    headers.any(|header| Challenge::parse(header.value).is_some_and(|challenge| challenge.stale))
}
