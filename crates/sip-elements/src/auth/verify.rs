//! Checks the credentials of a request: RFC 3261 sections 22.3 and 22.4, RFC 7616 section 3.4, RFC 8760.
//!
//! ```text
//! ours? well-formed? for this URI? → our nonce, for this source, still good? → no pause? → which user? → password right? → same identity?
//!   → not used before?
//! ```
//! An attacker without the password learns nothing from the response. A wrong password and an unknown user get the same
//! challenge, and so do all credentials during a pause after wrong passwords.
//!
//! The response time reveals nothing either. The store is asked for a name that fails, whether it belongs to a subscriber
//! or not, and then not again for a while ([`CredentialCache::doubt`](super::CredentialCache::doubt)).
//!
//! A nonce that is too old or not for this source gets `stale=true` before anything is looked up. RFC 7616 section 3.3
//! only requires that the nonce is invalid. So a phone with a new address retries without asking its user.

use super::nonce::{Nonces, Unknown, Used};
use super::{Cached, Challenger, StoredCredentials};
use crate::bans::{Notice, Offence, Strike};
use crate::{Settings, View};
use sip_message::digest::{Algorithm, DigestInput, equal_hex, response_md5, response_sha256};
use sip_message::{Credentials, HeaderName, Message, Scheme, Uri};
use sip_transport::Time;
use std::net::IpAddr;

/// No user has a longer name.
const MAX_USERNAME: usize = 255;

/// The nonce-count of credentials without one (no `qop`, RFC 2069). It is the highest, so that the nonce is valid for a
/// single request.
const ONLY_USE: u32 = u32::MAX;

/// Replaces the stored credentials if there is no such subscriber, so that the response takes equally long.
const NOBODY: StoredCredentials = StoredCredentials {
    ha1_md5: [0; 16],
    ha1_sha256: [0; 32],
};

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The credentials prove that the request comes from this user of `realm`.
    Accepted,
    /// Answer 401 or 407: there are no credentials, or none that prove anything. With `stale`, the nonce is too old, was
    /// issued to another source, or its count was already used (then the password was right).
    Challenge {
        /// Whether only the nonce is invalid.
        stale: bool,
    },
    /// 403 with this reason phrase: the credentials prove another subscriber than the one the request speaks for.
    Forbidden(&'static str),
    /// 400 with this reason phrase.
    Malformed(&'static str),
    /// Not cached: ask for this subscriber of the realm, park the request, and call again.
    AskStore {
        /// The user whose credentials are needed. This is not always `username`.
        username: Box<[u8]>,
    },
}

/// A challenge that does not set `stale`.
const CHALLENGE: Verdict = Verdict::Challenge { stale: false };

/// The user that a request must prove to speak for, and where the request came from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The role that asks for the proof.
    pub challenger: Challenger,
    /// The user part of the address of record that the request speaks for, in canonical form.
    pub username: &'s [u8],
    /// The realm, which is the domain.
    pub realm: &'s [u8],
    /// The source of the request.
    pub source: IpAddr,
}

/// Checks whether the credentials of a request prove that it comes from `subject`.
///
/// You can check a request again, after waiting for the store or because it was retransmitted. The result stays the same
/// for half a minute.
///
/// Wrong passwords count against their source ([`Bans`](crate::bans::Bans)). `notify` gets what belongs in the operator's log.
pub fn verify(
    request: &Message<'_>,
    subject: &Subject<'_>,
    view: View<'_>,
    notify: &mut dyn FnMut(Notice),
) -> Verdict {
    let View {
        now,
        settings,
        shared,
    } = view;
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
    let bans = &shared.bans;
    let Ok(client) = settings.client(request, source) else {
        return Verdict::Malformed("Bad Via");
    };
    // This comes before the password. Otherwise a former user of this source could cause strikes against the present one.
    let used = match current_nonce(&claim, subject, view) {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    let claimant = without_domain(claim.credentials.username, realm);
    let is_himself = equal_unescaped(claimant, username);
    let claimant = if is_himself { username } else { claimant };
    if claimant.is_empty()
        || claimant.len() > MAX_USERNAME
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
        bans.pause(client, claimant, realm, now);
        let strike = Strike {
            address: source,
            username: claimant,
            offence,
            call_id: request.call_id().unwrap_or_default(),
        };
        bans.strike(&strike, settings, now, notify);
        return CHALLENGE;
    }
    bans.succeeded(client, claimant, realm);
    if !is_himself {
        return Verdict::Forbidden("Credentials of another user");
    }
    if claim.spend(request, &used, &shared.nonces, now) {
        Verdict::Accepted
    } else {
        Verdict::Challenge { stale: true }
    }
}

