//! Two servers that share the calls in progress through a Redis server (`dialogs.store`): one is a process that is killed or stopped.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
#[expect(dead_code, reason = "the Redis server needs less")]
mod process;

use common::calls::Call;
use common::redis::Redis;
use common::{Phone, Place, blocking, call as rpc, http_get, metric, run, until};
use process::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tandem::serve::Server;

const WRITTEN: &str = "tandem_fleet_dialogs_written_total";
const CONFIRMED: &str = "tandem_dialogs{state=\"confirmed\"}";

/// A server that runs as a process of its own, on ports that stay the same.
struct Killable {
    place: Place,
    address: SocketAddr,
    admin: SocketAddr,
    process: Child,
}

impl Killable {
    async fn start(redis: u16, more: &str) -> Self {
        let place = Place::new("");
        let [address, admin] = [free_port(), free_port()].map(|port| ([127, 0, 0, 1], port).into());
        let text = format!(
            "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"{address}\"\n[workers]\ncount = 2\n\
             [admin]\nlisten = \"{admin}\"\n[database]\nurl = \"{}\"\n{}",
            place.database_url(),
            fleet("killable", redis, &records(&place), more)
        );
        place.configure_exactly(&text);
        let process = launch(&place);
        let node = Self {
            place,
            address,
            admin,
            process,
        };
        node.is_ready().await;
        node
    }

    async fn is_ready(&self) {
        until("the process listens and is connected", async || {
            std::net::TcpStream::connect(self.admin).is_ok()
                && self.metric("tandem_fleet_dialogs_connected").await == Some(1)
        })
        .await;
    }

    async fn metric(&self, name: &str) -> Option<u64> {
        let (_, page) = http_get(format!("http://{}/metrics", self.admin)).await;
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok())
    }

    async fn until(&self, name: &str, value: u64) {
        until(&format!("{name} is {value}"), async || {
            self.metric(name).await == Some(value)
        })
        .await;
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), signal).expect("it runs");
    }

    fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    async fn start_again(&mut self) {
        self.process = launch(&self.place);
        self.is_ready().await;
    }

    /// A call through this server, which the store has.
    async fn call(&self, call_id: &'static str) -> Call {
        let call = self.answered(call_id).await;
        blocking(move || {
            call.acknowledge();
            call
        })
        .await
    }

    /// A call without ACK, which the store has.
    async fn answered(&self, call_id: &'static str) -> Call {
        let before = self.metric(WRITTEN).await.unwrap_or_default();
        let address = self.address;
        let call = blocking(move || {
            let [alice, bob] = ["alice", "bob"].map(|name| Phone::at(address, name));
            Call::answered(alice, bob, call_id)
        })
        .await;
        until("the call is in the store", async || {
            self.metric(WRITTEN).await > Some(before)
                && self.metric("tandem_dialogs_unsaved").await == Some(0)
        })
        .await;
        call
    }

    /// Another server of the fleet, with the same secret, in this process.
    async fn another(&self, redis: u16, more: &str) -> (Place, Server) {
        let other = Place::new("");
        other.configure(&fleet("other", redis, &records(&other), more));
        for suffix in ["", "-wal"] {
            let path = |place: &Place| {
                let url = place.database_url() + suffix;
                PathBuf::from(url.trim_start_matches("sqlite:"))
            };
            // The log of a database need not exist.
            let _ = std::fs::copy(path(&self.place), path(&other));
        }
        other.start_alone().await
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(place: &Place) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["serve", "--config"])
        .arg(place.file())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts")
}

fn fleet(instance: &str, redis: u16, records: &str, more: &str) -> String {
    format!(
        "[auth]\nchallenge = []\n[fleet]\ninstance = \"{instance}\"\n[records]\nfile = \"{records}\"\n\
         [dialogs]\nstore = \"redis://127.0.0.1:{redis}\"\n{more}"
    )
}

fn records(place: &Place) -> String {
    let file = place.file().with_file_name("calls.jsonl");
    file.display().to_string()
}

/// Who ended the calls that a server has recorded.
fn recorded(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(records(place)).unwrap_or_default();
    let ended_by = |line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        record["ended_by"].as_str().unwrap_or_default().to_owned()
    };
    text.lines().map(ended_by).collect()
}

async fn until_recorded(place: &Place, calls: &[&str]) {
    until("the calls are recorded", async || recorded(place) == calls).await;
}

fn address(server: &Server) -> SocketAddr {
    server.running().listeners[0].address
}

async fn hang_up(call: Call) {
    blocking(move || call.hang_up()).await;
}

/// Waits until everything that a server could still write is written.
async fn stop(server: Server) {
    assert!(server.stop(false).await);
}

#[test]
fn a_call_of_a_killed_node_is_hung_up_through_another_which_writes_its_record() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        let mut node = Killable::start(port, "").await;
        let call = node.call("killed").await;
        let (place, other) = node.another(port, "").await;
        node.kill();
        hang_up(call.through(address(&other))).await;
        until_recorded(&place, &["caller"]).await;
        node.start_again().await;
        assert_eq!(node.metric(CONFIRMED).await, Some(0));
        let found = metric(
            &other,
            "tandem_fleet_dialogs_searches_total{result=\"found\"}",
        );
        assert_eq!(found.await, 1);
        stop(other).await;
        assert_eq!(recorded(&place), ["caller"]);
        assert!(recorded(&node.place).is_empty());
    });
}

