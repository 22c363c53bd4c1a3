//! A fleet: nodes behind edges, with their Redis, their PostgreSQL and their controller. All of them are real processes that a test can kill.

use crate::postgres::Server as Postgres;
use interop::{
    Edge, FLEET_SECRET, FleetController, Host, Network, Redis, Server, ServerOptions, lab_users,
    wait_until,
};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The number of edges.
pub const EDGES: usize = 2;
/// Phones at each edge.
pub const PHONES: u32 = 200;
/// The names of the nodes.
const NAMES: [&str; 5] = ["sip-1", "sip-2", "sip-3", "sip-4", "sip-5"];

/// A process of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A node, by its place.
    Node(usize),
    /// A node with its machine, which falls silent: no ICMP error tells others that the node is gone.
    Machine(usize),
    /// An edge, by its place.
    Edge(usize),
    /// The store of bindings and dialogs.
    Redis,
    /// The database, with all its processes.
    Postgres,
    /// The controller.
    Controller,
}

/// What a test can do to the processes of a fleet.
pub trait Members {
    /// Kills a process, as in a crash.
    fn kill(&mut self, member: Member);
    /// Starts it again and waits until it works.
    fn restart(&mut self, member: Member);
    /// The calls that a node sets up.
    fn being_set_up(&self, place: usize) -> u64;
}

/// Whether each process gets a machine of its own: `FLEET_MACHINES` is set.
pub fn is_on_machines() -> bool {
    std::env::var_os("FLEET_MACHINES").is_some()
}

/// A running fleet.
pub struct Fleet {
    postgres: Postgres,
    redis: Redis,
    controller: FleetController,
    /// All nodes that were ever started.
    pub nodes: Vec<Server>,
    pub edges: Vec<Edge>,
    folder: TempDir,
    program: PathBuf,
    /// `None`: all processes are on loopback. Dropped last.
    network: Option<Network>,
}

impl Fleet {
    /// Starts so many nodes and everything else, and waits until every edge has every node.
    pub fn start(nodes: usize) -> Self {
        Self::start_with(&Server::binary(), nodes)
    }

    /// Like [`Fleet::start`], with this program for nodes, edges and the controller.
    pub fn start_with(program: &Path, nodes: usize) -> Self {
        let mut network = is_on_machines().then(Network::new);
        let mut host = || network.as_mut().map_or_else(Host::default, Network::add);
        let postgres = match is_on_machines().then(&mut host) {
            Some(host) => Postgres::on(host.address(), host.prefix()),
            None => Postgres::new(),
        };
        postgres.execute("postgres", "CREATE DATABASE tandem");
        let folder = TempDir::new().expect("temporary folder");
        std::fs::write(folder.path().join("secret"), FLEET_SECRET).expect("the secret");
        let mut fleet = Self {
            postgres,
            redis: Redis::start_on(&host()),
            controller: FleetController::start_with(program, &host()),
            nodes: Vec::new(),
            edges: Vec::new(),
            folder,
            program: program.to_owned(),
            network,
        };
        for _ in 0..nodes {
            fleet.add_node();
        }
        let named = NAMES.into_iter().zip(&fleet.nodes);
        let known: Vec<(&str, SocketAddr)> =
            named.map(|(name, node)| (name, node.address())).collect();
        for _ in 0..EDGES {
            let host = fleet.host();
            let edge = Edge::following_with(program, &host, &fleet.controller, &known);
            fleet.edges.push(edge);
        }
        fleet.wait_until_whole();
        fleet
    }

    /// A new machine, or loopback.
    fn host(&mut self) -> Host {
        self.network
            .as_mut()
            .map_or_else(Host::default, Network::add)
    }

    fn connect(&self, place: usize, is_connected: bool) {
        let network = self.network.as_ref().expect("it has machines");
        network.connect(self.nodes[place].host(), is_connected);
    }

    /// Starts one more node and tells the controller of it. Returns its place.
    pub fn add_node(&mut self) -> usize {
        let place = self.nodes.len();
        let mut options = self.options(NAMES[place]);
        options.host = self.host();
        let node = Server::start(&options);
        if place == 0 {
            self.add_subscribers(&node);
        }
        self.controller.add(NAMES[place], node.address());
        self.nodes.push(node);
        place
    }

    fn options(&self, name: &str) -> ServerOptions {
        let redis = self.redis.url();
        let secret = self.folder.path().join("secret");
        ServerOptions {
            sections: format!(
                "[node]\nname = \"{name}\"\n\n[fleet]\nsecret_file = \"{}\"\n\n[location]\nstore = \"{redis}\"\n\n\
                 [dialogs]\nstore = \"{redis}\"\n\n[records]\ndatabase = true\n\n[shutdown]\ndrain_timeout = \"5s\"\n",
                secret.display()
            ),
            database: Some(format!("url = \"{}\"", self.database())),
            workers: 1,
            program: Some(self.program.clone()),
            ..ServerOptions::default()
        }
    }

