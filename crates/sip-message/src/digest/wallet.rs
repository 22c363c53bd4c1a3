//! Challenges that a call or a registration has received, and the credentials that answer them (RFC 3261 section 22).

use super::{Account, ClientNonce};
use crate::{Challenge, HeaderName, Message};
use std::fmt;

/// The most realms of one call. Challenges of further realms cannot be answered.
const MOST: usize = 8;

/// A user name and a password. The user name contains neither quotes nor backslashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The realm that they are for; `None`: any.
    pub realm: Option<Box<str>>,
    /// The user name.
    pub username: Box<str>,
    /// The password.
    pub password: Box<str>,
}

impl Credential {
    /// The account that answers challenges.
    pub const fn account(&self) -> Account<'_> {
        Account {
            username: self.username.as_bytes(),
            password: self.password.as_bytes(),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credential")
            .field("realm", &self.realm)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The challenges of one call or registration.
#[derive(Debug, Default)]
pub struct Wallet(Vec<Held>);

#[derive(Debug)]
struct Held {
    /// The header field that answers: Authorization or Proxy-Authorization.
    name: HeaderName,
    nonce: ClientNonce,
    /// Whether credentials with this nonce have been accepted.
    is_proven: bool,
    /// Whether the response that is being read has replaced it.
    is_new: bool,
}

/// A header field of a request with its value.
pub type Line = (HeaderName, Box<[u8]>);

impl Wallet {
    /// Takes the challenges of a 401 or 407. Returns whether sending the request again makes sense: all realms that we have credentials for
    /// have new challenges, and at least one of them. A second challenge for the same credentials means that they are wrong, unless the
    /// nonce is stale or was accepted before.
    pub fn take(&mut self, response: &Message<'_>, credentials: &[Credential]) -> bool {
        for held in &mut self.0 {
            held.is_new = false;
        }
        for header in response.headers() {
            let name = match header.name {
                HeaderName::WwwAuthenticate => HeaderName::Authorization,
                HeaderName::ProxyAuthenticate => HeaderName::ProxyAuthorization,
                _ => continue,
            };
            let Some(challenge) = Challenge::parse(header.value) else {
                continue;
            };
            if let Some(nonce) = ClientNonce::new(&challenge)
                && find(credentials, nonce.realm()).is_some()
                && !self.hold(name, nonce, challenge.stale)
            {
                return false;
            }
        }
        self.0.iter().any(|held| held.is_new)
    }

    /// Holds the nonce of a challenge. Returns false if the credentials were refused. Of several challenges of one realm, the first with the
    /// strongest algorithm counts.
    fn hold(&mut self, name: HeaderName, nonce: ClientNonce, is_stale: bool) -> bool {
        let realm = nonce.realm();
        let same = |held: &&mut Held| held.name == name && held.nonce.realm() == realm;
        if let Some(held) = self.0.iter_mut().find(same) {
            if held.is_new {
                if nonce.algorithm() > held.nonce.algorithm() {
                    held.nonce = nonce;
                }
                return true;
            }
            if !held.is_proven && !is_stale {
                return false;
            }
            (held.nonce, held.is_proven, held.is_new) = (nonce, false, true);
        } else if self.0.len() < MOST {
            self.0.push(Held {
                name,
                nonce,
                is_proven: false,
                is_new: true,
            });
        }
        true
    }

    /// Records that the server accepted the credentials of the last request.
    pub fn accepted(&mut self) {
        for held in &mut self.0 {
            held.is_proven = true;
        }
    }

    /// The header fields with credentials for a request with this method and Request-URI.
    pub fn authorize(
        &mut self,
        credentials: &[Credential],
        asked: (&[u8], &[u8]),
        cnonce: u64,
    ) -> Vec<Line> {
        let cnonce = format!("{cnonce:016x}");
        let answered = self.0.iter_mut().filter_map(|held| {
            let credential = find(credentials, held.nonce.realm())?;
            let mut value = Vec::new();
            held.nonce
                .authorize(credential.account(), asked, cnonce.as_bytes(), &mut value);
            Some((held.name, value.into()))
        });
        answered.collect()
    }

    /// Whether it holds no challenge.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nonce of the only realm, and the header field that answers its challenge; `None` if there are several realms, or none.
    pub fn only(&self) -> Option<(HeaderName, &ClientNonce)> {
        match &*self.0 {
            [held] => Some((held.name, &held.nonce)),
            _ => None,
        }
    }
}

/// The credentials for a realm: those for exactly this realm come first.
fn find<'c>(credentials: &'c [Credential], realm: &[u8]) -> Option<&'c Credential> {
    let fits = |it: &&Credential| {
        it.realm
            .as_deref()
            .is_none_or(|own| own.as_bytes() == realm)
    };
    credentials.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    fn credential(realm: Option<&str>) -> Credential {
        Credential {
            realm: realm.map(Into::into),
            username: "alice".into(),
            password: "secret".into(),
        }
    }