#[test]
fn a_node_restores_its_calls_after_a_kill() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        let mut node = Killable::start(port, "").await;
        let call = node.call("restored").await;
        node.kill();
        node.start_again().await;
        node.until(CONFIRMED, 1).await;
        hang_up(call).await;
        until_recorded(&node.place, &["caller"]).await;
    });
}

#[test]
fn a_node_that_hung_learns_that_another_has_its_call_and_writes_no_record() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        let node = Killable::start(port, "").await;
        let call = node.call("hung").await;
        let (place, other) = node.another(port, "").await;
        node.signal(Signal::STOP);
        hang_up(call.through(address(&other))).await;
        until_recorded(&place, &["caller"]).await;
        node.signal(Signal::CONT);
        node.until(CONFIRMED, 0).await;
        node.until("tandem_fleet_dialogs_lost_total", 1).await;
        stop(other).await;
        assert!(recorded(&node.place).is_empty());
    });
}

#[test]
fn a_call_that_another_node_keeps_does_not_end_at_the_node_that_hung() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        // Without an ACK, the call ends after 64*T1.
        let more = "[timers]\nt1 = \"60ms\"\n";
        let node = Killable::start(port, more).await;
        let call = node.answered("kept").await;
        let (place, other) = node.another(port, more).await;
        node.signal(Signal::STOP);
        let call = call.through(address(&other));
        let acknowledged = move || {
            call.acknowledge();
            call
        };
        let call = blocking(acknowledged).await;
        until("it is adopted", async || {
            metric(&other, CONFIRMED).await == 1
        })
        .await;
        let its_time_is_over = move || {
            call.acknowledge();
            call.refresh(2);
            std::thread::sleep(Duration::from_secs(5));
            call
        };
        let call = blocking(its_time_is_over).await;
        node.signal(Signal::CONT);
        // Either its timer fires first, and the store refuses the end of the call, or it learns first that another node has the call.
        node.until(CONFIRMED, 0).await;
        node.until("tandem_dialogs_unsaved", 0).await;
        assert_eq!(metric(&other, CONFIRMED).await, 1, "the call goes on");
        hang_up(call).await;
        until_recorded(&place, &["caller"]).await;
        stop(other).await;
        assert!(recorded(&node.place).is_empty());
    });
}

#[test]
fn a_call_of_a_node_that_is_gone_takes_its_place_in_limits_and_is_recorded_once() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        let more = "orphan_after = \"2s\"\n[call_limits]\nmax_calls = 1\n";
        let mut node = Killable::start(port, more).await;
        let _call = node.call("orphan").await;
        let (place, other) = node.another(port, more).await;
        node.kill();
        until("it is adopted", async || {
            metric(&other, CONFIRMED).await == 1
        })
        .await;
        let to = address(&other);
        let refused = blocking(move || {
            let carol = Phone::at(to, "carol");
            let uri = "sip:bob@tandem.localhost";
            carol.send((1, "INVITE"), uri, uri, "second", "");
            carol.final_response("INVITE").0
        });
        assert_eq!(refused.await, 503);
        let id = serde_json::json!({ "id": "orphan" });
        let ended = rpc(&other, "dialogs.end", id).await;
        assert_eq!(ended.expect("it is here")["dialogs"][0]["to_callee"], "BYE");
        until_recorded(&place, &["operator"]).await;
        node.start_again().await;
        assert_eq!(node.metric(CONFIRMED).await, Some(0));
        stop(other).await;
        assert_eq!(recorded(&place), ["operator"]);
        assert!(recorded(&node.place).is_empty());
    });
}

#[test]
fn calls_go_on_while_the_store_is_away_and_a_store_that_returns_empty_gets_them_back() {
    run(async {
        let port = free_port();
        let redis = Redis::start(port).await;
        let mut node = Killable::start(port, "").await;
        let before = node.call("before").await;
        let (place, other) = node.another(port, "").await;
        drop(redis);
        node.until("tandem_fleet_dialogs_connected", 0).await;
        let to = node.address;
        let during = blocking(move || {
            let [alice, bob] = ["carol", "dave"].map(|name| Phone::at(to, name));
            Call::new(alice, bob, "during")
        })
        .await;
        until("the change waits", async || {
            node.metric("tandem_dialogs_unsaved").await >= Some(1)
        })
        .await;
        let _redis = Redis::start(port).await;
        node.until("tandem_fleet_dialogs_connected", 1).await;
        node.until("tandem_dialogs_unsaved", 0).await;
        node.kill();
        hang_up(before.through(address(&other))).await;
        hang_up(during.through(address(&other))).await;
        until_recorded(&place, &["caller", "caller"]).await;
        stop(other).await;
    });
}
