//! A fleet whose Redis server is watched by sentinels: the primary is killed, and the servers follow the replica that takes its place.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
#[expect(dead_code, reason = "the Redis servers need less")]
mod process;

use common::{Phone, Place, metric, run, until};
use process::free_port;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use tandem::serve::Server;
use tempfile::TempDir;

/// A primary, a replica and three sentinels. Sentinels fail over half a second after the primary is gone.
struct Watched {
    _directory: TempDir,
    primary: Child,
    others: Vec<Child>,
    sentinels: Vec<u16>,
    replica: u16,
}

impl Watched {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let start = |name: &str, lines: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, lines).expect("a file");
            Command::new("redis-server")
                .arg(file)
                .args(name.starts_with("sentinel").then_some("--sentinel"))
                .current_dir(directory.path())
                .stdout(Stdio::null())
                .spawn()
                .expect("redis-server is installed (scripts/setup test)")
        };
        let (first, second) = (free_port(), free_port());
        let server = |port: u16, more: &str| {
            format!(
                "port {port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\nrepl-diskless-sync-delay 0\n{more}\n"
            )
        };
        let primary = start("primary.conf", &server(first, ""));
        listens(first).await;
        let follow = format!("replicaof 127.0.0.1 {first}");
        let mut others = vec![start("replica.conf", &server(second, &follow))];
        listens(second).await;
        until("the replica follows", async || {
            info(second, "replication").contains("master_link_status:up")
        })
        .await;
        let sentinels: Vec<u16> = (0..3).map(|_| free_port()).collect();
        for port in &sentinels {
            let lines = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor calls 127.0.0.1 {first} 2\n\
                 sentinel down-after-milliseconds calls 500\nsentinel failover-timeout calls 3000\n"
            );
            others.push(start(&format!("sentinel-{port}.conf"), &lines));
            listens(*port).await;
        }
        for port in &sentinels {
            until(
                "the sentinels know each other and the replica",
                async || info(*port, "sentinel").contains("slaves=1,sentinels=3"),
            )
            .await;
        }
        Self {
            _directory: directory,
            primary,
            others,
            sentinels,
            replica: second,
        }
    }

    fn url(&self) -> String {
        let hosts = self
            .sentinels
            .iter()
            .map(|port| format!("127.0.0.1:{port}"));
        let hosts: Vec<String> = hosts.collect();
        format!("redis+sentinel://{}/calls", hosts.join(","))
    }

    /// Kills the primary, and the first sentinel with it.
    fn kill(&mut self) {
        for process in [&mut self.primary, &mut self.others[1]] {
            process.kill().expect("it runs");
            process.wait().expect("it ended");
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for process in self.others.iter_mut().chain([&mut self.primary]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

async fn listens(port: u16) {
    until("redis-server listens", async || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
    .await;
}

/// A section of what a server says about itself.
fn info(port: u16, section: &str) -> String {
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "info", section])
        .output()
        .expect("redis-cli is installed (scripts/setup test)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn start(instance: &str, url: &str) -> (Place, Server) {
    let place = Place::new(&format!(
        "[auth]\nchallenge = []\n[fleet]\ninstance = \"{instance}\"\n[location]\nstore = \"{url}\"\n[dialogs]\nstore = \"{url}\"\n"
    ));
    place.start_alone().await
}

async fn has(server: &Server, bindings: u64) {
    until("the server has these bindings", async || {
        metric(server, "tandem_registrations").await == bindings
    })
    .await;
}

/// The names of phones, which are part of the address of record.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

#[test]
fn the_servers_follow_a_failover_and_no_binding_is_lost() {
    run(async {
        let mut watched = Watched::start().await;
        let url = watched.url();
        let ((_one, first), (_two, second)) = (start("one", &url).await, start("two", &url).await);
        let register = |server: &Server, names: &[&'static str]| {
            for name in names {
                assert_eq!(Phone::new(server, name).register(name, 1).0, 200, "{name}");
            }
        };
        register(&first, &NAMES[..3]);
        has(&second, 3).await;

        watched.kill();
        // Registrations go on meanwhile.
        register(&first, &NAMES[3..6]);
        register(&second, &NAMES[6..]);
        until("the replica is the primary", async || {
            info(watched.replica, "replication").contains("role:master")
        })
        .await;
        for server in [&first, &second] {
            has(server, 9).await;
            until("dialogs are shared again", async || {
                metric(server, "tandem_fleet_dialogs_connected").await == 1
            })
            .await;
        }
        let (_three, third) = start("three", &url).await;
        has(&third, 9).await;
        for server in [first, second, third] {
            assert!(server.stop(false).await);
        }
    });
}
