//! A complete server in this process, on ports chosen by the kernel, and a phone that talks to it over UDP.
#![expect(dead_code, reason = "each test file uses its part")]

pub mod calls;
pub mod redis;

use serde_json::{Value, json};
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tandem::ctl::Access;
use tandem::serve::Server;
use tandem_store::{Registrations, Store, StoredCredentials, Subscriber};
use tempfile::TempDir;

/// Timeout of a test's waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The beginning of every configuration in these tests.
const BASE: &str = r#"
domains = ["tandem.localhost"]
[[listen]]
address = "127.0.0.1:0"
[workers]
count = 2
[admin]
listen = "127.0.0.1:0"
"#;

/// A directory with configuration and database.
pub struct Place {
    directory: TempDir,
}

impl Place {
    /// Creates a directory with `BASE` and these lines as configuration.
    pub fn new(more: &str) -> Self {
        let place = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        place.configure(more);
        place
    }

    /// Rewrites the configuration file.
    pub fn configure(&self, more: &str) {
        let database = format!("[database]\nurl = \"{}\"\n", self.database_url());
        std::fs::write(self.file(), format!("{BASE}{database}{more}"))
            .expect("the file is written");
    }

    /// Rewrites the configuration file with exactly this text.
    pub fn configure_exactly(&self, text: &str) {
        std::fs::write(self.file(), text).expect("the file is written");
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("tandem.toml")
    }

    pub fn database_url(&self) -> String {
        format!("sqlite:{}", self.directory.path().join("t.db").display())
    }

    /// Starts a server in this directory.
    pub async fn start(&self) -> Server {
        let configuration =
            tandem::config::load(Some(&self.file())).expect("the configuration is right");
        Server::start(Some(self.file()), configuration, None)
            .await
            .expect("the server starts")
    }

    /// Starts a server in this directory; keep the place as long as it runs.
    pub async fn start_alone(self) -> (Self, Server) {
        let server = self.start().await;
        (self, server)
    }

    /// Adds a subscriber like another process.
    pub async fn subscribe(&self, username: &str, password: &str) {
        let store = Store::open(&self.database_url())
            .await
            .expect("the database opens");
        store
            .subscribers()
            .add(&subscriber(username, password))
            .await
            .expect("added");
        store.close().await;
    }

    /// Changes a password like another process.
    pub async fn change_password(&self, username: &str, password: &str) {
        let store = Store::open(&self.database_url())
            .await
            .expect("the database opens");
        store
            .subscribers()
            .set_password(&subscriber(username, password), Registrations::Keep)
            .await
            .expect("changed");
        store.close().await;
    }
}

/// A subscriber of the domain of these tests.
pub fn subscriber(username: &str, password: &str) -> Subscriber {
    use sip_message::digest::{ha1_md5, ha1_sha256};
    let domain = "tandem.localhost";
    let (user, realm, secret) = (username.as_bytes(), domain.as_bytes(), password.as_bytes());
    let credentials = StoredCredentials {
        ha1_md5: ha1_md5(user, realm, secret),
        ha1_sha256: ha1_sha256(user, realm, secret),
    };
    Subscriber {
        username: username.to_owned(),
        domain: domain.to_owned(),
        credentials,
    }
}

