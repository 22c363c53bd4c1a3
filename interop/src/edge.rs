//! An edge of a fleet in front of servers: the real binary with its own configuration and ports.

use crate::admin;
use crate::fleet_controller::FleetController;
use crate::host::Host;
use crate::process::{Child, PATIENCE, eventually, free_port};
use crate::server::Server;
use serde_json::Value;
use sip_transport::Protocol;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The secret of all fleets in tests.
pub const FLEET_SECRET: &str = "0123456789abcdef0123456789abcdef\n";

/// A running edge.
#[derive(Debug)]
pub struct Edge {
    child: Option<Child>,
    host: Host,
    folder: TempDir,
    /// For UDP and TCP. TLS uses the next port.
    address: SocketAddr,
    /// For WS. WSS uses the next port.
    web: SocketAddr,
    admin_port: u16,
    program: PathBuf,
}

impl Edge {
    /// Starts an edge in front of these nodes, and waits until one of them answers.
    pub fn start(nodes: &[(&str, SocketAddr)]) -> Self {
        Self::launch(nodes, None, &Server::binary(), &Host::default())
    }

    /// Starts an edge that gets its nodes from a controller. Until the controller answers, it has these.
    pub fn following(controller: &FleetController, nodes: &[(&str, SocketAddr)]) -> Self {
        Self::following_with(&Server::binary(), &Host::default(), controller, nodes)
    }

    /// Like [`Edge::following`], with this program, on this machine.
    pub fn following_with(
        program: &Path,
        host: &Host,
        controller: &FleetController,
        nodes: &[(&str, SocketAddr)],
    ) -> Self {
        Self::launch(nodes, Some(controller), program, host)
    }

    fn launch(
        nodes: &[(&str, SocketAddr)],
        controller: Option<&FleetController>,
        program: &Path,
        host: &Host,
    ) -> Self {
        let mut edge = Self {
            child: None,
            host: host.clone(),
            folder: TempDir::new().expect("temporary folder"),
            address: (host.address(), free_port()).into(),
            web: (host.address(), free_port()).into(),
            admin_port: free_port(),
            program: program.to_owned(),
        };
        edge.renew_certificate();
        std::fs::write(edge.path("secret"), FLEET_SECRET).expect("the secret");
        edge.set_nodes(nodes);
        edge.configure(controller);
        edge.restart();
        edge
    }

    /// Replaces its nodes. A running edge notices it.
    pub fn set_nodes(&self, nodes: &[(&str, SocketAddr)]) {
        let node = |(instance, address): &(&str, SocketAddr)| serde_json::json!({"instance": instance, "name": instance, "address": address});
        let nodes: Vec<Value> = nodes.iter().map(node).collect();
        let set = serde_json::json!({"generation": 1, "nodes": nodes}).to_string();
        // A reader never sees half of it.
        std::fs::write(self.path("new.json"), set).expect("the nodes");
        std::fs::rename(self.path("new.json"), self.path("members.json")).expect("renamed");
    }

    fn configure(&self, controller: Option<&FleetController>) {
        let path = |name: &str| self.path(name).display().to_string();
        let follow = controller.map_or_else(String::new, |controller| {
            let (url, token) = (controller.url(), controller.token_file());
            let token = token.display();
            format!("controller = \"{url}\"\ntoken_file = \"{token}\"\n")
        });
        let mut text = format!(
            "[workers]\ncount = 1\n\n[fleet]\nsecret_file = \"{}\"\n\n[nodes]\nfile = \"{}\"\n{follow}\n\
             [admin]\nlisten = \"127.0.0.1:{}\"\n\n[[certificate]]\nchain = \"{}\"\nkey = \"{}\"\n\n[connections]\norigins = [\"*\"]\n\n",
            path("secret"),
            path("members.json"),
            self.admin_port,
            path("chain.pem"),
            path("key.pem"),
        );
        for protocol in Protocol::ALL {
            let transport = protocol.via_token().to_ascii_lowercase();
            let address = self.address_of(protocol);
            let _ = write!(
                text,
                "[[listen]]\ntransport = \"{transport}\"\naddress = \"{address}\"\n\n"
            );
        }
        std::fs::write(self.path("edge.toml"), text).expect("configuration");
    }

    /// Starts it (again) and waits until a node answers.
    pub fn restart(&mut self) {
        let mut command = self.host.command(&self.program);
        command.arg("balance").arg("--config");
        command.arg(self.path("edge.toml"));
        // End the old one first, because it holds the port.
        self.child = None;
        self.child = Some(Child::start(&mut command, &self.path("edge.log")));
        let ready = eventually(PATIENCE, || self.http("/health/ready").0 == 200);
        assert!(ready, "the edge does not start:\n{}", self.log());
    }

    /// Makes a new certificate, which the edge reads with the next [`Edge::reload`].
    pub fn renew_certificate(&self) {
        let address = self.address.ip().to_string();
        Server::make_certificate(self.folder.path(), &["example.org", "127.0.0.1", &address]);
    }

    /// The file of its certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("chain.pem")
    }

    /// The file of its key.
    pub fn key(&self) -> PathBuf {
        self.path("key.pem")
    }

    /// Makes it read its nodes and its certificate again.
    pub fn reload(&self) {
        let child = self.child.as_ref().expect("running");
        child.signal("HUP");
    }

    /// Uses another program from the next start on.
    pub fn set_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Kills it at once, as in a crash.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends it with a signal.
    pub fn end(&mut self, signal: &str) {
        let child = self.child.as_mut().expect("running");
        child.signal(signal);
        child.wait();
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

    /// The state of a node: `alive`, `dead`, …
    pub fn state(&self, instance: &str) -> String {
        self.node(instance)["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// What the edge says of a node.
    pub fn node(&self, instance: &str) -> Value {
        let (_, body) = self.http("/v1/nodes");
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        let nodes = body["nodes"].as_array().cloned().unwrap_or_default();
        let found = nodes.into_iter().find(|node| node["instance"] == instance);
        found.unwrap_or_default()
    }

    /// Sends a GET request to its admin interface. Returns status and body.
    pub fn http(&self, path: &str) -> (u16, String) {
        let admin = (Ipv4Addr::LOCALHOST, self.admin_port).into();
        admin::get(&self.host, admin, path)
    }

    /// The sum of a counter over all its series whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        admin::sum(&self.http("/metrics").1, name, label)
    }

    /// The section that makes a server a node of its fleet.
    pub fn fleet_section(&self) -> String {
        format!(
            "[fleet]\nsecret_file = \"{}\"\n",
            self.path("secret").display()
        )
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("edge.log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}
