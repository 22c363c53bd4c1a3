//! A TCP relay between a store and its server. It can hold back what a client sends, as a network or a server does that stalls.

use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Open,
    /// The next bytes of a client that contain this are held, and all that this client sends after them.
    Awaited(&'static str),
    Held,
    Released,
    /// The server has handled what was held, and ended the session.
    Over,
}

/// Relays as long as the runtime of the test exists.
pub struct StallingRelay {
    url: String,
    phase: Arc<watch::Sender<Phase>>,
}

impl StallingRelay {
    /// Relays to the server of this URL.
    pub async fn to(url: &str) -> Self {
        let (head, tail) = url.rsplit_once(':').expect("a port");
        let (port, database) = tail.split_once('/').expect("a database");
        let port: u16 = port.parse().expect("a number");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let phase = Arc::new(watch::Sender::new(Phase::Open));
        let shared = Arc::clone(&phase);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await;
                let server = server.expect("the server listens");
                tokio::spawn(relay(client, server, Arc::clone(&shared)));
            }
        });
        let url = format!("{head}:{own}/{database}");
        Self { url, phase }
    }

    /// The URL that leads through this relay.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Holds the next bytes of a client that contain `word`.
    pub fn hold(&self, word: &'static str) {
        self.phase.send_replace(Phase::Awaited(word));
    }

    /// Waits until bytes are held.
    pub async fn held(&self) {
        reached(&self.phase, Phase::Held).await;
    }

    /// Forwards what was held, and waits until the server has ended the session of a client that has left.
    pub async fn release(&self) {
        self.phase.send_replace(Phase::Released);
        reached(&self.phase, Phase::Over).await;
    }
}

async fn reached(phase: &watch::Sender<Phase>, awaited: Phase) {
    let mut phases = phase.subscribe();
    let reached = phases.wait_for(|phase| *phase == awaited).await;
    reached.expect("the sender lives");
}

async fn relay(client: TcpStream, server: TcpStream, phase: Arc<watch::Sender<Phase>>) {
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let answers = tokio::spawn(async move {
        let _ = copy(&mut from_server, &mut to_client).await;
        // The client may have left before the server.
        let _ = copy(&mut from_server, &mut sink()).await;
    });
    let was_held = forward(from_client, to_server, &phase).await;
    answers.await.expect("does not panic");
    if was_held {
        phase.send_replace(Phase::Over);
    }
}

/// Forwards until the client leaves. Returns whether something was held.
async fn forward(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    phase: &watch::Sender<Phase>,
) -> bool {
    let mut was_held = false;
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = client.read(&mut bytes).await {
        let now = *phase.borrow();
        if let Phase::Awaited(word) = now
            && bytes[..length]
                .windows(word.len())
                .any(|part| part == word.as_bytes())
        {
            was_held = true;
            phase.send_replace(Phase::Held);
            reached(phase, Phase::Released).await;
        }
        if server.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    was_held
}