/// Runs the program to its end.
pub fn tandem(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// What the program printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a test on a runtime like that of the program.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Status and body of an HTTP request.
pub async fn get(server: &Server, path: &str) -> (u16, String) {
    http_get(format!("http://{}{path}", server.admin_address())).await
}

pub async fn http_get(url: String) -> (u16, String) {
    blocking(move || {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let mut response = agent.get(&url).call().expect("the admin interface answers");
        (
            response.status().as_u16(),
            response.body_mut().read_to_string().expect("a text"),
        )
    })
    .await
}

/// Status and body of a POST to `/rpc`.
pub async fn post(server: &Server, content_type: &'static str, body: String) -> (u16, String) {
    let url = format!("http://{}/rpc", server.admin_address());
    blocking(move || {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let mut response = agent
            .post(&url)
            .header("content-type", content_type)
            .send(body)
            .expect("the admin interface answers");
        (
            response.status().as_u16(),
            response.body_mut().read_to_string().expect("a text"),
        )
    })
    .await
}

/// The result of a method, or the server's error.
pub async fn call(server: &Server, method: &'static str, params: Value) -> Result<Value, String> {
    let url = format!("http://{}", server.admin_address());
    let access = Access::to(url.parse().expect("an address"), None);
    blocking(move || {
        tandem::ctl::call(&access, method, &params, PATIENCE).map_err(|error| format!("{error:#}"))
    })
    .await
}

/// A metric's value by its full name with labels.
pub async fn metric(server: &Server, name: &str) -> u64 {
    let (_, page) = get(server, "/metrics").await;
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {name} in\n{page}"))
        .parse()
        .expect("a whole number")
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("it did not panic")
}

/// A phone: a UDP socket that writes requests by hand.
pub struct Phone {
    socket: UdpSocket,
    server: SocketAddr,
    pub name: &'static str,
}

impl Phone {
    pub fn new(server: &Server, name: &'static str) -> Self {
        let to = server.running().listeners[0].address;
        Self::at(to, name)
    }

    pub fn at(server: SocketAddr, name: &'static str) -> Self {
        Self::between("127.0.0.1", server, name)
    }

    /// A phone at this address of loopback.
    pub fn from(server: &Server, address: &str, name: &'static str) -> Self {
        Self::between(address, server.running().listeners[0].address, name)
    }

    fn between(address: &str, server: SocketAddr, name: &'static str) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self {
            socket,
            server,
            name,
        }
    }

    /// The same phone, at another server.
    pub fn to(self, server: SocketAddr) -> Self {
        Self { server, ..self }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    /// Sends a request to the server. `more` are header lines, each with its line end.
    pub fn send(
        &self,
        (cseq, method): (u32, &str),
        uri: &str,
        to: &str,
        call_id: &str,
        more: &str,
    ) {
        let (here, name) = (self.address(), self.name);
        let request = format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {here};branch=z9hG4bK-{call_id}-{cseq}-{method};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{name}@tandem.localhost>;tag={name}\r\n\
             To: <{to}>\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n\
             Contact: <sip:{name}@{here}>\r\n\
             {more}Content-Length: 0\r\n\r\n"
        );
        self.send_raw(&request);
    }

    pub fn send_raw(&self, message: &str) {
        self.socket
            .send_to(message.as_bytes(), self.server)
            .expect("sent");
    }

    /// The next message.
    pub fn receive(&self) -> String {
        let mut buffer = vec![0; 65_536];
        let (length, _) = self.socket.recv_from(&mut buffer).expect("a message comes");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The status of the next message that is a final response to this method; others are skipped.
    pub fn final_response(&self, method: &str) -> (u16, String) {
        loop {
            let message = self.receive();
            let status = message
                .strip_prefix("SIP/2.0 ")
                .and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
            let cseq = header(&message, "CSeq").unwrap_or_default();
            match status {
                Some(status) if status >= 200 && cseq.ends_with(method) => {
                    return (status, message);
                }
                _ => {}
            }
        }
    }

    /// Registers without credentials; returns the status.
    pub fn register(&self, call_id: &str, cseq: u32) -> (u16, String) {
        let to = format!("sip:{}@tandem.localhost", self.name);
        self.send(
            (cseq, "REGISTER"),
            "sip:tandem.localhost",
            &to,
            call_id,
            "Expires: 600\r\n",
        );
        self.final_response("REGISTER")
    }

    /// Registers with a password, answering the challenge by MD5; returns the last status.
    pub fn register_with(&self, password: &str, call_id: &str) -> u16 {
        let (status, challenge) = self.register(call_id, 1);
        if status != 401 {
            return status;
        }
        let md5 = challenge
            .lines()
            .find(|line| line.starts_with("WWW-Authenticate") && line.contains("MD5"));
        let nonce = md5
            .and_then(|line| line.split("nonce=\"").nth(1)?.split('"').next())
            .expect("an MD5 challenge");
        let authorization = self.authorization(password, nonce, 1);
        let to = format!("sip:{}@tandem.localhost", self.name);
        self.send(
            (2, "REGISTER"),
            "sip:tandem.localhost",
            &to,
            call_id,
            &(authorization + "Expires: 600\r\n"),
        );
        self.final_response("REGISTER").0
    }

    /// The line with the credentials of a REGISTER, with this nonce-count.
    pub fn authorization(&self, password: &str, nonce: &str, count: u32) -> String {
        use sip_message::digest::{DigestInput, ha1_md5, response_md5};
        let (name, uri) = (self.name, "sip:tandem.localhost");
        let count = format!("{count:08x}");
        let input = DigestInput {
            method: b"REGISTER",
            uri: uri.as_bytes(),
            nonce: nonce.as_bytes(),
            qop_auth: Some((count.as_bytes(), b"0a4f113b")),
        };
        let ha1 = ha1_md5(name.as_bytes(), b"tandem.localhost", password.as_bytes());
        let response = String::from_utf8(response_md5(&ha1, &input).to_vec()).expect("hex");
        format!(
            "Authorization: Digest username=\"{name}\", realm=\"tandem.localhost\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{response}\", algorithm=MD5, qop=auth, nc={count}, cnonce=\"0a4f113b\"\r\n"
        )
    }
}

/// The value of a header field.
pub fn header<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// A phone's response to a request, with the tag `bob`.
pub fn response(request: &str, status: &str) -> String {
    let kept = ["Via", "From", "Call-ID", "CSeq", "Record-Route"];
    let lines = request.lines().filter(|line| {
        kept.iter()
            .any(|name| line.starts_with(&format!("{name}:")))
    });
    let to = header(request, "To").unwrap_or_default();
    let tag = if to.contains(";tag=") { "" } else { ";tag=bob" };
    let kept: String = lines.fold(String::new(), |kept, line| kept + line + "\r\n");
    // The request forwarded to the phone has the phone's Contact as its Request-URI.
    let contact = request.split(' ').nth(1).unwrap_or_default();
    format!(
        "SIP/2.0 {status}\r\n{kept}To: {to}{tag}\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// No parameters.
pub fn none() -> Value {
    json!({})
}
