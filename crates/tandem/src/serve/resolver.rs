//! Locates the servers of a destination (RFC 3263): asks name servers for the records that the selection wants, one step after the other.
//! Answers are kept as long as their TTL says, those that say "there is none" too, in a cache of bounded size; a question that is
//! under way is not asked again.
use crate::config::Dns;
use futures_util::future::join_all;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use sip_transport::selection::{
    Candidate, Destination, Naptr, Reach, Selection, Server, Service, Srv, Step,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{debug, warn};

/// For how long "there is none" is believed where the answer does not say (RFC 2308 section 5).
const SHORTEST_ABSENCE: Duration = Duration::from_secs(1);
/// The longest time an answer is used: TTLs of weeks do exist.
const LONGEST_PRESENCE: Duration = Duration::from_secs(86_400);
/// The longest time "there is none" is believed.
const LONGEST_ABSENCE: Duration = Duration::from_secs(900);
/// Questions under way to one name server.
const UNDER_WAY: usize = 256;

/// Why a resolver could not be made, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoResolver(String);

impl std::fmt::Display for NoResolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What came of locating a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Best first; empty: none.
    pub candidates: Vec<Candidate>,
    /// Whether a name server did not answer, or not properly: there may be more than was found.
    pub incomplete: bool,
}

/// Asks the name servers.
pub struct Resolver {
    dns: TokioResolver,
    hosts: Arc<Hosts>,
    reach: Reach,
}

