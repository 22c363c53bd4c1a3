//! Members from DNS: the SRV, A and AAAA records of a name, asked again and again.

use super::{Found, RETRY, admin};
use crate::members::{MOST_MEMBERS, Member};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc;

/// A name whose records are the nodes.
///
/// A name such as `_sip._udp.tandem-nodes.default.svc.cluster.local` is asked for SRV records. The first label of a target is name and
/// instance of its node. Other names are asked for A and AAAA records, and the address with the port is name and instance. The nodes must
/// have the same `fleet.instance`.
#[derive(Clone, Debug)]
pub struct DnsSource {
    /// The name. If it begins with an underscore, its SRV records count.
    pub name: String,
    /// The SIP port of all nodes, for A and AAAA records.
    pub port: u16,
    /// Time between two lookups.
    pub refresh: Duration,
    /// The name servers; if empty, those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// The port of the nodes' admin interfaces.
    pub admin_port: Option<u16>,
}

impl DnsSource {
    pub(crate) async fn follow(self, found: mpsc::Sender<Found>) {
        let mut resolver = None;
        loop {
            let list = match self.resolver(&mut resolver) {
                Ok(resolver) => self.look_up(resolver).await,
                Err(problem) => Err(problem),
            };
            let pause = if list.is_ok() {
                self.refresh
            } else {
                RETRY.min(self.refresh)
            };
            if found.send(list).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn resolver<'r>(
        &self,
        made: &'r mut Option<TokioResolver>,
    ) -> Result<&'r TokioResolver, String> {
        if made.is_none() {
            *made = Some(self.build().map_err(|error| format!("DNS: {error}"))?);
        }
        made.as_ref().ok_or_else(|| "DNS: no resolver".to_owned())
    }

    fn build(&self) -> Result<TokioResolver, hickory_resolver::net::NetError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = if self.servers.is_empty() {
            TokioResolver::builder(provider)?
        } else {
            let servers = self.servers.iter().map(|server| {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                let connections = connections.map(|mut connection| {
                    connection.port = server.port();
                    connection
                });
                NameServerConfig::new(server.ip(), true, connections.to_vec())
            });
            TokioResolver::builder_with_config(
                ResolverConfig::from_parts(None, vec![], servers.collect()),
                provider,
            )
        };
        let options = builder.options_mut();
        // Every lookup asks: what is cached is what this source must notice to be old.
        options.cache_size = 0;
        options.timeout = Duration::from_secs(1);
        builder.build()
    }

    async fn look_up(&self, resolver: &TokioResolver) -> Found {
        if self.name.starts_with('_') {
            return self.services(resolver).await;
        }
        let addresses = self.addresses(resolver, &self.name).await?;
        let member = |ip: IpAddr| {
            let address = SocketAddr::new(ip, self.port);
            let name = address.to_string();
            Member {
                admin: admin(ip, self.admin_port),
                ..Member::new(name.clone(), name, address)
            }
        };
        Ok(addresses.into_iter().map(member).collect())
    }

    async fn services(&self, resolver: &TokioResolver) -> Found {
        let answer = records(resolver, &self.name, RecordType::SRV).await?;
        let servers = answer.iter().filter_map(|data| match data {
            RData::SRV(server) => Some((server.target.to_string(), server.port)),
            _ => None,
        });
        let mut members = Vec::new();
        for (target, port) in servers.take(MOST_MEMBERS + 1) {
            let label = target.split('.').next().unwrap_or_default().to_owned();
            // A node with several addresses is one node.
            let Some(ip) = self.addresses(resolver, &target).await?.into_iter().next() else {
                continue;
            };
            members.push(Member {
                admin: admin(ip, self.admin_port),
                ..Member::new(label.clone(), label, SocketAddr::new(ip, port))
            });
        }
        Ok(members)
    }

    /// The IPv4 addresses of a name, sorted, or its IPv6 addresses if it has no others: a node with both is one node.
    async fn addresses(&self, resolver: &TokioResolver, name: &str) -> Result<Vec<IpAddr>, String> {
        let mut found = records(resolver, name, RecordType::A).await?;
        if found.is_empty() {
            found = records(resolver, name, RecordType::AAAA).await?;
        }
        let mut addresses: Vec<IpAddr> = found.iter().filter_map(RData::ip_addr).collect();
        addresses.sort();
        Ok(addresses)
    }
}

/// The records of a name; none if it has none of this type.
async fn records(
    resolver: &TokioResolver,
    name: &str,
    of: RecordType,
) -> Result<Vec<RData>, String> {
    // Not `search` of resolv.conf: a name is the same everywhere.
    let mut absolute = Name::from_ascii(name).map_err(|error| format!("DNS: {name}: {error}"))?;
    absolute.set_fqdn(true);
    match resolver.lookup(absolute, of).await {
        Ok(answer) => Ok(answer
            .answers()
            .iter()
            .map(|record| record.data.clone())
            .collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(format!("DNS: {name}: {error}")),
    }
}
