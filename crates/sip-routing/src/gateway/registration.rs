//! The registration of this server at a gateway that requires one (RFC 3261 section 10): what the configuration says, and what operators see.
//! One worker registers for all, and writes the state here.

use super::server::Gateway;
use sip_message::{Scheme, Uri};
use sip_transport::Time;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationDescription {
    /// The address of record, with a user: `sip:4930123@trunk.example.net`.
    address: Box<str>,
    /// The registrar: the address of record without its user.
    registrar: Box<str>,
    /// The user of the Contact, to which the gateway sends calls.
    contact_user: Box<str>,
    /// The lifetime to ask for.
    expires: Duration,
}

impl RegistrationDescription {
    /// A registration of this address of record. Without `contact_user`, the Contact has the user of the address. `None` if the address is not
    /// a SIP URI with a user and without parameters, or if the user is empty or contains a character that a URI must escape.
    pub fn new(address: &str, contact_user: Option<&str>, expires: Duration) -> Option<Self> {
        let uri = Uri::parse(address.as_bytes())?;
        let user = std::str::from_utf8(uri.user?).ok()?;
        let contact_user = contact_user.unwrap_or(user);
        let host = std::str::from_utf8(uri.host_bytes).ok()?;
        let port = uri.port.map(|port| format!(":{port}"));
        let port = port.unwrap_or_default();
        let is_plain = address == format!("sip:{user}@{host}{port}");
        let is_complete = uri.scheme == Scheme::Sip && is_plain && !user.is_empty();
        (is_complete && is_user(user) && is_user(contact_user)).then(|| Self {
            address: address.into(),
            registrar: format!("sip:{host}{port}").into(),
            contact_user: contact_user.into(),
            expires,
        })
    }

    /// The address of record.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The Request-URI of a REGISTER.
    pub fn registrar(&self) -> &str {
        &self.registrar
    }

    /// The user of the Contact.
    pub fn contact_user(&self) -> &str {
        &self.contact_user
    }

    /// The lifetime to ask for.
    pub const fn expires(&self) -> Duration {
        self.expires
    }
}

/// Whether a text can be the user of a URI as it is (RFC 3261 section 25.1).
fn is_user(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/%#".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Whether this server is registered at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// Not yet, or not any more.
    Unregistered,
    /// The registrar has granted a binding that has not expired.
    Registered,
    /// The last attempt has failed, and there is no binding.
    Failed,
}

impl RegistrationState {
    /// The name for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unregistered => "unregistered",
            Self::Registered => "registered",
            Self::Failed => "failed",
        }
    }
}

/// The state of a registration, written by one worker.
#[derive(Debug, Default)]
pub(super) struct Registration {
    /// When the binding expires, in microseconds; 0 if there is none.
    expires_at: AtomicU64,
    /// When the next attempt is due, in microseconds; 0 if none is planned.
    next_attempt: AtomicU64,
    /// The last final response; 0 if there was none.
    status: AtomicU16,
    has_failed: AtomicBool,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// A registration at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationView<'g> {
    /// The address of record.
    pub address: &'g str,
    /// The state.
    pub state: RegistrationState,
    /// When the binding expires unless it is refreshed.
    pub expires_at: Option<Time>,
    /// When the next attempt is due.
    pub next_attempt: Option<Time>,
    /// The last final response; `None` if the last attempt got none.
    pub status: Option<u16>,
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
}

impl Gateway {
    /// The registration at this moment; `None` if the gateway requires none.
    pub fn registration_view(&self, now: Time) -> Option<RegistrationView<'_>> {
        let description = self.description.registration.as_ref()?;
        let Registration {
            expires_at,
            next_attempt,
            status,
            has_failed,
            succeeded,
            failed,
        } = &*self.registration;
        let time = |micros: &AtomicU64| {
            let micros = Some(micros.load(Relaxed)).filter(|micros| *micros > 0);
            micros.map(Time::from_micros)
        };
        let expires_at = time(expires_at).filter(|at| *at > now);
        let state = if expires_at.is_some() {
            RegistrationState::Registered
        } else if has_failed.load(Relaxed) {
            RegistrationState::Failed
        } else {
            RegistrationState::Unregistered
        };
        Some(RegistrationView {
            address: &description.address,
            state,
            expires_at,
            next_attempt: time(next_attempt),
            status: Some(status.load(Relaxed)).filter(|status| *status > 0),
            succeeded: succeeded.load(Relaxed),
            failed: failed.load(Relaxed),
        })
    }

    /// Records that the registrar has granted a binding until `expires_at`.
    pub fn registered(&self, status: u16, expires_at: Time, next_attempt: Time) {
        let state = &self.registration;
        state.expires_at.store(expires_at.as_micros(), Relaxed);
        state.succeeded.fetch_add(1, Relaxed);
        state.note(Some(status), false, next_attempt.as_micros());
    }

    /// Records that an attempt to register has failed, with this final response if there was one.
    pub fn registration_failed(&self, status: Option<u16>, next_attempt: Time) {
        self.registration.failed.fetch_add(1, Relaxed);
        self.registration
            .note(status, true, next_attempt.as_micros());
    }

    /// Records that this server is not registered any more, or does not try to be.
    pub fn unregistered(&self) {
        self.registration.expires_at.store(0, Relaxed);
        self.registration.note(None, false, 0);
    }
}

impl Registration {
    fn note(&self, status: Option<u16>, has_failed: bool, next_attempt: u64) {
        self.status.store(status.unwrap_or(0), Relaxed);
        self.has_failed.store(has_failed, Relaxed);
        self.next_attempt.store(next_attempt, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_record_has_a_user_and_names_its_registrar() {
        let new = |address, user| RegistrationDescription::new(address, user, Duration::ZERO);
        let found = new("sip:4930@trunk.example.net:5070", None).expect("valid");
        assert_eq!(
            (found.registrar(), found.contact_user()),
            ("sip:trunk.example.net:5070", "4930")
        );
        let found = new("sip:a@[2001:db8::1]", Some("line-1")).expect("valid");
        assert_eq!(
            (found.registrar(), found.contact_user()),
            ("sip:[2001:db8::1]", "line-1")
        );
        for (address, user) in [
            ("sip:trunk.example.net", None),
            ("sips:a@b", None),
            ("tel:+49", None),
            ("sip:a@b;transport=tcp", None),
            ("sip:a:secret@b", None),
            ("sip:a\"@b", None),
            ("sip:a@b", Some("")),
            ("sip:a@b", Some("c>")),
            ("sip:a@b", Some("c@d")),
        ] {
            assert_eq!(new(address, user), None, "{address} {user:?}");
        }
    }
}
