//! Value types for hosts and files: domains, advertised addresses, the next hop, the database, certificates, and for worker counts.
use super::redis_url::RedisUrl;
use super::{Listed, Setting, Wrong, quoted, text, whole_number};
use sip_message::{Host, Scheme, Uri};
use sip_transport::Protocol;
use sip_transport::selection::Destination;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tandem_store::StoreError;
use toml::de::DeValue;

/// A file path; a relative path starts at the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(pub std::path::PathBuf);

impl Setting for FilePath {
    fn expected() -> String {
        "a file path, such as \"/etc/tandem/chain.pem\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(Wrong::default());
        }
        Ok(Self(text.into()))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0.to_string_lossy()))
    }
}

/// A domain that the server is responsible for, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainName(pub String);

impl Setting for DomainName {
    fn expected() -> String {
        "a domain name, such as \"example.org\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let name = text.strip_suffix('.').unwrap_or(text);
        match Host::parse(name.as_bytes()) {
            Some(Host::Name(_)) => Ok(Self(name.to_ascii_lowercase())),
            Some(Host::Address(_)) => Err(Wrong::hint(
                "do not list the server's own addresses: the first domain covers them",
            )),
            None if text.contains(':') => Err(Wrong::hint("remove the scheme and the port")),
            None => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

impl Listed for DomainName {
    fn plural() -> String {
        "domain names".to_owned()
    }
}

/// A prefix of a client's User-Agent, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName(pub String);

impl Setting for AgentName {
    fn expected() -> String {
        "a User-Agent prefix, such as \"friendly-scanner\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            return Err(Wrong::default());
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

impl Listed for AgentName {
    fn plural() -> String {
        "User-Agent prefixes".to_owned()
    }
}

/// The address that a listener puts into Via, Record-Route and Contact: `host` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised(pub String);

impl Setting for Advertised {
    fn expected() -> String {
        "a host with an optional port, such as \"203.0.113.5:5060\", \"sip.example.org\" or \"[2001:db8::5]:5060\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let uri = format!("sip:{text}");
        match Uri::parse(uri.as_bytes()) {
            Some(uri)
                if uri.user.is_none()
                    && uri.params.as_bytes().is_empty()
                    && uri.headers.is_none() =>
            {
                Ok(Self(text.to_owned()))
            }
            _ if text.parse::<std::net::Ipv6Addr>().is_ok() => {
                Err(Wrong::hint("put the IPv6 address in brackets"))
            }
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// The next hop for requests to other domains: the SIP URI of a server, located by RFC 3263.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop(pub Destination);

impl NextHop {
    /// The next hop as a SIP URI.
    pub fn uri(&self) -> String {
        let Destination {
            host,
            port,
            protocol,
            secure,
        } = &self.0;
        let scheme = if *secure { "sips" } else { "sip" };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let transport = protocol.map(|protocol| {
            let word = protocol.via_token().to_ascii_lowercase();
            format!(";transport={word}")
        });
        format!("{scheme}:{host}{port}{}", transport.unwrap_or_default())
    }
}

impl Setting for NextHop {
    fn expected() -> String {
        "a SIP URI, such as \"sip:192.0.2.9:5060\" or \"sip:trunk.example.net;transport=tcp\""
            .to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let Some(uri) = Uri::parse(text.as_bytes()) else {
            let address = text.parse::<SocketAddr>().is_ok();
            return Err(if address {
                Wrong::hint(format!("add the scheme: \"sip:{text}\""))
            } else {
                Wrong::default()
            });
        };
        let secure = match uri.scheme {
            Scheme::Sip => false,
            Scheme::Sips => true,
            _ => return Err(Wrong::default()),
        };
        let only_transport = uri
            .params
            .iter()
            .all(|(name, _)| name.eq_ignore_ascii_case(b"transport"));
        if !only_transport || uri.user.is_some() || uri.headers.is_some() {
            return Err(Wrong::hint(
                "remove the user and all parameters except `transport`",
            ));
        }
        let protocol = match uri.params.value(b"transport") {
            None => None,
            Some(token) => Some(protocol(token)?),
        };
        let host = std::str::from_utf8(uri.host_bytes).map_err(|_| Wrong::default())?;
        Ok(Self(Destination {
            host: host.into(),
            port: uri.port,
            protocol,
            secure,
        }))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.uri()))
    }
}

fn protocol(token: &[u8]) -> Result<Protocol, Wrong> {
    let known = Protocol::ALL.into_iter();
    let mut named = known.filter(|it| it.via_token().as_bytes().eq_ignore_ascii_case(token));
    let wrong = || Wrong::hint("the transport must be udp, tcp, tls, ws or wss");
    named.next().ok_or_else(wrong)
}

/// The database URL, with the password, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseUrl(pub String);

impl DatabaseUrl {
    /// The file of the database; `None`: a server has it.
    pub fn file(&self) -> Option<&Path> {
        let path = self.0.strip_prefix("sqlite:")?;
        Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
    }

    /// The same URL without the password.
    #[must_use]
    pub fn shown(&self) -> Self {
        Self(tandem_store::shown_url(&self.0))
    }
}

impl Setting for DatabaseUrl {
    fn expected() -> String {
        "a database URL, such as \"sqlite:tandem.db\" or \"postgres://tandem@db.example.org/tandem\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        match tandem_store::check_url(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(StoreError::Url { problem, .. }) => Err(Wrong {
                is_secret: text.contains('@') || text.contains("password="),
                ..Wrong::hint(problem)
            }),
            Err(other) => Err(Wrong::hint(other.to_string())),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// A HEP collector: its address. It is reached over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HepCollector(pub SocketAddr);

impl Setting for HepCollector {
    fn expected() -> String {
        "a collector, such as \"udp:192.0.2.5:9060\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let Some(address) = text.strip_prefix("udp:") else {
            return Err(Wrong::hint("begin with udp:"));
        };
        match address.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 || address.ip().is_unspecified() => Err(
                Wrong::hint("it must be an address that packets can be sent to"),
            ),
            Ok(address) => Ok(Self(address)),
            Err(_) if address.parse::<IpAddr>().is_ok() => {
                Err(Wrong::hint("the port is missing, usually 9060"))
            }
            Err(_) => Err(Wrong::hint(
                "use an IP address instead of a name, and a port",
            )),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&format!("udp:{}", self.0)))
    }
}

/// Where bindings are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationStore {
    /// In memory; changes are saved to the database.
    Memory,
    /// In the memory of all nodes of a fleet, and in a Redis or Valkey server.
    Redis(Box<RedisUrl>),
}

impl LocationStore {
    /// The server that the nodes of a fleet share.
    pub const fn redis(&self) -> Option<&RedisUrl> {
        match self {
            Self::Memory => None,
            Self::Redis(url) => Some(url),
        }
    }

    /// The same store to show, without the password.
    #[must_use]
    pub fn shown(&self) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Redis(url) => Self::Redis(Box::new(url.shown())),
        }
    }
}

