//! Digest credentials of a phone (RFC 7616, RFC 8760). It keeps the last nonce of each challenger and counts its uses.
use super::{Phone, Profile};
use crate::dice::Dice;
use sip_message::digest::{
    Algorithm, DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256,
};
use sip_message::{Challenge, HeaderName, Message};
use std::fmt::Write as _;

/// A received challenge, and how often its nonce has been used.
#[derive(Clone, Debug)]
struct Held {
    realm: String,
    nonce: String,
    algorithm: Algorithm,
    opaque: Option<String>,
    qop: bool,
    uses: u32,
}

/// The challenges a phone holds: the registrar's and the proxy's.
#[derive(Debug, Default)]
pub(crate) struct Wallet {
    registrar: Option<Held>,
    proxy: Option<Held>,
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
        let mut best: Option<Held> = None;
        for line in response.headers().filter(|line| line.name == header) {
            let Some(challenge) = Challenge::parse(line.value) else {
                continue;
            };
            let Some(algorithm) = Algorithm::from_token(challenge.algorithm) else {
                continue;
            };
            if best.is_none() || algorithm == wanted {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                best = Some(Held {
                    realm: text(challenge.realm),
                    nonce: text(challenge.nonce),
                    algorithm,
                    opaque: challenge.opaque.map(text),
                    qop: challenge.qop.is_some(),
                    uses: 0,
                });
            }
        }
        *slot = Some(best?);
        Some(())
    }
}

impl Phone {
    /// The Authorization or Proxy-Authorization line for a request, if the phone has a challenge to answer.
    pub(crate) fn authorize(&mut self, method: &[u8], uri: &str) -> Option<String> {
        let registers = method == b"REGISTER";
        let held = if registers {
            self.wallet.registrar.as_mut()?
        } else {
            self.wallet.proxy.as_mut()?
        };
        let name = if registers {
            "Authorization"
        } else {
            "Proxy-Authorization"
        };
        held.uses += 1;
        Some(held.line(name, method, uri, &self.profile, &mut self.dice))
    }
}

impl Held {
    fn line(
        &self,
        name: &str,
        method: &[u8],
        uri: &str,
        profile: &Profile,
        dice: &mut Dice,
    ) -> String {
        let count = format!("{:08x}", self.uses);
        let cnonce = dice.token();
        let qop_auth = self.qop.then_some((count.as_bytes(), cnonce.as_bytes()));
        let input = DigestInput {
            method,
            uri: uri.as_bytes(),
            nonce: self.nonce.as_bytes(),
            qop_auth,
        };
        let (user, realm, password) = (
            profile.user.as_bytes(),
            self.realm.as_bytes(),
            profile.password.as_bytes(),
        );
        let response = match self.algorithm {
            Algorithm::Md5 => response_md5(&ha1_md5(user, realm, password), &input).to_vec(),
            Algorithm::Sha256 => {
                response_sha256(&ha1_sha256(user, realm, password), &input).to_vec()
            }
        };
        let mut line = format!(
            "{name}: Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{uri}\", response=\"{}\", algorithm={}",
            profile.user,
            self.realm,
            self.nonce,
            String::from_utf8_lossy(&response),
            self.algorithm.token(),
        );
        if self.qop {
            let _ = write!(line, ", qop=auth, nc={count}, cnonce=\"{cnonce}\"");
        }
        if let Some(opaque) = &self.opaque {
            let _ = write!(line, ", opaque=\"{opaque}\"");
        }
        line
    }
}