/// Remembers whether any question failed, while several are under way.
#[derive(Default)]
struct Failed(AtomicBool);

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl Resolver {
    /// With the name servers of the configuration, else those of the system, for a node that reaches so far. Must be called on a tokio
    /// runtime.
    ///
    /// # Errors
    /// What is wrong with the system's configuration.
    pub fn new(settings: &Dns, reach: Reach) -> Result<Self, NoResolver> {
        let (config, system) = if settings.servers.is_empty() {
            system_conf::read_system_conf().unwrap_or_else(|error| {
                warn!(%error, "/etc/resolv.conf says no name server: names are looked up in /etc/hosts only");
                let none = ResolverConfig::from_name_servers(Vec::new());
                (none, ResolverOpts::default())
            })
        } else {
            let servers = settings.servers.iter().map(|server| name_server(*server));
            let config = ResolverConfig::from_name_servers(servers.collect());
            (config, ResolverOpts::default())
        };
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options(settings, system, reach);
        let mut dns = builder
            .build()
            .map_err(|error| NoResolver(format!("names cannot be resolved: {error}")))?;
        let hosts = Arc::new(Hosts::from_system().unwrap_or_default());
        dns.set_hosts(Arc::clone(&hosts));
        Ok(Self { dns, hosts, reach })
    }

    /// The candidates of a destination. `seed` is the chance for the draw among its servers.
    pub async fn locate(&self, destination: &Destination, seed: u64) -> Located {
        let selection = Selection::new(destination, self.reach);
        let failed = Failed::default();
        let mut step = self.begin(&selection, destination);
        let candidates = loop {
            step = match step {
                Step::Naptr(name) => selection.naptr(&self.naptr(&name, &failed).await),
                Step::Srv(services) => {
                    let found = services
                        .into_iter()
                        .map(|service| self.srv(service, &failed));
                    selection.srv(&join_all(found).await, seed)
                }
                Step::Addresses(servers) => {
                    let found = servers
                        .into_iter()
                        .map(|server| self.addresses(server, &failed));
                    break selection.addresses(&join_all(found).await);
                }
            };
        };
        Located {
            candidates,
            incomplete: failed.0.load(Ordering::Relaxed),
        }
    }

    /// The first step. Of a host that /etc/hosts knows nobody else is asked.
    fn begin(&self, selection: &Selection<'_>, destination: &Destination) -> Step {
        let mut step = selection.begin();
        if self.local(&destination.host).is_empty() {
            return step;
        }
        if let Step::Naptr(_) = step {
            step = selection.naptr(&[]);
        }
        if let Step::Srv(services) = step {
            let none: Vec<_> = services.into_iter().map(|it| (it, Vec::new())).collect();
            step = selection.srv(&none, 0);
        }
        step
    }

    async fn naptr(&self, name: &str, failed: &Failed) -> Vec<Naptr> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into();
        let records = self.records(name, RecordType::NAPTR, failed).await;
        let naptr = records.iter().filter_map(|data| match data {
            RData::NAPTR(it) => Some(Naptr {
                order: it.order,
                preference: it.preference,
                flags: text(&it.flags),
                service: text(&it.services),
                replacement: it.replacement.to_ascii().into(),
            }),
            _ => None,
        });
        naptr.collect()
    }

    async fn srv(&self, service: Service, failed: &Failed) -> (Service, Vec<Srv>) {
        let records = self.records(&service.name, RecordType::SRV, failed).await;
        let srv = records.iter().filter_map(|data| match data {
            RData::SRV(it) => Some(Srv {
                priority: it.priority,
                weight: it.weight,
                port: it.port,
                target: it.target.to_ascii().into(),
            }),
            _ => None,
        });
        let srv = srv.collect();
        (service, srv)
    }

    async fn addresses(&self, server: Server, failed: &Failed) -> (Server, Vec<IpAddr>) {
        let local = self.local(&server.host);
        if !local.is_empty() {
            return (server, local);
        }
        // A name of one label may be one of the search list.
        let name = if server.host.contains('.') {
            absolute(&server.host)
        } else {
            Name::from_ascii(&*server.host).ok()
        };
        let Some(name) = name else {
            return (server, Vec::new());
        };
        let addresses = match self.dns.lookup_ip(name).await {
            Ok(found) => found.iter().collect(),
            Err(error) => {
                failed.note(&server.host, &error);
                Vec::new()
            }
        };
        (server, addresses)
    }

    /// The addresses of a host in /etc/hosts.
    fn local(&self, host: &str) -> Vec<IpAddr> {
        let Some(name) = absolute(host) else {
            return Vec::new();
        };
        let found = [RecordType::AAAA, RecordType::A].map(|kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query)
        });
        let records = found.iter().flatten().flat_map(Lookup::answers);
        records.filter_map(|record| record.data.ip_addr()).collect()
    }

    async fn records(&self, name: &str, kind: RecordType, failed: &Failed) -> Vec<RData> {
        let Some(absolute) = absolute(name) else {
            return Vec::new();
        };
        match self.dns.lookup(absolute, kind).await {
            Ok(found) => {
                let records = found.answers().iter();
                records.map(|record| record.data.clone()).collect()
            }
            Err(error) => {
                failed.note(name, &error);
                Vec::new()
            }
        }
    }
}

impl Failed {
    /// "There is none" is an answer; anything else is a failure.
    fn note(&self, name: &str, error: &NetError) {
        if !error.is_no_records_found() {
            debug!(name, %error, "a name server did not say");
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A name to which no search list applies; `None`: it is none.
fn absolute(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let connections = connections.map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.to_vec())
}

fn options(settings: &Dns, system: ResolverOpts, reach: Reach) -> ResolverOpts {
    let mut options = system;
    options.timeout = settings.timeout.duration();
    options.attempts = settings.attempts;
    options.cache_size = settings.cache_size as u64;
    options.negative_min_ttl = Some(SHORTEST_ABSENCE);
    options.negative_max_ttl = Some(LONGEST_ABSENCE);
    options.positive_max_ttl = Some(LONGEST_PRESENCE);
    options.max_active_requests = UNDER_WAY;
    options.ip_strategy = match reach.families() {
        (true, false) => LookupIpStrategy::Ipv4Only,
        (false, true) => LookupIpStrategy::Ipv6Only,
        _ => LookupIpStrategy::Ipv6AndIpv4,
    };
    options
}
