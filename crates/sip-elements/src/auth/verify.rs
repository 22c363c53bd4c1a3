//! Are the credentials of a request worth anything? RFC 3261 sections 22.3 and 22.4, RFC 7616 section 3.4, RFC 8760.
//!
//! ```text
//! ours? well-formed? for this URI? → our nonce, for this source, still good? → no pause? → whose password? → right? → his identity?
//!   → not used before?
//! ```
//! Up to the password nothing is learnt from the answer: a wrong password and an unknown user get the same challenge, and so does anything
//! while a pause after wrong passwords runs. The store is asked for a name that fails whether it belongs to a subscriber or not, and then not again for
//! a while, so that time tells no more ([`CredentialCache::doubt`](super::CredentialCache::doubt)). A nonce that is too old or not for this source gets `stale=true` before anything is looked up (RFC 7616
//! section 3.3 asks no more than that the nonce is invalid): a phone whose address has changed tries again without asking its user.

use super::nonce::{Nonces, Unknown, Use, Used};
use super::{Cached, Challenger, StoredCredentials};
use crate::bans::Offence;
use crate::{Settings, Shared};
use sip_message::digest::{Algorithm, DigestInput, equal_hex, response_md5, response_sha256};
use sip_message::{Credentials, HeaderName, Message, Scheme, Uri};
use sip_transport::Time;
use std::net::IpAddr;

/// Longer names belong to nobody.
const MOST_USERNAME: usize = 255;

/// The nonce-count that stands for a use without one (no `qop`, RFC 2069): it is the last one, so that the nonce is good for
/// a single request.
const ONLY_USE: u32 = u32::MAX;

/// Compared with where there is no such subscriber, so that the answer takes as long.
const NOBODY: StoredCredentials = StoredCredentials {
    ha1_md5: [0; 16],
    ha1_sha256: [0; 32],
};

/// What the request's credentials are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request speaks for this user of `realm`.
    Accepted,
    /// Answer 401/407: no credentials, or none that prove anything. `stale`: the nonce is too old, was issued to another source, or its
    /// count has been used (then the password was right).
    Challenge {
        /// Only the nonce is at fault.
        stale: bool,
    },
    /// Proven to be another subscriber than the one the request speaks for: 403 with this reason phrase.
    Forbidden(&'static str),
    /// 400 with this reason phrase.
    Malformed(&'static str),
    /// Not cached: ask for this subscriber of the realm, park, and call again.
    AskStore {
        /// Whose credentials are needed; not always `username`.
        username: Box<[u8]>,
    },
}

/// The plain challenge.
const CHALLENGE: Verdict = Verdict::Challenge { stale: false };

/// Whom a request must prove to speak for, and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// Who asks for the proof.
    pub challenger: Challenger,
    /// The user part of the address of record that the request speaks for, in canonical form.
    pub username: &'s [u8],
    /// The realm, which is the domain.
    pub realm: &'s [u8],
    /// Where the request came from.
    pub source: IpAddr,
}

/// Judges the request: do its credentials prove that it comes from `subject`?
///
/// The request may be judged again, after a wait for the store or as a retransmission, with the same result for half a minute.
/// Wrong passwords count against their source ([`Bans`](crate::bans::Bans)).
pub fn verify(
    request: &Message<'_>,
    subject: &Subject<'_>,
    shared: &Shared,
    settings: &Settings,
    now: Time,
) -> Verdict {
    let Subject {
        username,
        realm,
        source,
        ..
    } = *subject;
    let claim = match Claim::find(request, subject, settings) {
        Ok(claim) => claim,
        Err(verdict) => return verdict,
    };
    let (nonces, bans) = (&shared.nonces, &shared.bans);
    let place = settings.source(source);
    let Ok(client) = settings.client(request, source) else {
        return Verdict::Malformed("Bad Via");
    };
    let nonce = match nonces.read(claim.credentials.nonce, realm, place) {
        Ok(nonce) => nonce,
        Err(Unknown::Foreign) => return Verdict::Challenge { stale: true },
        Err(Unknown::Misshapen) => return CHALLENGE,
    };
    // Before the password: a former user of this source must not be able to have strikes counted against the present one.
    if nonces.is_stale(nonce, settings.nonce_lifetime.as_secs(), now) {
        return Verdict::Challenge { stale: true };
    }
    let Some(used) = nonces.used(nonce) else {
        return CHALLENGE;
    };
    let claimant = without_domain(claim.credentials.username, realm);
    let is_himself = equal_unescaped(claimant, username);
    let claimant = if is_himself { username } else { claimant };
    if claimant.is_empty()
        || claimant.len() > MOST_USERNAME
        || bans.pauses(client, claimant, realm, now)
    {
        return CHALLENGE;
    }
    let stored = match shared.credentials.find(claimant, realm, now) {
        Cached::Known(stored) => Some(stored),
        Cached::Unknown => None,
        Cached::NotCached => {
            return Verdict::AskStore {
                username: claimant.into(),
            };
        }
    };
    let right = claim.proves(request, stored.as_ref().unwrap_or(&NOBODY));
    if stored.is_some() && !right && shared.credentials.doubt(claimant, realm, now) {
        return Verdict::AskStore {
            username: claimant.into(),
        };
    }
    if stored.is_none() || !right {
        let offence = match stored {
            Some(_) => Offence::WrongPassword,
            None => Offence::UnknownUser,
        };
        let from = (source, client);
        bans.failed(from, (claimant, realm), offence, settings, now);
        return CHALLENGE;
    }
    bans.succeeded(client, claimant, realm);
    if !is_himself {
        return Verdict::Forbidden("Credentials of another user");
    }
    match claim.spend(request, used, nonces, now) {
        Use::Accepted => Verdict::Accepted,
        Use::Spent => Verdict::Challenge { stale: true },
    }
}

