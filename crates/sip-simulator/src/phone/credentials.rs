//! Digest credentials of a phone (RFC 7616, RFC 8760). It keeps the last challenge of each challenger.
use super::{Phone, Profile};
use sip_message::digest::{Account, Algorithm, ClientNonce};
use sip_message::{Challenge, HeaderName, Message};

/// The challenges a phone holds: the registrar's and the proxy's.
#[derive(Debug, Default)]
pub(crate) struct Wallet {
    registrar: Option<ClientNonce>,
    proxy: Option<ClientNonce>,
}

impl Wallet {
    /// Stores the challenge of a 401 or 407; `None` if it has none that the phone can answer.
    pub(crate) fn take(&mut self, profile: &Profile, response: &Message<'_>) -> Option<()> {
        let (header, slot) = match response.status() {
            401 => (HeaderName::WwwAuthenticate, &mut self.registrar),
            407 => (HeaderName::ProxyAuthenticate, &mut self.proxy),
            _ => return None,
        };
        let wanted = if profile.prefers_sha256 {
            Algorithm::Sha256
        } else {
            Algorithm::Md5
        };
        let mut best: Option<ClientNonce> = None;
        for line in response.headers().filter(|line| line.name == header) {
            let challenge = Challenge::parse(line.value);
            let nonce = challenge.and_then(|challenge| ClientNonce::new(&challenge));
            if let Some(nonce) = nonce
                && (best.is_none() || nonce.algorithm() == wanted)
            {
                best = Some(nonce);
            }
        }
        *slot = Some(best?);
        Some(())
    }
}

impl Phone {
    /// The Authorization or Proxy-Authorization line for a request, if the phone has a challenge to answer.
    pub(crate) fn authorize(&mut self, method: &[u8], uri: &str) -> Option<String> {
        let (nonce, name) = if method == b"REGISTER" {
            (self.wallet.registrar.as_mut()?, "Authorization")
        } else {
            (self.wallet.proxy.as_mut()?, "Proxy-Authorization")
        };
        let account = Account {
            username: self.profile.user.as_bytes(),
            password: self.profile.password.as_bytes(),
        };
        let (cnonce, mut value) = (self.dice.token(), Vec::new());
        let asked = (method, uri.as_bytes());
        nonce.authorize(account, asked, cnonce.as_bytes(), &mut value);
        Some(format!("{name}: {}", String::from_utf8_lossy(&value)))
    }
}
