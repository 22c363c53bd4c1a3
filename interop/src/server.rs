//! The server under test: the real binary with its own configuration, database and ports.

use crate::features;
use crate::host::Host;
use crate::process::{Child, PATIENCE, eventually, free_port, run};
use crate::sipp::Scenario;
use serde_json::Value;
use sip_transport::Protocol;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The settings that a test can change.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Sections to append to the configuration.
    pub sections: String,
    /// The domain of the server.
    pub domain: String,
    /// The subscribers, with the passwords of [`Server::password`].
    pub users: Vec<String>,
    /// The section `[database]`. `None`: a database in the folder of the server, which gets the subscribers.
    pub database: Option<String>,
    /// The number of worker threads.
    pub workers: u16,
    /// The machine it runs on, and the address it listens at.
    pub host: Host,
    /// The event loop of its workers: the value of `INTEROP_EVENT_LOOP`, or `auto`.
    pub event_loop: String,
    /// The soft and hard limit of open file descriptors. `None`: the limits of the test.
    pub descriptors: Option<(u64, u64)>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// The program. `None`: [`Server::binary`].
    pub program: Option<PathBuf>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            sections: String::new(),
            domain: "example.org".into(),
            users: ["alice", "bob", "carol"].map(String::from).to_vec(),
            database: None,
            workers: 2,
            host: Host::default(),
            event_loop: std::env::var("INTEROP_EVENT_LOOP").unwrap_or("auto".into()),
            descriptors: None,
            environment: Vec::new(),
            program: None,
        }
    }
}