/// Credentials for our realm that can be checked.
struct Claim<'a> {
    credentials: Credentials<'a>,
    algorithm: Algorithm,
    /// `nc` as a number and as written, and `cnonce`; `None` without `qop`.
    count: Option<(u32, &'a [u8], &'a [u8])>,
}

impl<'a> Claim<'a> {
    /// The first credentials for our realm with an algorithm that we offer, checked as far as that goes without a password.
    fn find(
        request: &Message<'a>,
        subject: &Subject<'_>,
        settings: &Settings,
    ) -> Result<Self, Verdict> {
        let Subject {
            challenger,
            username,
            realm,
            ..
        } = *subject;
        let (header, malformed) = match challenger {
            Challenger::Registrar => (HeaderName::Authorization, "Bad Authorization"),
            Challenger::Proxy => (HeaderName::ProxyAuthorization, "Bad Proxy-Authorization"),
        };
        let mut broken = false;
        for value in request.values(header) {
            let Some(credentials) = Credentials::parse(value) else {
                broken |= is_digest(value);
                continue;
            };
            let offered = Algorithm::from_token(credentials.algorithm)
                .filter(|algorithm| settings.algorithms.contains(algorithm));
            if let (true, Some(algorithm)) = (credentials.realm == realm, offered) {
                return Self::check(request, credentials, algorithm, username, settings);
            }
        }
        Err(if broken {
            Verdict::Malformed(malformed)
        } else {
            CHALLENGE
        })
    }

    fn check(
        request: &Message<'a>,
        credentials: Credentials<'a>,
        algorithm: Algorithm,
        username: &[u8],
        settings: &Settings,
    ) -> Result<Self, Verdict> {
        let count = match credentials.qop {
            None => None,
            Some(qop) if qop.eq_ignore_ascii_case(b"auth") => {
                let given = credentials
                    .nc
                    .zip(credentials.nc_bytes)
                    .zip(credentials.cnonce);
                let Some(((number, written), cnonce)) = given else {
                    return Err(Verdict::Malformed(
                        "Bad credentials: qop without nc and cnonce",
                    ));
                };
                Some((number, written, cnonce))
            }
            // auth-int was not offered.
            Some(_) => return Err(CHALLENGE),
        };
        if !names_request_uri(credentials.uri, request.request_uri())
            && !names_this_server(credentials.uri, username, settings)
        {
            return Err(Verdict::Malformed("Digest uri does not match Request-URI"));
        }
        Ok(Self {
            credentials,
            algorithm,
            count,
        })
    }

    /// Whether who made these credentials knew the password.
    fn proves(&self, request: &Message<'_>, stored: &StoredCredentials) -> bool {
        let method = request.method();
        let input = DigestInput {
            method: method.as_bytes(),
            uri: self.credentials.uri,
            nonce: self.credentials.nonce,
            qop_auth: self.count.map(|(_, written, cnonce)| (written, cnonce)),
        };
        match self.algorithm {
            Algorithm::Md5 => equal_hex(
                &response_md5(&stored.ha1_md5, &input),
                self.credentials.response,
            ),
            Algorithm::Sha256 => equal_hex(
                &response_sha256(&stored.ha1_sha256, &input),
                self.credentials.response,
            ),
        }
    }

    /// Uses the nonce. What an eavesdropper could change and profit from must not pass as the same request again; the digest
    /// covers only method and URI.
    fn spend(&self, request: &Message<'_>, used: Used<'_>, nonces: &Nonces, now: Time) -> Use {
        let is_covered = |name| {
            use HeaderName::{CSeq, CallId, Contact, Expires, Path, Route, Via};
            matches!(name, Via | CallId | CSeq | Contact | Expires | Path | Route)
        };
        let fields = request.headers().filter(|header| is_covered(header.name));
        let fields = fields.map(|header| (header.name as u8, header.value));
        let rest = [
            (u8::MAX - 1, request.request_uri()),
            (u8::MAX, request.body()),
        ];
        let fingerprint = nonces.fingerprint(fields.chain(rest));
        nonces.spend(
            used,
            self.count.map_or(ONLY_USE, |(number, ..)| number),
            fingerprint,
            now,
        )
    }
}