impl Setting for LocationStore {
    fn expected() -> String {
        format!("\"memory\", or {}", RedisUrl::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match text(value)? {
            "memory" => Ok(Self::Memory),
            other if other.starts_with("valkey") => Err(Wrong {
                is_secret: other.contains(['@', '?']),
                ..Wrong::hint("write redis:// for a Valkey server, too")
            }),
            _ => RedisUrl::read(value).map(|url| Self::Redis(Box::new(url))),
        }
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Self::Memory => Some(quoted("memory")),
            Self::Redis(url) => url.to_toml(),
        }
    }
}

/// A number of worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One worker per core.
    Auto,
    /// This number.
    Exactly(u16),
}

impl Count {
    /// The maximum: no machine benefits from more.
    pub const MOST: u16 = 256;

    /// The number of workers on this machine.
    pub fn resolve(self) -> u16 {
        match self {
            Self::Exactly(count) => count,
            Self::Auto => {
                let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                u16::try_from(cores).unwrap_or(Self::MOST).min(Self::MOST)
            }
        }
    }
}

impl Setting for Count {
    fn expected() -> String {
        format!("\"auto\" or a whole number from 1 to {}", Self::MOST)
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        if value.as_str() == Some("auto") {
            return Ok(Self::Auto);
        }
        match u16::try_from(whole_number(value)?) {
            Ok(count @ 1..=Self::MOST) => Ok(Self::Exactly(count)),
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quoted("auto"),
            Self::Exactly(count) => count.to_string(),
        })
    }
}
