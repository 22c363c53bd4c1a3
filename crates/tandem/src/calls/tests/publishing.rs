//! Events reach Redis, and whatever Redis does costs nothing but events.
use super::redis::{Command, Redis, Reply, Script, proper};
use super::{Calls, PATIENCE, until};
use crate::calls::line::append_event;
use crate::calls::publishing::{PublishCounters, PublishLoss};
use crate::calls::sample::{call, ended};
use crate::calls::switch;
use crate::calls::written::Written;
use crate::config::Configuration;
use sip_dialog::{CallEvent, Change, Ended};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::subscriber::set_default;

const CHANGES: [Change; 4] = [
    Change::Started,
    Change::Ringing,
    Change::Answered,
    Change::Ended(Ended::ByCaller),
];

fn event(change: Change, number: u128) -> CallEvent {
    CallEvent {
        change,
        call: Box::new(call(number)),
    }
}

fn json(event: &CallEvent) -> String {
    let mut text = Vec::new();
    append_event(&mut text, event);
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn lost(counters: &PublishCounters) -> [u64; 3] {
    PublishLoss::ALL.map(|loss| counters.lost(loss).get())
}

#[tokio::test]
async fn every_change_of_every_call_is_published_once_as_readers_get_it() {
    let (redis, address) = Redis::start(|_, command: &Command| proper(command)).await;
    let lines = format!(
        "[events]\npublish = \"redis://tandem:p%40ss@{address}/3\"\npublish_channel = \"calls\"\n"
    );
    let calls = Calls::start(&lines).await;
    let of_call = |number| CHANGES.map(|change| event(change, number));
    calls.offer((0..500).flat_map(of_call));
    let (_, left) = calls.finish(PATIENCE).await;
    let expected: Vec<_> = (0..500).flat_map(of_call).map(|it| json(&it)).collect();
    assert_eq!(redis.events(), expected);
    let commands = redis.commands();
    assert_eq!(commands[0], ["AUTH", "tandem", "p@ss"]);
    assert_eq!(commands[1], ["SELECT", "3"]);
    assert_eq!(commands.last().expect("some")[..2], ["PUBLISH", "calls"]);
    let counters = &left.control.publishing;
    assert_eq!(
        (counters.published().get(), lost(counters)),
        (2_000, [0; 3])
    );
    assert_eq!((counters.level().items(), counters.level().bytes()), (0, 0));
    assert!(!counters.is_connected());
}

#[test]
fn workers_report_each_change_only_if_it_is_published_logged_or_read() {
    let mut configuration = Configuration::default();
    let control = crate::control::Control::new(None, configuration.clone(), None);
    let is_wanted = |configuration: &_| switch(&control.events, configuration);
    assert!(!is_wanted(&configuration).load(Ordering::Relaxed));
    configuration.events.publish = crate::config::RedisUrl::example();
    assert!(is_wanted(&configuration).load(Ordering::Relaxed));
}

/// What a server may answer to PUBLISH on its first connection.
const FAILURES: [Reply; 13] = [
    Reply::Text("-NOAUTH Authentication required.\r\n"),
    Reply::Text("-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
    Reply::Text("-READONLY You can't write against a read only replica.\r\n"),
    Reply::Text("-LOADING Redis is loading the dataset in memory\r\n"),
    Reply::Text("-ERR \u{1b}[2J\n2026-11-22T09:00:00Z  WARN auth failed\r\n"),
    Reply::Text("HTTP/1.1 400 Bad Request\r\n\r\n"),
    Reply::Text("+OK\r\n"),
    Reply::Text("*1\r\n*999999999999\r\n*9223372036854775807\r\n|-1\r\n"),
    Reply::Flood("$999999999\r\n"),
    Reply::Flood("$-2\r\n!-1\r\n"),
    Reply::Flood(":"),
    Reply::Flood(">999999999\r\n:"),
    Reply::Close,
];

/// The first connection answers PUBLISH like this, the others work.
fn failing_once(failure: Reply) -> impl Script {
    move |connection: u64, command: &Command| match (connection, &*command[0]) {
        (0, "PUBLISH") => failure,
        _ => proper(command),
    }
}

#[tokio::test]
async fn whatever_the_server_answers_costs_one_batch_and_bounded_memory() {
    for failure in FAILURES {
        let written = Written::default();
        let _log = set_default(written.subscriber());
        let (redis, address) = Redis::start(failing_once(failure)).await;
        let lines = format!("[events]\npublish = \"redis://:secret@{address}\"\n");
        let calls = Calls::start(&lines).await;
        let counters = &calls.control.publishing;
        until("there is a connection", || counters.is_connected()).await;
        calls.offer([ended(1)]);
        until("it is lost", || lost(counters) == [0, 1, 0]).await;
        calls.offer([ended(2)]);
        until("the next one is published", || {
            counters.published().get() == 1
        })
        .await;
        let (_, left) = calls.finish(PATIENCE).await;
        assert_eq!(redis.events().last(), Some(&json(&ended(2))), "{failure:?}");
        assert_eq!(left.control.publishing.level().items(), 0);
        // What the sockets of both ends hold is not in our memory.
        let flooded = redis.flooded();
        assert!(flooded < 16 << 20, "{failure:?}: {flooded}");
        let log = written.text();
        for line in ["cannot publish call events: ", "works again"] {
            assert_eq!(log.matches(line).count(), 1, "{failure:?}: {log}");
        }
        assert_eq!(log.lines().count(), 2, "{failure:?}: {log}");
        assert!(!log.contains("secret") && !log.contains('\u{1b}'), "{log}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_seconds() {
    let begun = Instant::now();
    let silent = |word: &'static str| {
        move |connection: u64, command: &Command| match (connection, &*command[0]) {
            (0, first) if first == word => Reply::Silence,
            _ => proper(command),
        }
    };
    let publish = async |word| {
        let (redis, address) = Redis::start(silent(word)).await;
        let lines = format!("[events]\npublish = \"redis://:secret@{address}\"\n");
        let calls = Calls::start(&lines).await;
        calls.offer([ended(1)]);
        until("it connects again", || redis.connections() == 2).await;
        calls.offer([ended(2)]);
        let (_, left) = calls.finish(PATIENCE).await;
        let counters = &left.control.publishing;
        (counters.published().get(), lost(counters))
    };
    let (at_password, at_event) = tokio::join!(publish("AUTH"), publish("PUBLISH"));
    assert_eq!(
        at_password,
        (2, [0; 3]),
        "nothing was sent, so nothing is lost"
    );
    assert_eq!(at_event, (1, [0, 1, 0]));
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(10),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_connection_that_ends_while_nothing_happens_costs_no_event() {
    let ending = |connection: u64, command: &Command| match (connection, &*command[0]) {
        // The last command before events.
        (0, "CLIENT") if command[2] == "LIB-VER" => Reply::Last("+OK\r\n"),
        _ => proper(command),
    };
    let (redis, address) = Redis::start(ending).await;
    let calls = Calls::start(&format!("[events]\npublish = \"redis://{address}\"\n")).await;
    until("it connects again", || redis.connections() == 2).await;
    calls.offer((0..10).map(ended));
    let (_, left) = calls.finish(PATIENCE).await;
    let counters = &left.control.publishing;
    assert_eq!((counters.published().get(), lost(counters)), (10, [0; 3]));
}

#[tokio::test]
async fn while_the_server_is_away_the_oldest_events_wait_and_the_newest_are_dropped() {
    let lines = "[events]\npublish = \"redis+unix://DIR/redis.sock\"\npublish_queue = 65536\n\
                 [records]\nfile = \"DIR/calls.jsonl\"\n";
    let calls = Calls::start(lines).await;
    calls.offer((0..1_000).map(ended));
    let counters = &calls.control.publishing;
    let waiting = || counters.level().items();
    let full = || lost(counters)[0];
    until("the queue is full", || full() + waiting() == 1_000).await;
    assert!(full() > 0 && counters.level().bytes() <= 65_536);
    let kept = waiting();
    let redis = Redis::start_at(&calls.path("redis.sock"), |_, command: &Command| {
        proper(command)
    });
    until("they are published", || waiting() == 0).await;
    let expected: Vec<_> = (0..u128::from(kept)).map(|it| json(&ended(it))).collect();
    assert_eq!(redis.events(), expected);
    assert_eq!(counters.published().get(), kept);
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all && left.recorded().len() == 1_000);
}

#[tokio::test]
async fn a_server_that_is_away_delays_the_end_by_a_second_at_most_and_no_record() {
    let lines = "[events]\npublish = \"redis+unix://DIR/redis.sock\"\n\
                 [records]\nfile = \"DIR/calls.jsonl\"\n";
    let calls = Calls::start(lines).await;
    calls.offer((0..100).map(ended));
    let begun = Instant::now();
    let (all, left) = calls.finish(PATIENCE).await;
    assert!(all && begun.elapsed() < Duration::from_secs(2));
    assert_eq!(left.recorded().len(), 100);
    assert_eq!(lost(&left.control.publishing), [0, 0, 100]);
}

#[tokio::test]
async fn no_password_goes_to_a_server_whose_certificate_is_not_trusted() {
    let written = Written::default();
    let _log = set_default(written.subscriber());
    let (redis, address) = Redis::start_with_tls(|_, command: &Command| proper(command)).await;
    let lines = format!("[events]\npublish = \"rediss://:secret@{address}\"\n");
    let calls = Calls::start(&lines).await;
    until("it is tried again", || redis.connections() > 2).await;
    assert!(redis.commands().is_empty());
    assert!(!calls.control.publishing.is_connected());
    let log = written.text();
    assert!(log.contains("invalid peer certificate"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}