impl ServerOptions {
    /// The default options with these sections in the configuration.
    pub fn with(sections: &str) -> Self {
        Self {
            sections: sections.to_owned(),
            ..Self::default()
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    folder: TempDir,
    host: Host,
    /// For UDP and TCP. TLS uses the next port.
    address: SocketAddr,
    /// For WS. WSS uses the next port.
    web: SocketAddr,
    admin_port: u16,
    domain: String,
    descriptors: Option<(u64, u64)>,
    environment: Vec<(String, String)>,
    program: PathBuf,
}

impl Server {
    /// The path of the binary: next to the test binaries of this build, or the value of `INTEROP_BINARY`.
    pub fn binary() -> PathBuf {
        if let Some(path) = std::env::var_os("INTEROP_BINARY") {
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
        let mut server = Self {
            child: None,
            folder: TempDir::new().expect("temporary folder"),
            host: options.host.clone(),
            address: SocketAddr::new(options.host.address(), free_port()),
            web: SocketAddr::new(options.host.address(), free_port()),
            admin_port: free_port(),
            domain: options.domain.clone(),
            descriptors: options.descriptors,
            environment: options.environment.clone(),
            program: options.program.clone().unwrap_or_else(Self::binary),
        };
        server.configure(options);
        server.renew_certificate();
        if options.database.is_none() {
            server.import(options);
        }
        server.restart();
        server
    }

    /// Adds the subscribers to its database.
    fn import(&self, options: &ServerOptions) {
        let csv = self.path("users.csv");
        let mut lines = String::new();
        for user in &options.users {
            let _ = writeln!(lines, "{user},{},{}", options.domain, Self::password(user));
        }
        std::fs::write(&csv, lines).expect("subscribers");
        let (code, output) = self.tandem(&["user", "import", &csv.to_string_lossy()]);
        assert_eq!(code, 0, "{output}");
    }

    /// Writes its configuration.
    pub fn configure(&self, options: &ServerOptions) {
        let ServerOptions {
            sections,
            domain,
            workers,
            event_loop,
            ..
        } = options;
        let own = || format!("url = \"sqlite:{}\"", self.path("tandem.db").display());
        let database = options.database.clone().unwrap_or_else(own);
        let mut configuration = format!(
            "domains = [\"{domain}\"]\n\n[workers]\ncount = {workers}\nevent_loop = \"{event_loop}\"\n\n\
             [database]\n{database}\n\n[admin]\nlisten = \"127.0.0.1:{}\"\n\n\
             [[certificate]]\nchain = \"{}\"\nkey = \"{}\"\n\n{sections}\n",
            self.admin_port,
            self.path("chain.pem").display(),
            self.path("key.pem").display(),
        );
        // Pages that browsers read from files have no origin.
        if !sections.contains("[connections]") {
            configuration += "[connections]\norigins = [\"*\"]\n\n";
        }
        for protocol in Protocol::ALL {
            let transport = protocol.via_token().to_ascii_lowercase();
            let address = self.address_of(protocol);
            let _ = write!(
                configuration,
                "[[listen]]\ntransport = \"{transport}\"\naddress = \"{address}\"\n\n"
            );
        }
        configuration += &features::sections(&configuration, self.folder.path());
        std::fs::write(self.path("tandem.toml"), configuration).expect("configuration");
    }

    /// Replaces its certificate and key by new ones. The certificate is self-signed, for the domain and the addresses of
    /// this machine.
    pub fn renew_certificate(&self) {
        let address = self.address.ip().to_string();
        let names = [&self.domain, "localhost", "127.0.0.1", "::1", &address];
        Self::make_certificate(self.folder.path(), &names);
    }

    /// Makes a self-signed certificate for these names: `chain.pem` and `key.pem` in a folder.
    pub fn make_certificate(folder: &Path, names: &[&str]) {
        let mut command = Command::new(Self::binary());
        command.args(["certificate", "self-signed", "--force", "--folder"]);
        command.arg(folder);
        for name in names {
            command.args(["--name", name]);
        }
        let (code, output) = run(&mut command);
        assert_eq!(code, 0, "{output}");
    }

    /// Starts it (again) on the same database and waits until it is ready.
    pub fn restart(&mut self) {
        self.launch();
        let ready = eventually(PATIENCE, || self.is_ready());
        assert!(ready, "the server does not start:\n{}", self.log());
    }

    /// Starts it (again) on the same database and does not wait.
    pub fn launch(&mut self) {
        let mut command = match self.descriptors {
            Some((soft, hard)) => {
                let mut command = self.host.command("prlimit");
                command
                    .arg(format!("--nofile={soft}:{hard}"))
                    .arg(&self.program);
                command
            }
            None => self.host.command(&self.program),
        };
        command
            .envs(self.environment.iter().cloned())
            .arg("serve")
            .arg("--config")
            .arg(self.path("tandem.toml"));
        // End the old one first, because it holds the port.
        self.child = None;
        self.child = Some(Child::start(&mut command, &self.path("server.log")));
    }

    /// Uses another program from the next start on.
    pub fn set_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Kills it at once, as in a crash.
    pub fn kill(&mut self) {
        self.process().signal("KILL");
        self.process().wait();
    }

    /// Whether its readiness check succeeds.
    pub fn is_ready(&self) -> bool {
        self.http("/health/ready").0 == 200
    }

    /// The password of a subscriber.
    pub fn password(user: &str) -> String {
        format!("{user}-secret")
    }

    /// The URI of a subscriber. A URI stays as it is.
    pub fn uri(&self, user: &str) -> String {
        if user.starts_with("sip:") || user.starts_with("sips:") {
            user.to_owned()
        } else {
            format!("sip:{user}@{}", self.domain)
        }
    }

    /// Its domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Registers a phone for a subscriber with sipp. `params` are parameters of the contact, such as `;q=0.5`.
    pub fn register(&self, user: &str, phone: SocketAddr, params: &str) {
        let contact = format!("<sip:{user}@{phone}>{params}");
        Scenario::new("register")
            .from(user)
            .key("contact", &contact)
            .run(self);
    }

    /// The bindings of a subscriber, from the admin interface.
    pub fn bindings(&self, user: &str) -> Vec<Value> {
        let address = format!("{user}@{}", self.domain);
        let found = self.rpc("location.get", &serde_json::json!({ "address": address }));
        let bindings = found.get("bindings").and_then(Value::as_array);
        bindings
            .cloned()
            .unwrap_or_else(|| panic!("no bindings in {found}"))
    }

    /// A path in the server's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Child {
        self.child.as_mut().expect("running")
    }

    /// The address it listens at for UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address it listens at for a protocol.
    pub fn address_of(&self, protocol: Protocol) -> SocketAddr {
        let next = |address: SocketAddr| SocketAddr::new(address.ip(), address.port() + 1);
        match protocol {
            Protocol::Udp | Protocol::Tcp => self.address,
            Protocol::Tls => next(self.address),
            Protocol::Ws => self.web,
            Protocol::Wss => next(self.web),
        }
    }

    /// The self-signed certificate that it presents over TLS.
    pub fn certificate(&self) -> PathBuf {
        self.path("chain.pem")
    }

    /// The machine it runs on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The address of its admin interface.
    pub fn admin_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.admin_port).into()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }

    /// Runs `tandem ARGUMENTS --config …`. Returns exit code and output.
    pub fn tandem(&self, arguments: &[&str]) -> (i32, String) {
        run(self
            .host
            .command(&self.program)
            .args(arguments)
            .arg("--config")
            .arg(self.path("tandem.toml")))
    }
}
