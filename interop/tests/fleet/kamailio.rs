//! The same kills for a fleet of Kamailio, for comparison: edges with its dispatcher before registrars on one PostgreSQL. It has no other processes.
//!
//! With `FLEET_SECONDS`, processes are killed, and the test prints what became of the calls: `make resilience-kamailio`. Without it, none is killed
//! and every call has to succeed.

use crate::calls::{Calls, Tally};
use crate::kills::{Plan, kill_in_turn};
use crate::members::{EDGES, Member, Members, PHONES, is_on_machines};
use crate::postgres::Server as Postgres;
use interop::{Host, Kamailio, Network, Server, lab_users};
use std::fmt::Write as _;
use tempfile::TempDir;

const DOMAIN: &str = "example.org";
const NODES: usize = 3;

/// A running fleet.
struct KamailioFleet {
    edges: Vec<Kamailio>,
    nodes: Vec<Kamailio>,
    postgres: Postgres,
    folder: TempDir,
    /// Dropped last.
    network: Option<Network>,
}

impl KamailioFleet {
    fn start() -> Self {
        let mut network = is_on_machines().then(Network::new);
        let mut host = || network.as_mut().map_or_else(Host::default, Network::add);
        let postgres = match is_on_machines().then(&mut host) {
            Some(host) => Postgres::on(host.address(), host.prefix()),
            None => Postgres::new(),
        };
        for module in ["standard", "auth_db", "usrloc"] {
            let file = format!("/usr/share/kamailio/postgres/{module}-create.sql");
            let sql = std::fs::read_to_string(&file);
            let sql = sql.unwrap_or_else(|error| panic!("{file}: {error}; run scripts/setup test"));
            postgres.execute("postgres", &sql);
        }
        let users = lab_users(PHONES * EDGES as u32).into_iter();
        let rows =
            users.map(|user| format!("('{user}', '{DOMAIN}', '{}')", Server::password(&user)));
        let rows: Vec<String> = rows.collect();
        let columns = "subscriber (username, domain, password)";
        let sql = format!("INSERT INTO {columns} VALUES {}", rows.join(", "));
        postgres.execute("postgres", &sql);
        let url = postgres.url("postgres", "postgres");
        let node = NODE.replace("DATABASE", &url).replace("DOMAIN", DOMAIN);
        let nodes: Vec<Kamailio> = (0..NODES).map(|_| Kamailio::on(&host(), &node)).collect();
        let folder = TempDir::new().expect("temporary folder");
        let list = nodes.iter().fold(String::new(), |mut list, node| {
            let _ = writeln!(list, "1 sip:{} 0 0", node.address());
            list
        });
        std::fs::write(folder.path().join("dispatcher.list"), list).expect("the nodes");
        let edge = EDGE.replace("FOLDER", &folder.path().to_string_lossy());
        let edge = edge.replace("DOMAIN", DOMAIN);
        let edges = (0..EDGES).map(|_| Kamailio::on(&host(), &edge)).collect();
        Self {
            edges,
            nodes,
            postgres,
            folder,
            network,
        }
    }

    fn connect(&self, place: usize, is_connected: bool) {
        let network = self.network.as_ref().expect("it has machines");
        network.connect(self.nodes[place].host(), is_connected);
    }
}

impl Members for KamailioFleet {
    fn kill(&mut self, member: Member) {
        match member {
            Member::Node(place) => self.nodes[place].kill(),
            Member::Machine(place) => {
                self.connect(place, false);
                self.nodes[place].kill();
            }
            Member::Edge(place) => self.edges[place].kill(),
            Member::Postgres => self.postgres.stop(),
            Member::Redis | Member::Controller => panic!("it has no {member:?}"),
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
            Member::Postgres => self.postgres.start(),
            Member::Redis | Member::Controller => panic!("it has no {member:?}"),
        }
    }

    fn being_set_up(&self, _place: usize) -> u64 {
        0
    }
}

#[test]
fn a_fleet_of_kamailio_carries_the_same_calls() {
    let kills = std::env::var_os("FLEET_SECONDS").is_some();
    let mut plan = Plan::over_udp(6);
    plan.members
        .retain(|member| !matches!(member, Member::Redis | Member::Controller));
    if !kills {
        plan.members.clear();
    }
    let mut fleet = KamailioFleet::start();
    let calls = [0, 1].map(|edge| {
        let server = fleet.edges[edge].address();
        let rate = plan.rate / EDGES as u32;
        Calls::start_at(
            fleet.folder.path(),
            (edge, server),
            "udp",
            DOMAIN,
            rate,
            plan.duration,
        )
    });
    let killed = kill_in_turn(&mut fleet, &plan);
    let tally = calls.map(Calls::finish).into_iter();
    let tally = tally.fold(Tally::default(), Tally::and);
    println!("killed: {:?}", killed.members);
    println!("{tally:?}");
    assert!(tally.attempted > 0);
    assert!(kills || tally.failed == 0, "{tally:?}");
}

