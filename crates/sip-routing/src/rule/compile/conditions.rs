//! The conditions of a rule.

use super::super::condition::Part;
use super::super::conditions::{Conditions, HeaderCondition, Protocols};
use super::super::description::HeaderDescription;
use super::super::field_name::FieldName;
use super::super::methods::Methods;
use super::super::mistake::Problem;
use super::super::pattern::{Pattern, Subject};
use super::super::sources::Sources;
use super::super::text_set::TextSet;
use super::Compiler;
use sip_message::{HeaderName, Method};
use sip_transport::{IpNet, Listener, ListenerId, Protocol};
use std::net::{IpAddr, SocketAddr};

impl Compiler<'_> {
    pub(super) fn conditions(&mut self) -> Conditions {
        let transports = self.list("transport", self.description.transport.as_deref());
        let conditions = Conditions {
            methods: self.methods(),
            sources: self.sources(),
            listeners: self.listeners(),
            protocols: transports.map(|list| Protocols::new(list.iter().copied())),
            texts: Part::ALL.map(|part| self.texts(part)),
            headers: self.headers(),
        };
        self.check_listeners(&conditions);
        conditions
    }

    fn methods(&mut self) -> Option<Methods> {
        let list = self.list("method", self.description.method.as_deref())?;
        let method = |token: &String| {
            let method = Method::from_bytes(token.as_bytes());
            // The name of a header field is a token, too.
            if HeaderName::from_bytes(token.as_bytes()) == HeaderName::Invalid {
                return Err(Problem::NotMethod(token.clone()));
            }
            match method {
                Method::Ack | Method::Cancel => Err(Problem::FollowingMethod(token.clone())),
                _ => Ok(()),
            }
        };
        for token in list {
            self.checked(method(token));
        }
        Some(Methods::new(
            list.iter()
                .map(|token| Method::from_bytes(token.as_bytes())),
        ))
    }

    fn sources(&mut self) -> Option<Sources> {
        let list = self.list("source", self.description.source.as_deref())?;
        let mut networks = Vec::new();
        for entry in list {
            let found = self.networks(entry);
            networks.extend(self.checked(found).unwrap_or_default());
        }
        Some(Sources::new(networks))
    }

    /// The networks of an entry: a name, a network or an address.
    fn networks(&self, entry: &str) -> Result<Vec<IpNet>, Problem> {
        if let Some((_, networks)) = self.known.networks.iter().find(|(name, _)| *name == entry) {
            return Ok(networks.to_vec());
        }
        if let Ok(address) = entry.parse::<IpAddr>() {
            return Ok(vec![address.into()]);
        }
        match entry.parse::<IpNet>() {
            Ok(network) if network == network.trunc() => Ok(vec![network]),
            Ok(network) => Err(Problem::HostBits {
                address: network.addr().to_string(),
                network: network.trunc().to_string(),
            }),
            Err(_) => Err(Problem::Unknown {
                key: "source",
                name: entry.to_owned(),
                known: self
                    .known
                    .networks
                    .iter()
                    .map(|(name, _)| (*name).to_owned())
                    .collect(),
            }),
        }
    }

    fn listeners(&mut self) -> Option<Box<[ListenerId]>> {
        let list = self.list("listener", self.description.listener.as_deref())?;
        let mut ids = Vec::new();
        for entry in list {
            let wanted = parse_listener(entry);
            let is_meant = |(protocol, address): (Protocol, SocketAddr), listener: &Listener| {
                protocol == listener.protocol && may_be_same(address, listener.address)
            };
            let matching = (0_u16..)
                .zip(self.known.listeners)
                .filter(|(_, listener)| wanted.is_some_and(|wanted| is_meant(wanted, listener)));
            let before = ids.len();
            ids.extend(matching.map(|(index, _)| ListenerId(index)));
            if ids.len() == before {
                self.problem(Problem::Unknown {
                    key: "listener",
                    name: entry.clone(),
                    known: self.known.listeners.iter().map(show_listener).collect(),
                });
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Some(ids.into())
    }

    /// Reports listeners that exclude the transports or the sources.
    fn check_listeners(&mut self, conditions: &Conditions) {
        let Some(ids) = conditions
            .listeners
            .as_deref()
            .filter(|ids| !ids.is_empty())
        else {
            return;
        };
        let known = self.known.listeners;
        let listeners: Vec<&Listener> = ids
            .iter()
            .filter_map(|id| known.get(usize::from(id.0)))
            .collect();
        let allowed = conditions.protocols.unwrap_or(Protocols::ALL);
        if !listeners.iter().any(|it| allowed.contains(it.protocol)) {
            self.problem(Problem::Contradiction {
                one: "listener",
                other: "transport",
                why: "no listener in the list has such a transport",
            });
        }
        let is_v6_only = |sources: &Sources| sources.v4.is_empty() && !sources.v6.is_empty();
        if conditions.sources.as_ref().is_some_and(is_v6_only)
            && listeners.iter().all(|it| it.address.is_ipv4())
        {
            self.problem(Problem::Contradiction {
                one: "listener",
                other: "source",
                why: "no IPv6 address reaches an IPv4 listener",
            });
        }
    }

    fn texts(&mut self, part: Part) -> Option<TextSet> {
        let key = part.condition().key();
        let description = self.description;
        let list = match part {
            Part::User => &description.user,
            Part::Domain => &description.domain,
            Part::FromUser => &description.from_user,
            Part::FromDomain => &description.from_domain,
            Part::ToUser => &description.to_user,
            Part::ToDomain => &description.to_domain,
        };
        let list = self.list(key, list.as_deref())?;
        let subject = if part.is_user() {
            Subject::User
        } else {
            Subject::Domain
        };
        let mut patterns = Vec::new();
        for text in list {
            patterns.extend(self.pattern(key, text, subject));
            if subject == Subject::User {
                patterns.extend(Pattern::for_numbers(text));
            }
        }
        Some(TextSet::new(patterns))
    }

    fn pattern(&mut self, key: &'static str, text: &str, subject: Subject) -> Option<Pattern> {
        self.checked(
            Pattern::parse(text, subject).map_err(|problem| Problem::Pattern {
                key,
                pattern: text.to_owned(),
                problem,
            }),
        )
    }

    fn headers(&mut self) -> Option<Box<[HeaderCondition]>> {
        let list = self.list("header", self.description.header.as_deref())?;
        Some(
            list.iter()
                .filter_map(|header| self.header(header))
                .collect(),
        )
    }

    fn header(&mut self, header: &HeaderDescription) -> Option<HeaderCondition> {
        let value = match &header.value {
            Some(value) => {
                let pattern = self.pattern("header", value, Subject::HeaderValue)?;
                Some(TextSet::new([pattern]))
            }
            None => None,
        };
        let name = FieldName::parse(&header.name).ok_or_else(|| Problem::HeaderName {
            key: "header",
            name: header.name.clone(),
        });
        Some(HeaderCondition {
            name: self.checked(name)?,
            value,
        })
    }
}

/// `transport:address`.
fn parse_listener(entry: &str) -> Option<(Protocol, SocketAddr)> {
    let (transport, address) = entry.split_once(':')?;
    let protocol = Protocol::from_token(transport.as_bytes())?;
    Some((protocol, address.parse().ok()?))
}

/// A listener as operators write it.
pub(in super::super) fn show_listener(listener: &Listener) -> String {
    let protocol = listener.protocol.via_token().to_ascii_lowercase();
    format!("{protocol}:{}", listener.address)
}

/// Whether two addresses may be those of one listener. A wildcard stands for all addresses of its family, and port 0 for all ports.
fn may_be_same(one: SocketAddr, other: SocketAddr) -> bool {
    let is_wild = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_any_port = one.port() == 0 || other.port() == 0;
    one.is_ipv4() == other.is_ipv4()
        && (is_wild || one.ip() == other.ip())
        && (is_any_port || one.port() == other.port())
}
