//! The account of a user agent and the bounds of its tables.

use sip_message::digest::Credential;
use sip_message::{Host, NameAddr, Scheme, Uri};
use std::fmt;
use std::time::Duration;

/// The account, next hop and bounds of a user agent.
#[derive(Clone)]
pub struct AgentSettings {
    /// The address of record: From of requests, To of registrations.
    pub(crate) address: Box<str>,
    /// The user part of the address of record.
    pub(crate) user: Box<str>,
    /// The registrar: the address of record without its user.
    pub(crate) registrar: Box<str>,
    pub(crate) display_name: Option<Box<str>>,
    pub(crate) proxy: Option<Box<str>>,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) bounds: Bounds,
}

/// The bounds of a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls at a time, including those that ended less than 64*T1 ago. Further INVITEs are rejected with 503. Default 1,000.
    pub calls: usize,
    /// The longest time until a call is answered, by us or by the peer, after which it ends. Default 180 s.
    pub ringing: Duration,
    /// Name lookups at a time. Default 256.
    pub lookups: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            calls: 1_000,
            ringing: Duration::from_secs(180),
            lookups: 256,
        }
    }
}

/// Settings that a user agent cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadSettings {
    /// Not a SIP or SIPS URI with a user: `sip:alice@example.org`.
    Address(String),
    /// Not a SIP or SIPS URI: `sip:proxy.example.org`.
    Proxy(String),
    /// A user name with a quote, a backslash or a control character.
    Username(String),
    /// A display name with a control character.
    DisplayName(String),
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(it) => write!(f, "{it:?} is not an address like sip:alice@example.org"),
            Self::Proxy(it) => write!(f, "{it:?} is not a URI like sip:proxy.example.org"),
            Self::Username(it) => {
                write!(
                    f,
                    "user name {it:?} has a quote, a backslash or a control character"
                )
            }
            Self::DisplayName(it) => write!(f, "display name {it:?} has a control character"),
        }
    }
}

impl std::error::Error for BadSettings {}

impl AgentSettings {
    /// Creates settings for an address of record such as `sip:alice@example.org`.
    ///
    /// # Errors
    /// [`BadSettings::Address`].
    pub fn new(address: &str) -> Result<Self, BadSettings> {
        let bad = || BadSettings::Address(address.to_owned());
        let uri = sip_uri(address).ok_or_else(bad)?;
        let user = uri.user.and_then(|user| std::str::from_utf8(user).ok());
        let host = std::str::from_utf8(uri.host_bytes).map_err(|_| bad())?;
        let scheme = if uri.scheme == Scheme::Sips {
            "sips"
        } else {
            "sip"
        };
        let port = uri.port.map(|port| format!(":{port}"));
        Ok(Self {
            address: address.into(),
            user: user.ok_or_else(bad)?.into(),
            registrar: format!("{scheme}:{host}{}", port.unwrap_or_default()).into(),
            display_name: None,
            proxy: None,
            credentials: Vec::new(),
            bounds: Bounds::default(),
        })
    }

    /// Adds a user name and password for challenges of any realm.
    ///
    /// # Errors
    /// [`BadSettings::Username`].
    pub fn credentials(&mut self, username: &str, password: &str) -> Result<(), BadSettings> {
        self.add_credentials(None, username, password)
    }

    /// Adds a user name and password for challenges of one realm. They take precedence over those for any realm.
    ///
    /// # Errors
    /// [`BadSettings::Username`].
    pub fn credentials_for(
        &mut self,
        realm: &str,
        username: &str,
        password: &str,
    ) -> Result<(), BadSettings> {
        self.add_credentials(Some(realm.into()), username, password)
    }

    fn add_credentials(
        &mut self,
        realm: Option<Box<str>>,
        username: &str,
        password: &str,
    ) -> Result<(), BadSettings> {
        let is_bad = |it: char| matches!(it, '"' | '\\') || it.is_control();
        if username.contains(is_bad) {
            return Err(BadSettings::Username(username.to_owned()));
        }
        let place = if realm.is_some() {
            0
        } else {
            self.credentials.len()
        };
        let credential = Credential {
            realm,
            username: username.into(),
            password: password.into(),
        };
        self.credentials.insert(place, credential);
        Ok(())
    }

