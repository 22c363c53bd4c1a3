//! Kamailio: a record-routing proxy in front of a phone, a registrar on a database, or a carrier that challenges.

use crate::host::Host;
use crate::process::{Child, eventually, free_port, run, wait_until};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A running Kamailio.
#[derive(Debug)]
pub struct Kamailio {
    child: Child,
    host: Host,
    time_zone: String,
    folder: TempDir,
    address: SocketAddr,
}

impl Kamailio {
    /// Starts a proxy that is one of the servers of a domain. It passes all calls to a phone. Its Record-Route names the
    /// domain, so that any server of the domain can continue the dialog.
    pub fn start(domain: &str, phone: SocketAddr) -> Self {
        let text = TEMPLATE.replace("DOMAIN", domain);
        Self::launch(&text.replace("PHONE", &phone.to_string()), "UTC")
    }

    /// Starts a registrar that authenticates the subscribers of a PostgreSQL database, and writes where they are there at once. `time_zone` is
    /// that of its process.
    pub fn registrar(domain: &str, database: &str, time_zone: &str) -> Self {
        let text = REGISTRAR.replace("DOMAIN", domain);
        Self::launch(&text.replace("DATABASE", database), time_zone)
    }

    /// Starts a carrier. It challenges REGISTER, INVITE, and BYE of calls to numbers. Each user has this password. Calls go to where their user is registered,
    /// calls to numbers to where alice is.
    pub fn carrier(domain: &str, password: &str) -> Self {
        let text = CARRIER.replace("DOMAIN", domain);
        Self::launch(&text.replace("PASSWORD", password), "UTC")
    }

    /// Starts a server for registered users behind an edge, which keeps the Path of their phones. Each user has this password.
    pub fn behind_edge(domain: &str, password: &str) -> Self {
        let path = "modparam(\"registrar\", \"use_path\", 1)\nmodparam(\"registrar\", \"path_mode\", 0)\nrequest_route {";
        let text = CARRIER.replace("DOMAIN", domain);
        let text = text.replace("request_route {", path);
        Self::launch(&text.replace("PASSWORD", password), "UTC")
    }

    /// Starts it on this machine, with a configuration in which `ADDRESS` stands for its address.
    pub fn on(host: &Host, text: &str) -> Self {
        Self::launch_on(host, text, "UTC")
    }

    fn launch(text: &str, time_zone: &str) -> Self {
        Self::launch_on(&Host::default(), text, time_zone)
    }

    fn launch_on(host: &Host, text: &str, time_zone: &str) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let address = SocketAddr::from((host.address(), free_port()));
        let text = text.replace("ADDRESS", &address.to_string());
        std::fs::write(folder.path().join("kamailio.cfg"), text).expect("configuration");
        let mut kamailio = Self {
            child: spawn(host, folder.path(), time_zone),
            host: host.clone(),
            time_zone: time_zone.to_owned(),
            folder,
            address,
        };
        kamailio.wait_until_it_listens();
        kamailio
    }

    /// Starts it again after [`Kamailio::kill`].
    pub fn restart(&mut self) {
        self.child = spawn(&self.host, self.folder.path(), &self.time_zone);
        self.wait_until_it_listens();
    }

    /// The machine it runs on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all its processes at once, as in a crash.
    pub fn kill(&mut self) {
        self.signal_all();
        self.child.wait();
        let port = self.port_in_table();
        wait_until("Kamailio is gone", || !self.is_bound(&port));
    }

    fn wait_until_it_listens(&mut self) {
        let port = self.port_in_table();
        let bound = eventually(Duration::from_secs(20), || {
            self.is_bound(&port) || self.child.ended().is_some()
        });
        let ended = self.child.ended();
        assert!(
            bound && ended.is_none(),
            "Kamailio:\n{}",
            self.child.output()
        );
    }

    fn is_bound(&self, port: &str) -> bool {
        let mut command = self.host.command("cat");
        run(command.arg("/proc/net/udp")).1.contains(port)
    }

    fn port_in_table(&self) -> String {
        format!(":{:04X} ", self.address.port())
    }

    fn signal_all(&self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        if self.child.ended().is_none() {
            self.signal_all();
        }
    }
}

fn spawn(host: &Host, folder: &Path, time_zone: &str) -> Child {
    let mut command: Command = host.command("kamailio");
    command.args(["-DD", "-E", "-m", "64", "-M", "8", "-w"]);
    command.arg(folder).arg("-Y").arg(folder).arg("-f");
    command
        .arg(folder.join("kamailio.cfg"))
        .env("TZ", time_zone);
    // Its processes form a group, so that they end together.
    command.process_group(0);
    Child::start(&mut command, &folder.join("output"))
}

const TEMPLATE: &str = r#"
debug=0
children=2
disable_tcp=yes
auto_aliases=no
listen=udp:ADDRESS
alias="DOMAIN"
loadmodule "pv.so"
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "textops.so"
loadmodule "siputils.so"
request_route {
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (has_totag()) {
    if (!loose_route()) {
      sl_send_reply("404", "Not here");
      exit;
    }
    t_relay();
    exit;
  }
  record_route_preset("DOMAIN");
  $du = "sip:PHONE";
  t_relay();
}
"#;

const CARRIER: &str = r#"
debug=0
children=2
disable_tcp=yes
auto_aliases=no
listen=udp:ADDRESS
alias="DOMAIN"
loadmodule "pv.so"
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "auth.so"
modparam("auth", "nonce_count", 1)
modparam("auth", "qop", "auth")
request_route {
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (is_method("REGISTER")) {
    if (!pv_www_authenticate("DOMAIN", "PASSWORD", "0")) {
      www_challenge("DOMAIN", "1");
      exit;
    }
    save("location");
    exit;
  }
  if (is_method("INVITE") || (is_method("BYE") && $tU =~ "^[+]")) {
    if (!pv_proxy_authenticate("DOMAIN", "PASSWORD", "0")) {
      proxy_challenge("DOMAIN", "1");
      exit;
    }
    consume_credentials();
  }
  if (has_totag()) {
    if (!loose_route()) {
      sl_send_reply("404", "Not here");
      exit;
    }
    t_relay();
    exit;
  }
  record_route();
  if ($rU =~ "^[+]") {
    $rU = "alice";
  }
  if (!lookup("location")) {
    sl_send_reply("404", "Not registered");
    exit;
  }
  t_relay();
}
"#;

const REGISTRAR: &str = r#"
debug=0
children=2
disable_tcp=yes
auto_aliases=no
listen=udp:ADDRESS
alias="DOMAIN"
loadmodule "db_postgres.so"
loadmodule "pv.so"
loadmodule "sl.so"
loadmodule "textops.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "auth.so"
loadmodule "auth_db.so"
modparam("usrloc", "db_url", "DATABASE")
modparam("usrloc", "db_mode", 1)
modparam("usrloc", "use_domain", 1)
modparam("auth_db", "db_url", "DATABASE")
request_route {
  if (!is_method("REGISTER")) {
    sl_send_reply("405", "Only a registrar");
    exit;
  }
  if (!www_authorize("DOMAIN", "subscriber")) {
    www_challenge("DOMAIN", "0");
    exit;
  }
  consume_credentials();
  save("location");
}
"#;
