//! A database server that is away, at the start of Tandem and later, or that answers late or wrongly.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
mod process;
#[path = "../../tandem-store/tests/servers/relay.rs"]
mod relay;
#[path = "../../tandem-store/tests/servers/postgres.rs"]
mod server;

use common::{
    PATIENCE, Phone, Place, call, get, header, http_get, metric, none, response, run, until,
};
use process::free_port;
use relay::{Manner, Relay};
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

/// A call from alice to bob, which she ends.
fn make_call(alice: &Phone, bob: &Phone, call_id: &str) {
    let uri = "sip:bob@tandem.localhost";
    alice.send((1, "INVITE"), uri, uri, call_id, "");
    bob.send_raw(&response(&bob.receive(), "200 OK"));
    let (status, answer) = alice.final_response("INVITE");
    assert_eq!(status, 200, "{answer}");
    let route = header(&answer, "Record-Route").expect("recorded");
    for (cseq, method) in [(1, "ACK"), (2, "BYE")] {
        alice.send_raw(&format!(
            "{method} sip:bob@{} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK-{call_id}-{method};rport\r\n\
             Max-Forwards: 70\r\nRoute: {route}\r\nFrom: <sip:alice@tandem.localhost>;tag=alice\r\n\
             To: <{uri}>;tag=bob\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
            bob.address(),
            alice.address()
        ));
        let received = bob.receive();
        assert!(received.starts_with(method), "{received}");
        if method == "BYE" {
            bob.send_raw(&response(&received, "200 OK"));
        }
    }
    assert_eq!(alice.final_response("BYE").0, 200);
}

#[test]
fn a_database_that_answers_late_or_wrongly_or_breaks_off_holds_up_no_call() {
    run(async {
        const MANNERS: [Manner; 5] = [
            Manner::Late(Duration::from_secs(2)),
            Manner::Cut(0),
            Manner::Cut(40),
            Manner::Wrong(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"),
            Manner::Wrong(&[0; 64]),
        ];
        const WAITING: &str = "tandem_call_records_waiting{to=\"database\"}";
        let database = Postgres::new();
        let url = database.url("postgres", "postgres");
        subscribe(&url, &["alice", "bob"]).await;
        let relay = Relay::before(&url);
        let place = Place::new("");
        let more = "[auth]\nchallenge = [\"REGISTER\"]\n[records]\ndatabase = true\n";
        place.configure_exactly(&(configuration(&relay.url(&url), 0) + more));
        let server = start(&place).await;
        let bob = Phone::new(&server, "bob");
        assert_eq!(bob.register_with("secret", "bob"), 200);
        let waiting = async || {
            let unsaved = metric(&server, "tandem_location_unsaved").await;
            [unsaved, metric(&server, WAITING).await]
        };
        until("it is saved", async || waiting().await == [0, 0]).await;
        for (round, manner) in MANNERS.into_iter().enumerate() {
            relay.set(manner);
            let (alice, begun) = (Phone::new(&server, "alice"), Instant::now());
            let registered = alice.register_with("secret", &format!("alice{round}"));
            assert_eq!(registered, 200, "{manner:?}");
            for number in 0..3 {
                make_call(&alice, &bob, &format!("call{round}{number}"));
            }
            assert!(begun.elapsed() < Duration::from_secs(2), "{manner:?}");
            until("the lag is to be seen", async || waiting().await == [1, 3]).await;
            assert_eq!(get(&server, "/health/ready").await.0, 200, "{manner:?}");
            relay.set(Manner::Honest);
            until("it is saved", async || waiting().await == [0, 0]).await;
        }
        assert!(server.stop(false).await, "everything is saved");
        let store = tandem_store::Store::open(&url).await.expect("opens");
        let (calls, phones) = (3 * MANNERS.len() as u64, 1 + MANNERS.len() as u64);
        assert_eq!(store.records().count().await.expect("counts"), calls);
        assert_eq!(store.locations().count().await.expect("counts"), phones);
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
        .filter(|line| line.contains("waiting for the database; retrying in"));
    assert_eq!(complaints.take(2).count(), 2, "the error is repeated");
    kill_process(Pid::from_child(&serving), Signal::TERM).expect("the signal is sent");
    let deadline = Instant::now() + PATIENCE;
    while serving.try_wait().expect("it can be asked").is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
