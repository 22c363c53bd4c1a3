//! A database server that is away: at the start of Tandem, and later.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
mod process;
#[path = "../../tandem-store/tests/servers/postgres.rs"]
mod server;

use common::{PATIENCE, Phone, Place, call, get, http_get, metric, none, run, until};
use process::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::Server as Postgres;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tandem::serve::Server;

/// A configuration whose responses do not wait for the database, with the admin interface on this port.
fn configuration(url: &str, admin: u16) -> String {
    format!(
        "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[workers]\ncount = 2\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[database]\nurl = \"{url}\"\n[location]\nmax_lag = \"60s\"\n"
    )
}

/// Starts a server with the configuration in this place.
async fn start(place: &Place) -> Server {
    let configuration = tandem::config::load(Some(&place.file())).expect("right");
    let started = Server::start(Some(place.file()), configuration, None).await;
    started.expect("the server starts")
}

/// Adds subscribers as another process does.
async fn subscribe(url: &str, names: &[&'static str]) {
    let store = tandem_store::Store::open(url).await.expect("opens");
    for name in names {
        let added = store
            .subscribers()
            .add(&common::subscriber(name, "secret"))
            .await;
        added.expect("added");
    }
    store.close().await;
}

#[test]
fn while_the_database_is_stopped_calls_go_on_and_nothing_is_lost() {
    run(async {
        const PHONES: [&str; 3] = ["alice", "bob", "carol"];
        let mut database = Postgres::new();
        let url = database.url("postgres", "postgres");
        subscribe(&url, &PHONES).await;
        let place = Place::new("");
        let short = "[auth]\ncache_lifetime = \"1s\"\n";
        place.configure_exactly(&(configuration(&url, 0) + short));
        let server = start(&place).await;
        let phones = PHONES.map(|name| Phone::new(&server, name));
        assert_eq!(phones[0].register_with("secret", "before"), 200);
        until("it is saved", async || {
            metric(&server, "tandem_location_unsaved").await == 0
        })
        .await;

        database.stop();
        // This takes longer than the credentials are good for by themselves.
        until("the poll fails", async || {
            metric(&server, "tandem_subscriber_poll_failures_total").await > 0
        })
        .await;
        for (phone, name) in phones.iter().zip(PHONES) {
            assert_eq!(phone.register_with("secret", name), 200, "from the cache");
        }
        until("the lag is to be seen", async || {
            metric(&server, "tandem_location_save_failures_total").await > 0
                // The refresh of alice moves her expiry too little to be written.
                && metric(&server, "tandem_location_unsaved").await == 2
        })
        .await;
        assert_eq!(get(&server, "/health/ready").await.0, 200);

        database.start();
        until("it is saved", async || {
            metric(&server, "tandem_location_unsaved").await == 0
        })
        .await;
        subscribe(&url, &["dave"]).await;
        assert_eq!(
            Phone::new(&server, "dave").register_with("secret", "after"),
            200
        );
        assert!(server.stop(false).await, "everything is saved");
        assert_eq!(start(&place).await.running().restored, 4);
    });
}

#[test]
fn a_server_waits_for_its_database_and_is_not_ready_until_it_comes() {
    run(async {
        let mut database = Postgres::new();
        let url = database.url("tandem:secret", "postgres");
        database.execute("postgres", "CREATE ROLE tandem SUPERUSER LOGIN");
        database.stop();
        let admin = free_port();
        let place = Place::new("");
        place.configure_exactly(&configuration(&url, admin));
        let file = place.file();
        let starting = tokio::spawn(async move {
            let configuration = tandem::config::load(Some(&file)).expect("right");
            Server::start(Some(file), configuration, None).await
        });
        let ready = format!("http://127.0.0.1:{admin}/health/ready");
        until("the reason is to be seen", async || {
            if tokio::net::TcpStream::connect(("127.0.0.1", admin))
                .await
                .is_err()
            {
                return false;
            }
            let (status, body) = http_get(ready.clone()).await;
            assert_eq!(status, 503, "{body}");
            assert!(!body.contains("secret"), "{body}");
            body.contains("cannot reach the database postgres://tandem@127.0.0.1")
        })
        .await;
        database.start();
        let server = starting.await.expect("no panic").expect("starts");
        assert_eq!(http_get(ready).await.0, 200);
        let shown = call(&server, "config.show", none()).await.expect("shown");
        let status = call(&server, "node.status", none()).await.expect("shown");
        let expected = database.url("tandem", "postgres");
        for shown in [&shown["database"]["url"], &status["database"]] {
            assert_eq!(shown, &Value::from(expected.as_str()));
        }
        assert!(server.stop(false).await);
    });
}

#[test]
fn a_signal_ends_a_server_that_waits_for_its_database() {
    let url = format!("postgres://tandem:secret@127.0.0.1:{}/t", free_port());
    let place = Place::new("");
    place.configure_exactly(&configuration(&url, 0));
    let mut serving = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["serve", "--config", &place.file().display().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let log = BufReader::new(serving.stderr.take().expect("a pipe"));
    let complaints = log
        .lines()
        .map_while(Result::ok)
        .inspect(|line| assert!(!line.contains("secret"), "{line}"))
        .filter(|line| line.contains("waits for its database"));
    assert_eq!(complaints.take(2).count(), 2, "the error is repeated");
    kill_process(Pid::from_child(&serving), Signal::TERM).expect("the signal is sent");
    let deadline = Instant::now() + PATIENCE;
    while serving.try_wait().expect("it can be asked").is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
