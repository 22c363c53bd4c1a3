//! A controller on loopback, nodes and name servers that play their part, and a client.
#![expect(dead_code, reason = "each test file uses its part")]

use axum::Router;
use serde_json::{Value, json};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tandem_fleet::client::{Client, ClientError};
use tandem_fleet::members::Member;
use tandem_fleet::source::Source;
use tandem_fleet::{Controller, NodeAccess, Options};
use tandem_http::Token;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The token of all parts.
pub const TOKEN: &str = "0123456789abcdef";
/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A loopback address with a port that the kernel chooses.
pub fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Options for a controller of this source.
pub fn options(source: Source) -> Options {
    Options {
        listen: any_port(),
        hosts: vec![],
        token: Token::new(TOKEN).expect("a token"),
        source,
        grace: Duration::from_secs(30),
        state_file: None,
        nodes: NodeAccess {
            token: Some(TOKEN.to_owned()),
            timeout: Duration::from_secs(5),
        },
        database: None,
        max_watchers: 8,
        watcher_timeout: Duration::from_secs(10),
        custom_metrics: None,
    }
}

/// A node that no process plays.
pub fn node(instance: &str, port: u16) -> Member {
    Member::new(
        instance,
        format!("name-{instance}"),
        ([10, 0, 0, 1], port).into(),
    )
}

/// The source of nodes `a`, `b`, … at successive ports.
pub fn fixed(instances: &[&str]) -> Source {
    Source::Static(
        (5060..)
            .zip(instances)
            .map(|(port, instance)| node(instance, port))
            .collect(),
    )
}

/// Polls until this is `Some`, and fails after a while.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut poll: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The API of a controller.
pub struct Api(pub SocketAddr);

impl Api {
    /// Of this controller, when it has a set.
    pub async fn of(controller: &Controller) -> Self {
        let api = Self(controller.address());
        eventually("the controller is ready", || async {
            (api.get("/health/ready").await.0 == 200).then_some(())
        })
        .await;
        api
    }

    /// Status and JSON of a response.
    pub async fn request(
        &self,
        verb: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.0).await.expect("connected");
        let token = token
            .map(|token| format!("Authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        let request = format!(
            "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A server that refuses a large body may close before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        let response = String::from_utf8(response).expect("text");
        let status = response.get(9..12).and_then(|status| status.parse().ok());
        let body = response
            .split_once("\r\n\r\n")
            .map(|(_, body)| body)
            .unwrap_or_default();
        let json = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        (status.unwrap_or_default(), json)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, Some(TOKEN), "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.request("POST", path, Some(TOKEN), &body).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.request("DELETE", path, Some(TOKEN), "").await
    }

    /// The set as `instance=state` words.
    pub async fn states(&self) -> String {
        let (_, set) = self.get("/v1/members").await;
        let nodes = set["nodes"].as_array().cloned().unwrap_or_default();
        let words = nodes.iter().map(|it| {
            format!(
                "{}={}",
                it["instance"].as_str().unwrap_or_default(),
                it["state"].as_str().unwrap_or_default()
            )
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Waits until the set is this.
    pub async fn until(&self, states: &str) {
        eventually(states, || async {
            (self.states().await == states).then_some(())
        })
        .await;
    }

    /// A JSON-RPC call.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post("/rpc", &call).await.1
    }

    /// The value of a metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let (_, page) = self.get("/metrics").await;
        let page = page.as_str()?.to_owned();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    }

    /// An edge that follows the set.
    pub async fn watch(&self) -> Watcher {
        let client = Client::plain(self.0.to_string(), Some(TOKEN.to_owned()), PATIENCE);
        Watcher::open(&client).await.expect("a stream")
    }
}

/// An edge that follows the set.
pub struct Watcher {
    body: hyper::body::Incoming,
    read: Vec<u8>,
}

impl Watcher {
    pub async fn open(client: &Client) -> Result<Self, ClientError> {
        let body = client.stream("/v1/members/watch").await?;
        Ok(Self {
            body,
            read: Vec::new(),
        })
    }

    /// The next line; `None` at the end of the stream.
    pub async fn line(&mut self) -> Option<String> {
        use http_body_util::BodyExt as _;
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(end + 1);
                let line = std::mem::replace(&mut self.read, rest);
                return Some(String::from_utf8(line).expect("text").trim_end().to_owned());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .expect("a line in time")?;
            self.read.extend_from_slice(frame.ok()?.data_ref()?);
        }
    }
}

/// Serves a router on loopback for the rest of the test.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind(any_port()).await.expect("bound");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
