//! One connection to the server, and the messages on it.

use super::options::{Target, Units};
use super::requests::{Unit, Writer};
use super::tls::client_config;
use crate::credentials::Nonce;
use crate::run::Subscribers;
use anyhow::bail;
use rustls::pki_types::ServerName;
use sip_message::{Frame, Framer, Message, Method};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Timeout of each step: connect, handshake, response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest message that a server may send here, in bytes.
const LONGEST: usize = 64 << 10;

/// Number of TLS clients with sessions to resume. Each remembers only a few sessions, as a phone would, so there must be more clients
/// than units at a time.
const CLIENTS: usize = 256;

/// Bytes read at a time.
const READ: usize = 2 << 10;

/// Opens connections to one server, each from the next address.
pub(super) struct Opener {
    target: Target,
    name: ServerName<'static>,
    /// Used in turn. Empty without TLS.
    connectors: Vec<TlsConnector>,
    subscribers: Arc<Subscribers>,
    opened: AtomicU64,
}

impl Opener {
    /// For connections that begin in this way.
    pub(super) fn new(target: &Target, units: Units) -> anyhow::Result<Arc<Self>> {
        let connectors = match units {
            Units::Plain => 0,
            Units::Full => 1,
            Units::Resumed => CLIENTS,
        };
        let connector = |_| {
            let config = client_config(target.key, units == Units::Resumed);
            config.map(TlsConnector::from)
        };
        let connectors: anyhow::Result<_> = (0..connectors).map(connector).collect();
        Ok(Arc::new(Self {
            target: target.clone(),
            name: ServerName::try_from(target.domain.clone())?,
            connectors: connectors?,
            subscribers: Arc::new(target.subscribers()),
            opened: AtomicU64::new(0),
        }))
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Opens a connection, including the handshake.
    pub(super) async fn open(&self) -> anyhow::Result<Client> {
        patiently("connecting", self.connect()).await
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let socket = TcpSocket::new_v4()?;
        // The ports of connections that have just closed.
        socket.set_reuseaddr(true)?;
        let source = 1 + (number % u64::from(self.target.sources)) as u8;
        socket.bind((Ipv4Addr::new(127, 0, 0, source), 0).into())?;
        let stream = socket.connect(self.target.server).await?;
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let turn = number % self.connectors.len().max(1) as u64;
        let stream = match self.connectors.get(turn as usize) {
            None => Stream::Tcp(stream),
            Some(connector) => {
                let stream = connector.connect(self.name.clone(), stream).await?;
                Stream::Tls(Box::new(stream))
            }
        };
        Ok(Client {
            stream,
            server: self.target.server,
            received: Vec::new(),
            framer: Framer::new(LONGEST, LONGEST),
            writer: Writer::new(&self.target, local, Arc::clone(&self.subscribers)),
        })
    }
}

enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) struct Client {
    stream: Stream,
    pub(super) server: SocketAddr,
    received: Vec<u8>,
    framer: Framer,
    pub(super) writer: Writer,
}

impl Client {
    /// Whether the handshake resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        match &self.stream {
            Stream::Tcp(_) => false,
            Stream::Tls(stream) => {
                stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
            }
        }
    }

    pub(super) async fn send(&mut self, message: &[u8]) -> anyhow::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(message).await?,
            Stream::Tls(stream) => {
                stream.write_all(message).await?;
                stream.flush().await?;
            }
        }
        Ok(())
    }

    /// The next message, without a timeout.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            match self.framer.next(&self.received)? {
                Frame::Message(length) => {
                    let rest = self.received.split_off(length);
                    return Ok(std::mem::replace(&mut self.received, rest));
                }
                Frame::Ping(length) | Frame::Crlf(length) => drop(self.received.drain(..length)),
                Frame::Incomplete => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        self.received.reserve(READ);
        let count = match &mut self.stream {
            Stream::Tcp(stream) => stream.read_buf(&mut self.received).await?,
            Stream::Tls(stream) => stream.read_buf(&mut self.received).await?,
        };
        if count == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }

    /// Sends a request and waits for its final response.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let cseq = Message::parse(request)
            .ok()
            .and_then(|request| Some(request.cseq()?.number));
        let ask = async {
            self.send(request).await?;
            loop {
                let octets = self.receive().await?;
                if let Ok(message) = Message::parse(&octets)
                    && !message.is_request()
                    && message.status() >= 200
                    && message.cseq().map(|cseq| cseq.number) == cseq
                {
                    return Ok(octets);
                }
            }
        };
        patiently("a response", ask).await
    }

    /// Sends one OPTIONS.
    pub(super) async fn options(&mut self, unit: Unit) -> anyhow::Result<()> {
        let request = self.writer.options(unit);
        let response = self.ask(&request).await?;
        expect(&response, Method::Options)
    }

    /// Sends a REGISTER and answers a challenge.
    pub(super) async fn register(&mut self, mut unit: Unit) -> anyhow::Result<()> {
        let request = self.writer.register(unit, None);
        let mut response = self.ask(&request).await?;
        let nonce = Message::parse(&response)
            .ok()
            .filter(|response| response.status() == 401)
            .and_then(|response| Nonce::of(&response, false));
        if let Some(mut nonce) = nonce {
            unit.cseq += 1;
            let request = self.writer.register(unit, Some(&mut nonce));
            response = self.ask(&request).await?;
        }
        expect(&response, Method::Register)
    }

    /// Closes the connection in an orderly way.
    pub(super) async fn close(mut self) -> anyhow::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.shutdown().await?,
            Stream::Tls(stream) => stream.shutdown().await?,
        }
        Ok(())
    }
}

/// Fails unless the response is a 2xx.
pub(super) fn expect(response: &[u8], method: Method<'_>) -> anyhow::Result<()> {
    let status = Message::parse(response).map_or(0, |response| response.status());
    if (200..300).contains(&status) {
        return Ok(());
    }
    let method = String::from_utf8_lossy(method.as_bytes());
    bail!("{status} response to {method}")
}

/// Waits with a timeout.
async fn patiently<T>(
    what: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(result) => result,
        Err(_) => bail!("{what} took longer than {PATIENCE:?}"),
    }
}