/// The nonce of the credentials, if this server issued it to their source and it is still valid.
fn current_nonce<'v>(
    claim: &Claim<'_>,
    subject: &Subject<'_>,
    view: View<'v>,
) -> Result<Used<'v>, Verdict> {
    let (nonces, settings) = (&view.shared.nonces, view.settings);
    let place = settings.source(subject.source);
    let nonce = match nonces.read(claim.credentials.nonce, subject.realm, place) {
        Ok(nonce) => nonce,
        Err(Unknown::Foreign) => return Err(Verdict::Challenge { stale: true }),
        Err(Unknown::Misshapen) => return Err(CHALLENGE),
    };
    // A node that takes over must accept what another one has issued: a new challenge in the middle of a call set-up would begin a second
    // transaction, beside the one that the callee has.
    let is_alone = settings.fleet.is_none() && !nonces.is_shared();
    let is_foreign = is_alone && nonces.is_of_another_process(nonce);
    let stale = Verdict::Challenge { stale: true };
    if is_foreign || Nonces::is_expired(nonce, settings.nonce_lifetime.as_secs(), view.now) {
        return Err(stale);
    }
    nonces.used(nonce).ok_or(stale)
}

/// Credentials for our realm that can be checked.
struct Claim<'a> {
    credentials: Credentials<'a>,
    algorithm: Algorithm,
    /// `nc` as a number and as written, and `cnonce`. `None` without `qop`.
    count: Option<(u32, &'a [u8], &'a [u8])>,
}

impl<'a> Claim<'a> {
    /// Finds the first credentials for our realm with an algorithm that we offer. Checks everything that needs no password.
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
            // The server does not offer auth-int.
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

    /// Whether the sender of these credentials knew the password.
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

    /// Uses the nonce. The digest covers only method and URI. So the fingerprint covers everything else that an
    /// eavesdropper could change with profit: a changed request must not pass as a retransmission.
    fn spend(&self, request: &Message<'_>, used: &Used<'_>, nonces: &Nonces, now: Time) -> bool {
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

/// Whether the digest-uri names the same as the Request-URI (RFC 3261 section 22.4 item 5). Phones write it in different
/// ways, so only user and host are compared, not port and parameters.
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

/// Whether the digest-uri names this server (by domain or address) without a user or with the user that the request speaks for.
///
/// Such a digest-uri is accepted for every request. Some clients write the server or themselves there instead of the
/// Request-URI, and item 5 does not require a failure. [`Claim::spend`] ties the actual content of the request to the
/// nonce.
fn names_this_server(digest_uri: &[u8], username: &[u8], settings: &Settings) -> bool {
    Uri::parse(digest_uri).is_some_and(|uri| {
        let names_sender = uri.user.is_none_or(|user| equal_unescaped(user, username));
        names_sender && settings.domains.is_us(&uri)
    })
}

/// Returns `alice` for `alice@example.org`, if the domain is the realm.
fn without_domain<'a>(username: &'a [u8], realm: &[u8]) -> &'a [u8] {
    let Some(at) = username.len().checked_sub(realm.len() + 1) else {
        return username;
    };
    match username.split_at_checked(at) {
        Some((user, [b'@', domain @ ..])) if domain.eq_ignore_ascii_case(realm) => user,
        _ => username,
    }
}

/// Whether two names are equal after percent-decoding, so that `%41` equals `A`.
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
