//! A Redis server for tests, which misbehaves on request.
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

/// A command: its name and its arguments.
pub(super) type Command = Vec<String>;

/// What the server does about a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Text(&'static str),
    /// This, and then bytes without end.
    Flood(&'static str),
    /// This, and then the end of the connection.
    Last(&'static str),
    Silence,
    Close,
}

/// What a server that works does.
pub(super) fn proper(command: &Command) -> Reply {
    Reply::Text(match command.first().map_or("", String::as_str) {
        "PUBLISH" => ":1\r\n",
        _ => "+OK\r\n",
    })
}

#[derive(Default)]
struct Seen {
    commands: Mutex<Vec<Command>>,
    connections: AtomicU64,
    flooded: AtomicU64,
}

/// The server.
#[derive(Clone)]
pub(super) struct Redis {
    seen: Arc<Seen>,
}

/// The reply to a command on a connection, counted from 0.
pub(super) trait Script: Fn(u64, &Command) -> Reply + Clone + Send + 'static {}
impl<F: Fn(u64, &Command) -> Reply + Clone + Send + 'static> Script for F {}

impl Redis {
    pub(super) async fn start(script: impl Script) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("bound");
        let redis = Self::new();
        let seen = Arc::clone(&redis.seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&seen), stream, script.clone()));
            }
        });
        (redis, address)
    }

    /// With a certificate that no authority has issued.
    pub(super) async fn start_with_tls(script: impl Script) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("bound");
        let redis = Self::new();
        let seen = Arc::clone(&redis.seen);
        let acceptor = self_signed();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, script) = (Arc::clone(&seen), script.clone());
                let accepting = acceptor.accept(stream);
                tokio::spawn(async move {
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    if let Ok(stream) = accepting.await {
                        serve(seen, stream, script).await;
                    }
                });
            }
        });
        (redis, address)
    }

    pub(super) fn start_at(path: &Path, script: impl Script) -> Self {
        let listener = UnixListener::bind(path).expect("listens");
        let redis = Self::new();
        let seen = Arc::clone(&redis.seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&seen), stream, script.clone()));
            }
        });
        redis
    }

    fn new() -> Self {
        Self {
            seen: Arc::default(),
        }
    }

    /// All commands, from all connections.
    pub(super) fn commands(&self) -> Vec<Command> {
        self.seen.commands.lock().expect("not poisoned").clone()
    }

    /// The events that were published.
    pub(super) fn events(&self) -> Vec<String> {
        let commands = self.commands().into_iter();
        let published = commands.filter(|command| command[0] == "PUBLISH");
        published.map(|mut command| command.remove(2)).collect()
    }

    pub(super) fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Bytes without end that the client took.
    pub(super) fn flooded(&self) -> u64 {
        self.seen.flooded.load(Ordering::Relaxed)
    }
}

fn self_signed() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let options = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("known")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into());
    TlsAcceptor::from(Arc::new(options.expect("a certificate")))
}

async fn serve(seen: Arc<Seen>, stream: impl AsyncRead + AsyncWrite + Unpin, script: impl Script) {
    let connection = seen.connections.fetch_add(1, Ordering::Relaxed);
    let mut stream = BufReader::new(stream);
    while let Some(command) = command(&mut stream).await {
        let reply = script(connection, &command);
        seen.commands.lock().expect("not poisoned").push(command);
        let text = match reply {
            Reply::Text(text) | Reply::Flood(text) | Reply::Last(text) => text,
            Reply::Silence => continue,
            Reply::Close => return,
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        if let Reply::Last(_) = reply {
            return;
        }
        if let Reply::Flood(_) = reply {
            let bytes = vec![b'1'; 65_536];
            while let Ok(written) = stream.write(&bytes).await {
                seen.flooded.fetch_add(written as u64, Ordering::Relaxed);
            }
        }
    }
}

/// The next command; `None`: the client has gone.
async fn command(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Command> {
    let mut arguments = Vec::new();
    for _ in 0..number(stream, '*').await? {
        let mut text = vec![0; number(stream, '$').await? + 2];
        stream.read_exact(&mut text).await.ok()?;
        text.truncate(text.len() - 2);
        arguments.push(String::from_utf8(text).expect("UTF-8"));
    }
    Some(arguments)
}

async fn number(stream: &mut (impl AsyncBufRead + Unpin), kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let number = line.strip_prefix(kind)?;
    Some(number.trim_end().parse().expect("a number"))
}