    fn take(wallet: &mut Wallet, credentials: &[Credential], challenges: &[&str]) -> bool {
        let lines: String = challenges.iter().flat_map(|it| [*it, "\r\n"]).collect();
        let bytes = format!("SIP/2.0 407 X\r\n{lines}Content-Length: 0\r\n\r\n");
        wallet.take(
            &Message::parse(bytes.as_bytes()).expect("parsed"),
            credentials,
        )
    }

    fn proxy(realm: &str, nonce: &str, more: &str) -> String {
        format!(
            "Proxy-Authenticate: Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\"{more}"
        )
    }

    #[test]
    fn a_second_challenge_means_that_the_password_is_wrong_unless_the_nonce_is_stale() {
        let (mut wallet, own) = (Wallet::default(), [credential(None)]);
        assert!(take(&mut wallet, &own, &[&proxy("r", "1", "")]));
        assert!(take(&mut wallet, &own, &[&proxy("r", "2", ", stale=true")]));
        assert!(!take(&mut wallet, &own, &[&proxy("r", "3", "")]));
        wallet.accepted();
        assert!(take(&mut wallet, &own, &[&proxy("r", "4", "")]));
    }

    #[test]
    fn every_challenged_realm_gets_its_credentials() {
        let (mut wallet, own) = (Wallet::default(), [credential(Some("a")), credential(None)]);
        let www = "WWW-Authenticate: Digest realm=\"c\", nonce=\"9\"";
        let asked = [&*proxy("a", "1", ""), &*proxy("b", "2", ""), www];
        assert!(take(&mut wallet, &own, &asked));
        let lines = wallet.authorize(&own, (b"INVITE", b"sip:b@b"), 1);
        let realms: Vec<&[u8]> = lines
            .iter()
            .map(|(_, value)| Credentials::parse(value).expect("credentials").realm)
            .collect();
        assert_eq!(realms, [b"a", b"b", b"c"]);
        assert_eq!(lines[2].0, HeaderName::Authorization);
    }

    #[test]
    fn the_first_supported_challenge_with_the_strongest_algorithm_is_answered() {
        let (mut wallet, own) = (Wallet::default(), [credential(None)]);
        let asked = [
            proxy("r", "1", ", algorithm=SHA-512-256"),
            proxy("r", "4", ", algorithm=MD5"),
            proxy("r", "2", ", algorithm=SHA-256"),
            proxy("r", "5", ", algorithm=SHA-256"),
            proxy("r", "3", ", algorithm=MD5"),
        ];
        assert!(take(&mut wallet, &own, &asked.each_ref().map(|it| &**it)));
        let lines = wallet.authorize(&own, (b"INVITE", b"sip:b@b"), 1);
        let nonces: Vec<&[u8]> = lines
            .iter()
            .map(|(_, value)| Credentials::parse(value).expect("credentials").nonce)
            .collect();
        assert_eq!(nonces, [b"2"]);
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", credential(None));
        assert!(
            shown.contains("alice") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn a_realm_without_credentials_cannot_be_answered() {
        let (mut wallet, own) = (Wallet::default(), [credential(Some("a"))]);
        assert!(!take(&mut wallet, &own, &[&proxy("b", "1", "")]));
        assert!(!take(&mut wallet, &own, &[]));
    }

    #[test]
    fn a_server_with_many_realms_does_not_fill_memory() {
        let (mut wallet, own) = (Wallet::default(), [credential(None)]);
        let asked: Vec<String> = (0..100).map(|it| proxy(&it.to_string(), "1", "")).collect();
        let asked: Vec<&str> = asked.iter().map(|it| &**it).collect();
        assert!(take(&mut wallet, &own, &asked));
        assert_eq!(wallet.0.len(), MOST);
    }
}