fn is_digest(value: &[u8]) -> bool {
    value
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"Digest"))
}

/// The digest-uri must name what the Request-URI names (RFC 3261 section 22.4 item 5). Phones differ in how they write it:
/// user and host decide, not port and parameters.
fn names_request_uri(digest_uri: &[u8], request_uri: &[u8]) -> bool {
    if digest_uri == request_uri {
        return true;
    }
    let is_sip = |uri: &Uri<'_>| matches!(uri.scheme, Scheme::Sip | Scheme::Sips);
    match (Uri::parse(digest_uri), Uri::parse(request_uri)) {
        (Some(ours), Some(theirs)) if is_sip(&ours) && is_sip(&theirs) => {
            let user = |uri: &Uri<'_>| uri.user.map(<[u8]>::len).is_some();
            ours.host.matches(&theirs.host)
                && user(&ours) == user(&theirs)
                && equal_unescaped(
                    ours.user.unwrap_or_default(),
                    theirs.user.unwrap_or_default(),
                )
        }
        (Some(ours), Some(theirs)) => ours.equivalent(&theirs),
        _ => false,
    }
}

/// A digest-uri that names no user but us, by domain or address, or the subscriber that the request speaks for, is good for every
/// request that we accept: some programs put there whom they send to or who they are, not the Request-URI, and item 5 asks not to
/// fail for that. What the request really asks for is tied
/// to the nonce by [`Claim::spend`].
fn names_this_server(digest_uri: &[u8], username: &[u8], settings: &Settings) -> bool {
    Uri::parse(digest_uri).is_some_and(|uri| {
        let names_sender = uri.user.is_none_or(|user| equal_unescaped(user, username));
        names_sender && settings.domains.is_us(&uri)
    })
}

/// `alice` of `alice@example.org`, where the domain is the realm.
fn without_domain<'a>(username: &'a [u8], realm: &[u8]) -> &'a [u8] {
    let Some(at) = username.len().checked_sub(realm.len() + 1) else {
        return username;
    };
    match username.split_at_checked(at) {
        Some((user, [b'@', domain @ ..])) if domain.eq_ignore_ascii_case(realm) => user,
        _ => username,
    }
}

/// Whether two names are the same once `%41` is read as `A`.
fn equal_unescaped(ours: &[u8], theirs: &[u8]) -> bool {
    ours == theirs || Unescaped(ours).eq(Unescaped(theirs))
}

struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (first, rest) = self.0.split_first()?;
        if let (b'%', [high, low, behind @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            self.0 = behind;
            return Some((high * 16 + low) as u8);
        }
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_username_may_carry_the_realm() {
        assert_eq!(
            without_domain(b"alice@example.org", b"example.org"),
            b"alice"
        );
        assert_eq!(
            without_domain(b"alice@EXAMPLE.org", b"example.org"),
            b"alice"
        );
        assert_eq!(
            without_domain(b"alice@example.net", b"example.org"),
            b"alice@example.net"
        );
        assert_eq!(without_domain(b"alice", b"example.org"), b"alice");
        assert_eq!(without_domain(b"@example.org", b"example.org"), b"");
    }

    #[test]
    fn names_are_compared_unescaped() {
        assert!(equal_unescaped(b"j%6Fe", b"joe"));
        assert!(equal_unescaped(b"100%25", b"100%"));
        assert!(!equal_unescaped(b"joe", b"Joe"));
        assert!(!equal_unescaped(b"jo", b"joe"));
    }

    #[test]
    fn a_digest_uri_may_be_written_otherwise_but_must_name_the_same() {
        for (digest_uri, request_uri, same) in [
            ("sip:example.org", "sip:example.org", true),
            ("sip:example.org:5060", "sip:example.org", true),
            ("sip:EXAMPLE.org;transport=udp", "sip:example.org", true),
            (
                "sip:b%6Fb@example.org",
                "sip:bob@example.org;user=phone",
                true,
            ),
            ("sip:bob@example.org", "sip:example.org", false),
            ("sip:carol@example.org", "sip:bob@example.org", false),
            ("sip:bob@example.net", "sip:bob@example.org", false),
            ("tel:+1", "tel:+1", true),
            ("tel:+1", "tel:+2", false),
            ("/", "sip:example.org", false),
        ] {
            assert_eq!(
                names_request_uri(digest_uri.as_bytes(), request_uri.as_bytes()),
                same,
                "{digest_uri} {request_uri}"
            );
        }
    }
}