/// The hash of the Call-ID chooses a node, for requests of dialogs too: every node can relay them. A node that does not answer within 1.5 s is
/// replaced by the next one, and OPTIONS every second find out which nodes answer.
const EDGE: &str = r#"
debug=0
children=4
disable_tcp=yes
auto_aliases=no
listen=udp:ADDRESS
loadmodule "pv.so"
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "path.so"
loadmodule "dispatcher.so"
modparam("tm", "fr_timer", 1500)
modparam("tm", "fr_inv_timer", 120000)
modparam("path", "use_received", 1)
modparam("dispatcher", "list_file", "FOLDER/dispatcher.list")
modparam("dispatcher", "flags", 2)
modparam("dispatcher", "ds_ping_interval", 1)
modparam("dispatcher", "ds_probing_mode", 1)
modparam("dispatcher", "ds_probing_threshold", 1)
modparam("dispatcher", "ds_inactive_threshold", 1)
request_route {
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (has_totag()) {
    if (!loose_route()) {
      if (is_method("ACK") && t_check_trans()) {
        t_relay();
        exit;
      }
      if (!is_method("ACK")) sl_send_reply("404", "Not here");
      exit;
    }
    if ($du =~ "nodes[.]DOMAIN") route(NODE);
    t_relay();
    exit;
  }
  t_check_trans();
  if (ds_is_from_list()) {
    if (is_method("INVITE")) record_route();
    loose_route();
    t_relay();
    exit;
  }
  if (is_method("REGISTER")) {
    add_path_received();
  } else {
    record_route();
  }
  route(NODE);
}
route[NODE] {
  if (!ds_select_dst("1", "0")) {
    if (!is_method("ACK")) sl_send_reply("503", "No node");
    exit;
  }
  t_on_failure("NEXT");
  t_relay();
  exit;
}
failure_route[NEXT] {
  if (t_is_canceled()) exit;
  if (t_branch_timeout() && !t_branch_replied()) {
    ds_mark_dst("ip");
    if (ds_next_dst()) {
      t_on_failure("NEXT");
      t_relay();
      exit;
    }
  }
}
"#;

/// All nodes answer to one name in Record-Route, issue nonces that the others accept, and have their bindings in the database only.
const NODE: &str = r#"
debug=0
children=4
disable_tcp=yes
auto_aliases=no
listen=udp:ADDRESS
alias="DOMAIN"
alias="nodes.DOMAIN"
loadmodule "db_postgres.so"
loadmodule "pv.so"
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "auth.so"
loadmodule "auth_db.so"
modparam("auth", "secret", "of all nodes")
modparam("auth_db", "db_url", "DATABASE")
modparam("auth_db", "calculate_ha1", 1)
modparam("auth_db", "password_column", "password")
modparam("usrloc", "db_url", "DATABASE")
modparam("usrloc", "db_mode", 3)
modparam("usrloc", "use_domain", 1)
modparam("registrar", "use_path", 1)
modparam("registrar", "path_mode", 0)
request_route {
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (is_method("OPTIONS") && !has_totag()) {
    sl_send_reply("200", "OK");
    exit;
  }
  if (has_totag()) {
    if (!loose_route()) {
      if (is_method("ACK") && t_check_trans()) {
        t_relay();
        exit;
      }
      if (!is_method("ACK")) sl_send_reply("404", "Not here");
      exit;
    }
    t_relay();
    exit;
  }
  t_check_trans();
  if (is_method("REGISTER")) {
    if (!www_authorize("DOMAIN", "subscriber")) {
      www_challenge("DOMAIN", "0");
      exit;
    }
    consume_credentials();
    save("location");
    exit;
  }
  if (!proxy_authorize("DOMAIN", "subscriber")) {
    proxy_challenge("DOMAIN", "0");
    exit;
  }
  consume_credentials();
  record_route_preset("nodes.DOMAIN");
  if (!lookup("location")) {
    sl_send_reply("404", "Not registered");
    exit;
  }
  t_relay();
}
"#;