    /// The URL of the database.
    pub fn database(&self) -> String {
        self.postgres.url("postgres", "tandem")
    }

    /// The subscribers of the load generator and of sipp.
    fn add_subscribers(&self, node: &Server) {
        let mut lines = String::new();
        let mut users = lab_users(PHONES * EDGES as u32);
        users.extend(["alice", "bob"].map(String::from));
        for user in users {
            let password = Server::password(&user);
            let _ = writeln!(lines, "{user},{},{password}", node.domain());
        }
        let file = self.path("users.csv");
        std::fs::write(&file, lines).expect("subscribers");
        let (code, output) = node.tandem(&["user", "import", &file.to_string_lossy()]);
        assert_eq!(code, 0, "{output}");
    }

    /// A path in a folder of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until all nodes are ready and all edges know it.
    pub fn wait_until_whole(&self) {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.wait_until_these(&all);
    }

    /// Waits until these nodes are ready, and are those that all edges have.
    pub fn wait_until_these(&self, places: &[usize]) {
        wait_until("the edges have the ready nodes", || {
            let is_ready = places.iter().all(|place| self.nodes[*place].is_ready());
            let is_known = |edge: &Edge| {
                let states = NAMES.map(|name| edge.state(name));
                (0..NAMES.len()).all(|place| {
                    let wanted = if places.contains(&place) { "alive" } else { "" };
                    states[place] == wanted
                })
            };
            is_ready && self.edges.iter().all(is_known)
        });
    }

    /// Lets nodes drain, as a life-cycle hook does: they keep their calls, and get no new ones.
    pub fn drain(&self, places: &[usize]) {
        for place in places {
            self.controller.order("drain", NAMES[*place]);
        }
        wait_until("the edges know which nodes drain", || {
            let drains = |edge: &Edge, place: &usize| edge.node(NAMES[*place])["draining"] == true;
            let of = |edge: &Edge| places.iter().all(|place| drains(edge, place));
            self.edges.iter().all(of)
        });
    }

    /// Stops a node in order, and takes it out of the fleet.
    pub fn remove(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.process().signal("TERM");
        assert!(node.process().wait().success(), "{}", node.log());
        self.controller.order("remove", NAMES[place]);
    }

    /// The live dialogs of a node, of a state or ("") of all.
    pub fn dialogs(&self, place: usize, state: &str) -> u64 {
        self.nodes[place].count("tandem_dialogs", state)
    }

    /// Runs SQL in the database.
    pub fn execute(&self, sql: &str) {
        self.postgres.execute("tandem", sql);
    }

    /// Replaces a process by one of another program, in order: a node drains first, as before the end of its pod.
    ///
    /// Its address is free only when it has ended, so the fleet has one member less for a moment.
    pub fn upgrade(&mut self, member: Member, program: &Path) {
        match member {
            Member::Node(place) => {
                self.drain(&[place]);
                let node = &mut self.nodes[place];
                node.process().signal("TERM");
                assert!(node.process().wait().success(), "{}", node.log());
                node.set_program(program);
                node.restart();
                self.controller.order("enable", NAMES[place]);
                wait_until("the edges know that the node drains no more", || {
                    let is_back = |edge: &Edge| edge.node(NAMES[place])["draining"] != true;
                    self.edges.iter().all(is_back)
                });
            }
            Member::Edge(place) => {
                self.edges[place].end("TERM");
                self.edges[place].set_program(program);
                self.edges[place].restart();
            }
            Member::Controller => {
                self.controller.end("TERM");
                self.controller.set_program(program);
                self.controller.restart();
            }
            Member::Machine(_) | Member::Redis | Member::Postgres => {
                panic!("{member:?} is another program")
            }
        }
        self.wait_until_whole();
    }
}

impl Members for Fleet {
    fn kill(&mut self, member: Member) {
        match member {
            Member::Node(place) => self.nodes[place].kill(),
            Member::Machine(place) => {
                self.connect(place, false);
                self.nodes[place].kill();
            }
            Member::Edge(place) => self.edges[place].kill(),
            Member::Redis => self.redis.kill(),
            Member::Postgres => self.postgres.stop(),
            Member::Controller => self.controller.kill(),
        }
    }

    fn restart(&mut self, member: Member) {
        match member {
            Member::Node(place) => self.nodes[place].restart(),
            Member::Machine(place) => {
                self.connect(place, true);
                self.nodes[place].restart();
            }
            Member::Edge(place) => self.edges[place].restart(),
            Member::Redis => self.redis.restart(),
            Member::Postgres => self.postgres.start(),
            Member::Controller => self.controller.restart(),
        }
    }

    fn being_set_up(&self, place: usize) -> u64 {
        self.dialogs(place, "early")
    }
}
