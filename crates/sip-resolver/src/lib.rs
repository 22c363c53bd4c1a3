//! Locates the servers of a destination (RFC 3263): queries name servers for the records that the selection requests, step by step.
//! Positive and negative answers are cached for their TTL in a cache of bounded size. A query in progress is not sent again.
//!
//! The selection itself is sans-IO ([`sip_transport::selection`]). This crate adds the queries. It needs a tokio runtime.
//!
//! ```no_run
//! # use sip_transport::selection::{Destination, Reach};
//! # async fn locate(destination: Destination, reach: Reach) -> Result<(), sip_resolver::ResolverError> {
//! let resolver = sip_resolver::Resolver::new(&sip_resolver::Settings::default(), reach)?;
//! let located = resolver.locate(&destination, 1).await;
//! println!("{:?}", located.candidates);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

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

/// TTL of a negative answer that carries none (RFC 2308 section 5).
const SHORTEST_ABSENCE: Duration = Duration::from_secs(1);
/// Maximum TTL of a positive answer: some servers send TTLs of weeks.
const LONGEST_PRESENCE: Duration = Duration::from_secs(86_400);
/// Maximum TTL of a negative answer.
const LONGEST_ABSENCE: Duration = Duration::from_secs(900);
/// Concurrent queries to one name server.
const UNDER_WAY: usize = 256;

/// Settings of the resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name servers. If empty, those of `/etc/resolv.conf` are used.
    pub servers: Vec<SocketAddr>,
    /// How long a name server may take to answer before the query is retried. Default 800 ms.
    pub timeout: Duration,
    /// Number of retries for a query without an answer. Default 2.
    pub attempts: usize,
    /// Maximum number of cached answers. Default 16,384.
    pub cache_size: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_millis(800),
            attempts: 2,
            cache_size: 16_384,
        }
    }
}

/// The resolver cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("cannot resolve names: {0}")]
pub struct ResolverError(#[from] NetError);

/// The result of locating a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Candidates, best first.
    pub candidates: Vec<Candidate>,
    /// Whether a name server gave no valid answer, so that candidates may be missing.
    pub incomplete: bool,
}

/// Queries the name servers.
pub struct Resolver {
    dns: TokioResolver,
    hosts: Arc<Hosts>,
    reach: Reach,
}

/// Records whether any of several concurrent queries failed.
#[derive(Default)]
struct Failed(AtomicBool);

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl Resolver {
    /// Uses the name servers of the settings, or else those of the system, for a node with this `reach`. Must be called on a tokio
    /// runtime.
    ///
    /// # Errors
    /// An error in the system's configuration.
    pub fn new(settings: &Settings, reach: Reach) -> Result<Self, ResolverError> {
        let (config, system) = if settings.servers.is_empty() {
            system_conf::read_system_conf().unwrap_or_else(|error| {
                warn!(%error, "cannot read name servers from /etc/resolv.conf: names are looked up in /etc/hosts only");
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
        let mut dns = builder.build()?;
        let hosts = Arc::new(Hosts::from_system().unwrap_or_default());
        dns.set_hosts(Arc::clone(&hosts));
        Ok(Self { dns, hosts, reach })
    }

    /// The candidates of a destination. `seed` is the random input of the weighted choice among its servers.
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

    /// The first step. A host in /etc/hosts is not queried by DNS.
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
        // The search list applies to a name of one label.
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
    /// A negative answer is not a failure; any other error is.
    fn note(&self, name: &str, error: &NetError) {
        if !error.is_no_records_found() {
            debug!(name, %error, "no answer from a name server");
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A fully qualified name, without the search list; `None` if it is not a valid name.
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

fn options(settings: &Settings, system: ResolverOpts, reach: Reach) -> ResolverOpts {
    let mut options = system;
    options.timeout = settings.timeout;
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
