//! The server under test: the real binary with a configuration, a database and ports of its own.

use crate::process::{Child, free_port, run, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// What a test wants to be different from the default.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Lines put at the top of the configuration (top-level keys).
    pub top: String,
    /// Sections put at the end of the configuration.
    pub sections: String,
    /// Its domain.
    pub domain: String,
    /// Subscribers `NAME`, each with the password `NAME-secret`.
    pub users: Vec<String>,
    /// Worker threads.
    pub workers: u16,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            top: String::new(),
            sections: String::new(),
            domain: "example.org".into(),
            users: ["alice", "bob", "carol"].map(String::from).to_vec(),
            workers: 2,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    folder: TempDir,
    /// Its SIP port on 127.0.0.1.
    pub port: u16,
    admin_port: u16,
}

impl Server {
    /// Where the binary is: beside the test binaries of this build, or where `TANDEM_BINARY` says.
    pub fn binary() -> PathBuf {
        if let Some(path) = std::env::var_os("TANDEM_BINARY") {
            return path.into();
        }
        let own = std::env::current_exe().expect("path of the test");
        let folder = own.parent().and_then(Path::parent).expect("target folder");
        let binary = folder.join("tandem");
        assert!(
            binary.exists(),
            "{} is missing: cargo build --package tandem",
            binary.display()
        );
        binary
    }

    /// Starts a server and waits until it is ready.
    pub fn start(options: &ServerOptions) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let mut server = Self {
            child: None,
            folder,
            port: free_port(),
            admin_port: free_port(),
        };
        let ServerOptions {
            top,
            sections,
            workers,
            domain,
            ..
        } = options;
        let configuration = format!(
            "domains = [\"{domain}\"]\n{top}\n[[listen]]\ntransport = \"udp\"\naddress = \"127.0.0.1:{}\"\n\n\
             [workers]\ncount = {workers}\n\n[database]\nurl = \"sqlite:{}\"\n\n[admin]\nlisten = \"127.0.0.1:{}\"\n\n{sections}\n",
            server.port,
            server.path("tandem.db").display(),
            server.admin_port,
        );
        std::fs::write(server.path("tandem.toml"), configuration).expect("configuration");
        let csv: String = options
            .users
            .iter()
            .map(|user| format!("{user},{domain},{user}-secret\n"))
            .collect();
        std::fs::write(server.path("users.csv"), csv).expect("subscribers");
        let file = server.path("users.csv");
        let (code, output) = server.tandem(&["user", "import", &file.to_string_lossy()]);
        assert_eq!(code, 0, "{output}");
        server.restart();
        server
    }

    /// Starts it (again) on the same database and waits until it is ready.
    pub fn restart(&mut self) {
        let mut command = Command::new(Self::binary());
        command
            .arg("serve")
            .arg("--config")
            .arg(self.path("tandem.toml"));
        self.child = None;
        self.child = Some(Child::start(&mut command, &self.path("server.log")));
        wait_until("the server is ready", Duration::from_secs(20), || {
            self.http("/health/ready").0 == 200
        });
    }

    /// A path in the server's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Child {
        self.child.as_mut().expect("running")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }

    /// Runs `tandem ARGUMENTS --config …`: exit code and output.
    pub fn tandem(&self, arguments: &[&str]) -> (i32, String) {
        run(Command::new(Self::binary())
            .args(arguments)
            .arg("--config")
            .arg(self.path("tandem.toml")))
    }

    /// GET: status and body.
    pub fn http(&self, path: &str) -> (u16, String) {
        self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
        .unwrap_or_default()
    }

    /// Calls a JSON-RPC method; panics with the error it gives.
    pub fn rpc(&self, method: &str, params: &Value) -> Value {
        let body =
            serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                .to_string();
        let request = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let (_, answer) = self.exchange(&request).expect("the admin API answers");
        let answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer.get("result").cloned().unwrap_or_default()
    }

    /// The sum of a metric over all its labels that contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let text = self.http("/metrics").1;
        let values = text.lines().filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            let bare = key.split('{').next()?;
            (bare == name && key.contains(label))
                .then(|| value.parse::<f64>().ok())
                .flatten()
        });
        values.sum()
    }

    fn exchange(&self, request: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin_port)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }
}
