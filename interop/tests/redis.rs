//! Events of real calls, published to a real Redis.

use interop::{Child, Redis, Server, ServerOptions, lab_command, lab_users, wait_until};
use serde_json::Value;
use sip_transport::Protocol;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Phones of the load generator.
const PHONES: u32 = 10;
/// The events of a call, in order.
const EVENTS: [&str; 4] = ["started", "ringing", "answered", "ended"];

/// A server that records all calls in `calls.jsonl` of a folder, and publishes to the server whose URL is in the file `url` there.
fn server(folder: &Path, url: &str) -> Server {
    let secret = folder.join("url");
    fs::write(&secret, url).expect("written");
    let environment = [
        ("TANDEM_EVENTS_PUBLISH_FILE", secret),
        ("SSL_CERT_FILE", folder.join("chain.pem")),
    ];
    let server = Server::start(&ServerOptions {
        sections: format!(
            "[records]\nfile = \"{}\"\nfailed = \"all\"\n",
            folder.join("calls.jsonl").display()
        ),
        users: lab_users(PHONES),
        environment: environment
            .map(|(name, file)| (name.to_owned(), file.display().to_string()))
            .to_vec(),
        ..ServerOptions::default()
    });
    wait_until("it is connected to Redis", || is_connected(&server));
    server
}

fn is_connected(server: &Server) -> bool {
    server.count("tandem_redis_connected", "") == 1
}

/// Starts to call.
fn calls(server: &Server, duration: &str) -> Child {
    let (phones, pace) = (PHONES.to_string(), ["--rate", "40", "--duration"]);
    let mut command = lab_command(server, Protocol::Udp, &["call", "--phones", &phones]);
    command.args(pace).args([duration, "--quiet"]);
    Child::start(&mut command, &server.path("lab.log"))
}

/// Waits until the calls are over; returns their number. All of them succeed, and no message is repeated.
fn finish(server: &Server, mut calls: Child) -> u64 {
    calls.wait();
    let report = fs::read_to_string(server.path("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let of_calls = &report["units"]["calls"];
    assert_eq!(of_calls["attempted"], of_calls["succeeded"], "{of_calls}");
    assert_eq!(server.count("tandem_retransmissions_total", ""), 0);
    of_calls["attempted"].as_u64().expect("a number")
}

fn published(server: &Server) -> u64 {
    server.count("tandem_redis_events_published_total", "")
}

fn lost(server: &Server) -> u64 {
    server.count("tandem_redis_events_lost_total", "")
}

/// The kinds of the events of each call, in the order in which they came.
fn by_call(messages: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut calls = BTreeMap::<String, Vec<String>>::new();
    for message in messages {
        let event: Value = serde_json::from_str(message).expect(message);
        let [id, kind] = ["id", "event"].map(|field| event[field].as_str().expect("a text"));
        calls
            .entry(id.to_owned())
            .or_default()
            .push(kind.to_owned());
    }
    calls
}

/// The calls of the file of records.
fn recorded(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("calls.jsonl")).expect("a file");
    let id = |line: &str| {
        let record: Value = serde_json::from_str(line).expect(line);
        record["id"].as_str().expect("a text").to_owned()
    };
    let mut ids: Vec<String> = text.lines().map(id).collect();
    ids.sort_unstable();
    ids
}

/// Makes calls. A subscriber gets exactly the four events of each call, and the records have the same calls.
fn every_call_is_published(folder: &Path, redis: &Redis, url: &str) {
    let mut server = server(folder, url);
    let subscriber = redis.subscribe("tandem.calls", "events");
    let calls = calls(&server, "3s");
    let calls = finish(&server, calls);
    wait_until("all events are published", || {
        published(&server) == 4 * calls
    });
    wait_until("the subscriber has them", || {
        subscriber.messages().len() as u64 >= 4 * calls
    });
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    assert!(!server.log().contains("ssword"), "{}", server.log());
    let events = by_call(&subscriber.messages());
    assert!(events.values().all(|kinds| *kinds == EVENTS), "{events:?}");
    assert!(events.into_keys().eq(recorded(folder)));
}

#[test]
fn a_subscriber_gets_the_events_of_every_call_and_the_ids_of_the_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let redis = Redis::start();
    every_call_is_published(folder.path(), &redis, &redis.url());
}

#[test]
fn events_are_published_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    Server::make_certificate(folder.path(), &["127.0.0.1"]);
    let redis = Redis::start_with_tls(folder.path());
    every_call_is_published(folder.path(), &redis, &redis.url_with_tls());
}

#[test]
fn a_restart_of_redis_fails_no_call_and_events_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut redis = Redis::start();
    let mut server = server(folder.path(), &redis.url());
    let calls = calls(&server, "6s");
    wait_until("events are published", || published(&server) > 100);
    redis.kill();
    wait_until("events wait", || {
        !is_connected(&server) && server.count("tandem_redis_events_waiting", "") > 50
    });
    assert!(server.is_ready());
    redis.restart();
    let subscriber = redis.subscribe("tandem.calls", "events");
    let calls = finish(&server, calls);
    wait_until("every event is published or counted as lost", || {
        published(&server) + lost(&server) == 4 * calls
    });
    assert!(lost(&server) <= 256, "one batch at most");
    let events = by_call(&subscriber.messages());
    let complete = events.values().filter(|kinds| **kinds == EVENTS);
    assert!(complete.count() > 50, "{events:?}");
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    assert_eq!(recorded(folder.path()).len() as u64, calls);
    let log = server.log();
    for line in [
        "cannot publish call events",
        "publishing call events works again",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
}