    /// Sends all requests outside dialogs to this proxy (RFC 3261 section 8.1.2): `sip:proxy.example.org;transport=tcp`.
    ///
    /// # Errors
    /// [`BadSettings::Proxy`].
    pub fn proxy(&mut self, uri: &str) -> Result<(), BadSettings> {
        let bad = || BadSettings::Proxy(uri.to_owned());
        let parsed = sip_uri(uri).ok_or_else(bad)?;
        let is_loose = parsed.params.contains(b"lr");
        let loose = if is_loose { "" } else { ";lr" };
        self.proxy = Some(format!("{uri}{loose}").into());
        Ok(())
    }

    /// Sets the name to display in From.
    ///
    /// # Errors
    /// [`BadSettings::DisplayName`].
    pub fn display_name(&mut self, name: &str) -> Result<(), BadSettings> {
        if name.contains(char::is_control) {
            return Err(BadSettings::DisplayName(name.to_owned()));
        }
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        self.display_name = Some(format!("\"{escaped}\"").into());
        Ok(())
    }

    /// Sets the bounds.
    pub const fn bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The value of From (or To of a registration), with this tag.
    pub(crate) fn local(&self, tag: &str) -> Box<[u8]> {
        let name = self.display_name.as_deref();
        let (name, space) = (
            name.unwrap_or_default(),
            if name.is_some() { " " } else { "" },
        );
        format!("{name}{space}<{}>;tag={tag}", self.address)
            .into_bytes()
            .into()
    }
}

/// A SIP or SIPS URI that fits into a name-addr, without header fields.
pub(crate) fn sip_uri(text: &str) -> Option<Uri<'_>> {
    let uri = Uri::parse(text.as_bytes())?;
    let is_sip = matches!(uri.scheme, Scheme::Sip | Scheme::Sips);
    let has_host = uri.host != Host::Name(b"");
    let bracketed = format!("<{text}>");
    let fits = NameAddr::parse(bracketed.as_bytes())
        .is_some_and(|parsed| parsed.uri_bytes == text.as_bytes());
    (is_sip && has_host && fits && uri.headers.is_none()).then_some(uri)
}

impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSettings")
            .field("address", &self.address)
            .field("proxy", &self.proxy)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_record_names_its_registrar() {
        for (address, registrar) in [
            ("sip:alice@example.org", "sip:example.org"),
            ("sips:alice@example.org:5071", "sips:example.org:5071"),
            ("sip:alice@[2001:db8::1]", "sip:[2001:db8::1]"),
        ] {
            let settings = AgentSettings::new(address).expect("an address");
            assert_eq!(
                (&*settings.user, &*settings.registrar),
                ("alice", registrar)
            );
        }
    }

    #[test]
    fn settings_that_would_break_a_message_are_refused() {
        for address in [
            "sip:example.org",
            "tel:123",
            "alice",
            "sip:a@b>;tag=1",
            "sip:a@b?x=y",
        ] {
            assert!(AgentSettings::new(address).is_err(), "{address}");
        }
        let mut settings = AgentSettings::new("sip:a@b").expect("an address");
        assert!(settings.credentials("al\"ice", "").is_err());
        assert!(settings.proxy("proxy.example.org").is_err());
        assert!(settings.display_name("Alice\r\nX: y").is_err());
        settings.display_name("The \"A\"").expect("a name");
        let local = settings.local("1");
        assert_eq!(&*local, br#""The \"A\"" <sip:a@b>;tag=1"#);
    }

    #[test]
    fn passwords_are_not_printed() {
        let mut settings = AgentSettings::new("sip:a@b").expect("an address");
        settings.credentials("alice", "geheim").expect("a name");
        assert!(!format!("{settings:?}").contains("geheim"));
    }
}
