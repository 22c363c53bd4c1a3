//! A connection to Redis or Valkey, with limits on how long the server may take and how much it may send.

mod metered;
mod server;

pub use server::RedisServer;

use anyhow::{Context as _, anyhow, bail, ensure};
use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use metered::{Allowance, Metered};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, RedisResult,
    Value, from_redis_value,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time limit of connecting, which includes TLS and the password.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes that the server may send while connecting.
const ALLOWANCE: usize = 64 << 10;

/// What the server may take to respond to a batch of commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Until the last response.
    pub(crate) patience: Duration,
    /// Bytes of all responses.
    pub(crate) bytes: usize,
}

impl Bounds {
    /// For short responses: each has some ten bytes, or is an error.
    pub(crate) const SHORT: Self = Self {
        patience: PATIENCE,
        bytes: ALLOWANCE,
    };
}

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open connection.
pub(crate) struct Connection {
    redis: MultiplexedConnection,
    /// Moves the bytes while it is polled, and ends with the connection.
    driver: Fuse<Driver>,
    allowance: Allowance,
}

impl Connection {
    /// Finds the server, connects, and sends the password if there is one.
    pub(crate) async fn open(server: &RedisServer) -> anyhow::Result<Self> {
        let opened = timeout(PATIENCE, async {
            let mut connection = Self::connect(&server.find().await?).await?;
            if server.is_watched() {
                server::check_role(&mut connection).await?;
            }
            anyhow::Ok(connection)
        });
        opened.await.context("it does not answer")?
    }

    async fn connect(server: &ConnectionInfo) -> anyhow::Result<Self> {
        match server.addr() {
            ConnectionAddr::Tcp(host, port) => Self::begin(server, tcp(host, *port).await?).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                Self::begin(server, tls(host, *port).await?).await
            }
            ConnectionAddr::Unix(path) => {
                Self::begin(server, UnixStream::connect(path).await?).await
            }
            _ => bail!("unknown kind of address"),
        }
    }

    async fn begin<S>(server: &ConnectionInfo, stream: S) -> anyhow::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let allowance = Allowance::new(ALLOWANCE);
        let stream = Metered::new(stream, allowance.clone());
        let settings = server.redis_settings();
        // This file has the time limits.
        let options = AsyncConnectionConfig::new().set_response_timeout(None);
        let begun = MultiplexedConnection::new_with_config(settings, stream, options).await;
        let (redis, driver) = begun?;
        Ok(Self {
            redis,
            driver: (Box::pin(driver) as Driver).fuse(),
            allowance,
        })
    }

    /// Waits until the connection ends.
    pub(crate) async fn ended(&mut self) {
        if !self.driver.is_terminated() {
            (&mut self.driver).await;
        }
    }

    /// Sends commands whose responses are numbers, and waits for them. Returns how many were confirmed, and why not all were. The connection is
    /// of no use after a failure.
    pub(crate) async fn send(&mut self, commands: &Pipeline) -> (u64, anyhow::Result<()>) {
        let responses = match self.request(commands, Bounds::SHORT).await {
            Ok(responses) => responses,
            Err(problem) => return (0, Err(problem)),
        };
        let number = |response: RedisResult<Value>| Ok(from_redis_value::<i64>(response?)?);
        let responses: Vec<RedisResult<i64>> = responses.into_iter().map(number).collect();
        let confirmed = responses.iter().filter(|response| response.is_ok()).count() as u64;
        let failure = responses.into_iter().find_map(Result::err);
        (confirmed, failure.map_or(Ok(()), |error| Err(error.into())))
    }

    /// Sends commands (a pipeline that ignores errors), and returns the response to each. The connection is of no use after a failure.
    pub(crate) async fn request(
        &mut self,
        commands: &Pipeline,
        bounds: Bounds,
    ) -> anyhow::Result<Vec<RedisResult<Value>>> {
        match timeout(bounds.patience, self.exchange(commands, bounds.bytes)).await {
            Ok(Ok(responses)) => Ok(responses),
            Ok(Err(problem)) => Err(self.explained(problem)),
            Err(_) => Err(anyhow!("it does not answer")),
        }
    }

    /// Why the responses are missing. The library does not pass on why it ended the connection.
    fn explained(&self, problem: RedisError) -> anyhow::Error {
        if self.allowance.is_used_up() {
            anyhow!("it sends more than responses")
        } else if problem.is_connection_dropped() {
            anyhow!("the connection ended before it confirmed them, or it is not a Redis server")
        } else {
            problem.into()
        }
    }

    async fn exchange(
        &mut self,
        commands: &Pipeline,
        bytes: usize,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        self.allowance.renew(bytes);
        let mut responses = Box::pin(commands.query_async(&mut self.redis));
        tokio::select! {
            biased;
            responses = &mut responses => responses,
            // It has passed on the responses that it had, or the error.
            () = &mut self.driver => responses.await,
        }
    }
}

async fn tcp(host: &str, port: u16) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn tls(host: &str, port: u16) -> anyhow::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())?;
    let stream = tcp(host, port).await?;
    // Each connection loads the authorities again, so a new one needs no restart.
    let roots = spawn_blocking(trusted).await??;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let options = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(options));
    Ok(connector.connect(name, stream).await?)
}

/// The authorities that the operating system trusts.
fn trusted() -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ensure!(
        !roots.is_empty(),
        "this system trusts no certificate authority: install ca-certificates"
    );
    Ok(roots)
}
