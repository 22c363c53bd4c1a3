//! Where the Redis or Valkey server is: at an address, or where sentinels say.

use super::{Bounds, Connection};
use anyhow::{Context as _, bail};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, Pipeline, RedisConnectionInfo, Value,
    from_redis_value,
};
use std::time::Duration;
use tokio::time::timeout;

/// The port of a sentinel that names none.
const SENTINEL_PORT: u16 = 26_379;
/// Most sentinels.
const MOST: usize = 16;
/// Time limit for one sentinel. The next one is asked then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a server is, and how to authenticate there.
#[derive(Clone, Debug)]
pub struct RedisServer {
    /// With sentinels, only what to say to the server that they name.
    server: ConnectionInfo,
    sentinels: Option<Sentinels>,
}

/// Sentinels, and the name under which they watch the server.
#[derive(Clone, Debug)]
struct Sentinels {
    addresses: Vec<ConnectionAddr>,
    primary: String,
}

impl RedisServer {
    /// Reads a URL: that of a server, or `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/PRIMARY[/DB]`. User and password are those of the
    /// server; the sentinels get none. `rediss+sentinel` uses TLS for both.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let Some(scheme) = scheme.strip_suffix("+sentinel") else {
            let server = url.into_connection_info().ok()?;
            return Some(Self {
                server,
                sentinels: None,
            });
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (format!("{user}@"), rest),
            None => (String::new(), rest),
        };
        let (hosts, path) = rest.split_once('/')?;
        let (primary, database) = path.split_once('/').unwrap_or((path, "0"));
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', ' ']);
        if !is_name(primary) || database.parse::<u16>().is_err() {
            return None;
        }
        let info = |host: &str, user: &str| {
            let url = format!("{scheme}://{user}{host}/{database}");
            url.into_connection_info().ok()
        };
        let address = |host: &str| {
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| !port.ends_with(']'));
            let host = if has_port {
                host.to_owned()
            } else {
                format!("{host}:{SENTINEL_PORT}")
            };
            Some(info(&host, "")?.addr().clone())
        };
        let addresses: Vec<ConnectionAddr> =
            hosts.split(',').map(address).collect::<Option<_>>()?;
        let first = hosts.split(',').next()?;
        Some(Self {
            server: info(first, &user)?,
            sentinels: (1..=MOST).contains(&addresses.len()).then(|| Sentinels {
                addresses,
                primary: primary.to_owned(),
            }),
        })
        .filter(|server| server.sentinels.is_some())
    }

    /// The address of the server, and what to say there. Asks the sentinels where it is at present.
    pub(super) async fn find(&self) -> anyhow::Result<ConnectionInfo> {
        let Some(sentinels) = &self.sentinels else {
            return Ok(self.server.clone());
        };
        let mut problem = None;
        for sentinel in &sentinels.addresses {
            match timeout(PATIENCE, sentinels.ask(sentinel)).await {
                Ok(Ok(address)) => return Ok(self.server.clone().set_addr(address)),
                Ok(Err(error)) => problem = Some(error),
                Err(_) => {}
            }
        }
        let problem = problem.map_or_else(String::new, |error| format!(": {error:#}"));
        bail!("no sentinel says where {} is{problem}", sentinels.primary)
    }

    /// Whether sentinels watch the server.
    pub(super) const fn is_watched(&self) -> bool {
        self.sentinels.is_some()
    }
}

impl Sentinels {
    async fn ask(&self, sentinel: &ConnectionAddr) -> anyhow::Result<ConnectionAddr> {
        let without_credentials = RedisConnectionInfo::default();
        let anywhere = "redis://sentinel".into_connection_info()?;
        let server = anywhere
            .set_addr(sentinel.clone())
            .set_redis_settings(without_credentials);
        let mut connection = Connection::connect(&server).await?;
        let mut command = Pipeline::new();
        command.ignore_errors();
        command
            .cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(&self.primary);
        let responses = connection.request(&command, Bounds::SHORT).await?;
        let response = responses.into_iter().next().context("no response")??;
        if response == Value::Nil {
            bail!("a sentinel knows no {}", self.primary);
        }
        let (host, port): (String, u16) = from_redis_value(response)?;
        Ok(match sentinel {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        })
    }
}

/// Whether a server says that it is a primary. One that a failover has replaced may not know it yet.
pub(super) async fn check_role(connection: &mut Connection) -> anyhow::Result<()> {
    let mut command = Pipeline::new();
    command.ignore_errors();
    command.cmd("ROLE");
    let responses = connection.request(&command, Bounds::SHORT).await?;
    let response = responses.into_iter().next().context("no response")??;
    let Value::Array(parts) = response else {
        bail!("it does not say its role");
    };
    let role: String = from_redis_value(parts.into_iter().next().unwrap_or(Value::Nil))?;
    match role.as_str() {
        "master" => Ok(()),
        role => bail!("it is a {role}, and the sentinels still call it the primary"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Vec<String> {
        let server = RedisServer::parse(url).expect(url);
        let sentinels = server.sentinels.expect("sentinels");
        sentinels
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_url_names_the_sentinels_and_the_primary() {
        let url = "redis+sentinel://u:p%2F@s-1,s-2:7,[::1]/calls/3";
        assert_eq!(addresses(url), ["s-1:26379", "s-2:7", "::1:26379"]);
        let server = RedisServer::parse(url).expect("a server");
        assert_eq!(
            server.sentinels.map(|it| it.primary),
            Some("calls".to_owned())
        );
        let settings = server.server.redis_settings();
        assert_eq!(
            (settings.username(), settings.password(), settings.db()),
            (Some("u"), Some("p/"), 3)
        );
        let secure = RedisServer::parse("rediss+sentinel://s-1/calls").expect("a server");
        assert!(matches!(
            secure.sentinels.expect("sentinels").addresses[0],
            ConnectionAddr::TcpTls { .. }
        ));
    }

    #[test]
    fn a_url_of_sentinels_without_a_primary_is_refused() {
        for url in [
            "redis+sentinel://s-1",
            "redis+sentinel://s-1/",
            "redis+sentinel:///calls",
            "redis+sentinel://s-1/calls/x",
            "redis+sentinel://s-1,,s-2/calls",
        ] {
            assert!(RedisServer::parse(url).is_none(), "{url}");
        }
    }
}
