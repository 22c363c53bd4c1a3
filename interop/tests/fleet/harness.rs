//! Three nodes behind two edges, with their Redis and their PostgreSQL: all of them real processes that a test can kill.

use crate::postgres::Server as Postgres;
use interop::{Child, Edge, FLEET_SECRET, Redis, Server, ServerOptions, lab_users, wait_until};
use serde_json::Value;
use sip_transport::Protocol;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The number of nodes.
pub const NODES: usize = 3;
/// The number of edges.
pub const EDGES: usize = 2;
/// Phones at each edge.
pub const PHONES: u32 = 200;

/// A process of the fleet.
#[derive(Clone, Copy, Debug)]
pub enum Member {
    /// A node, by its place.
    Node(usize),
    /// An edge, by its place.
    Edge(usize),
    /// The store of bindings and dialogs.
    Redis,
    /// The database.
    Postgres,
}

/// A running fleet.
pub struct Fleet {
    postgres: Postgres,
    redis: Redis,
    pub nodes: Vec<Server>,
    pub edges: Vec<Edge>,
    folder: TempDir,
}

impl Fleet {
    /// Starts everything and waits until every edge has every node.
    pub fn start() -> Self {
        let postgres = Postgres::new();
        postgres.execute("postgres", "CREATE DATABASE tandem");
        let redis = Redis::start();
        let folder = TempDir::new().expect("temporary folder");
        std::fs::write(folder.path().join("secret"), FLEET_SECRET).expect("the secret");
        let mut fleet = Self {
            postgres,
            redis,
            nodes: Vec::new(),
            edges: Vec::new(),
            folder,
        };
        for place in 0..NODES {
            let node = Server::start(&fleet.options(place));
            if place == 0 {
                fleet.add_subscribers(&node);
            }
            fleet.nodes.push(node);
        }
        for _ in 0..EDGES {
            fleet.edges.push(Edge::start(&fleet.addresses()));
        }
        fleet.wait_until_whole();
        fleet
    }

    fn options(&self, place: usize) -> ServerOptions {
        let redis = self.redis.url();
        let secret = self.folder.path().join("secret");
        ServerOptions {
            sections: format!(
                "[node]\nname = \"{}\"\n\n[fleet]\nsecret_file = \"{}\"\n\n[location]\nstore = \"{redis}\"\n\n\
                 [timers]\n\n[shutdown]\ndrain_timeout = \"5s\"\n",
                NAMES[place],
                secret.display()
            ),
            database: Some(format!(
                "url = \"{}\"",
                self.postgres.url("postgres", "tandem")
            )),
            workers: 1,
            ..ServerOptions::default()
        }
    }

    /// The subscribers of the load generator.
    fn add_subscribers(&self, node: &Server) {
        let mut lines = String::new();
        for user in lab_users(PHONES * EDGES as u32) {
            let _ = writeln!(
                lines,
                "{user},{},{}",
                node.domain(),
                Server::password(&user)
            );
        }
        let file = self.folder.path().join("users.csv");
        std::fs::write(&file, lines).expect("subscribers");
        let (code, output) = node.tandem(&["user", "import", &file.to_string_lossy()]);
        assert_eq!(code, 0, "{output}");
    }

    fn addresses(&self) -> Vec<(&'static str, std::net::SocketAddr)> {
        let nodes = NAMES.into_iter().zip(&self.nodes);
        nodes.map(|(name, node)| (name, node.address())).collect()
    }

    /// Waits until all nodes are ready and all edges know it.
    pub fn wait_until_whole(&self) {
        wait_until("the fleet is whole", || {
            self.nodes.iter().all(Server::is_ready)
                && self
                    .edges
                    .iter()
                    .all(|edge| NAMES.iter().all(|name| edge.state(name) == "alive"))
        });
    }

    /// Kills a process, as in a crash.
    pub fn kill(&mut self, member: Member) {
        match member {
            Member::Node(place) => self.nodes[place].kill(),
            Member::Edge(place) => self.edges[place].kill(),
            Member::Redis => self.redis.kill(),
            Member::Postgres => self.postgres.stop(),
        }
    }

    /// Starts it again and waits until it works.
    pub fn restart(&mut self, member: Member) {
        match member {
            Member::Node(place) => self.nodes[place].restart(),
            Member::Edge(place) => self.edges[place].restart(),
            Member::Redis => self.redis.restart(),
            Member::Postgres => self.postgres.start(),
        }
    }

    /// Starts calls over a transport among the phones of an edge, at this rate, and lets them end by themselves.
    pub fn calls(&self, edge: usize, transport: &str, rate: u32, duration: Duration) -> Calls {
        let report = self.folder.path().join(format!("calls{edge}.json"));
        let mut command = Command::new(Server::binary());
        command.args(["lab", "run", "call", "--quiet", "--ignore-icmp"]);
        let protocol = Protocol::from_token(transport.as_bytes()).expect("a transport");
        let server = self.edges[edge].address_of(protocol).to_string();
        command.args(["--transport", transport, "--server", &server]);
        command.args(["--domain", self.nodes[0].domain()]);
        command.args(["--password", "user{}-secret", "--nonces", "fresh"]);
        command.args(["--phones", &PHONES.to_string()]);
        command.args(["--first", &(edge as u32 * PHONES).to_string()]);
        command.args(["--rate", &rate.to_string()]);
        command.args(["--duration", &format!("{}s", duration.as_secs())]);
        command.args(["--ringing", "500ms", "--talking", "3s"]);
        command.arg("--json").arg(&report);
        let log = self.folder.path().join(format!("calls{edge}.log"));
        Calls {
            child: Child::start(&mut command, &log),
            report,
        }
    }
}

/// The names of the nodes.
pub const NAMES: [&str; NODES] = ["sip-1", "sip-2", "sip-3"];

/// A running load generator.
pub struct Calls {
    child: Child,
    report: std::path::PathBuf,
}

impl Calls {
    /// Waits for its end. Returns its report and its output.
    pub fn finish(mut self, at_most: Duration) -> (Value, String) {
        let status = self.child.wait_at_most(at_most);
        let output = self.child.output();
        assert!(status.is_some(), "the calls do not end:\n{output}");
        let report = std::fs::read_to_string(&self.report).unwrap_or_default();
        (serde_json::from_str(&report).unwrap_or_default(), output)
    }
}
