//! `GET /events` over real connections.
use super::{PATIENCE, control, until};
use crate::admin;
use crate::calls::sample::event;
use crate::control::Control;
use sip_dialog::{Change, Ended};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TOKEN: &str = "c2f1a07e65d94b8ea3f0";

/// The admin interface of a server that has not started otherwise.
struct Interface {
    _directory: TempDir,
    control: Arc<Control>,
    listening: admin::Listening,
}

impl Interface {
    async fn start(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let lines = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{lines}");
        std::fs::write(directory.path().join("token"), TOKEN).expect("written");
        let control = control(directory.path(), &lines);
        let listening = admin::listen(&control).await.expect("listens");
        Self {
            _directory: directory,
            control,
            listening,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    fn publish(&self, change: Change, numbers: std::ops::Range<u128>) {
        let events = numbers.map(|number| event(change, number));
        self.control.events.publish(events.collect());
    }
}

async fn connect(address: SocketAddr, target: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

/// The whole response of a request that ends.
async fn response(address: SocketAddr, target: &str, headers: &str) -> String {
    let headers = format!("{headers}Connection: close\r\n");
    let mut stream = connect(address, target, &headers).await;
    let mut text = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut text));
    read.await.expect("in time").expect("an answer");
    text
}

/// A reader of events.
struct Reading(BufReader<TcpStream>);

impl Reading {
    async fn start(address: SocketAddr, target: &str, headers: &str) -> Self {
        let mut reading = Self(BufReader::new(connect(address, target, headers).await));
        let status = reading.line_with("HTTP/1.1").await;
        assert!(status.contains("200"), "{status}");
        reading.line_with("id: ").await;
        reading
    }

    /// The next line that contains this.
    async fn line_with(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.0.read_line(&mut line)).await;
            let length = read.expect("in time").expect("a line");
            assert!(length > 0, "the stream ended before {part}");
            if line.contains(part) {
                return line.trim_end().to_owned();
            }
        }
    }
}

#[tokio::test]
async fn a_reader_gets_the_events_that_it_wants_with_increasing_ids() {
    let interface = Interface::start("").await;
    let target = "/events?types=started,ended&user=alice&domain=example.org";
    let mut reading = Reading::start(interface.address(), target, "").await;
    interface.publish(Change::Started, 1..2);
    interface.publish(Change::Ringing, 1..2);
    interface.publish(Change::Ended(Ended::ByCaller), 1..2);
    let first = reading.line_with("id: ").await;
    assert!(first.ends_with("-1"), "{first}");
    assert_eq!(reading.line_with("event: ").await, "event: started");
    let second = reading.line_with("id: ").await;
    assert!(second.ends_with("-3"), "{second}");
    let data = reading.line_with("data: ").await;
    let data: serde_json::Value = serde_json::from_str(&data[6..]).expect("JSON");
    assert_eq!(data["ended_by"], "caller");
    drop(reading);
    until("the reader is gone", || {
        interface.control.events.readers() == 0
    })
    .await;
    // It resumes where it was.
    let last = format!("Last-Event-ID: {}\r\n", &first[4..]);
    let mut again = Reading::start(interface.address(), target, &last).await;
    assert_eq!(again.line_with("event: ").await, "event: ended");
}

#[tokio::test]
async fn wrong_requests_are_refused_with_what_is_allowed() {
    let interface = Interface::start("").await;
    let address = interface.address();
    for (target, headers, status, part) in [
        (
            "/events?type=ended",
            "",
            400,
            "allowed are types, user, domain, call_id",
        ),
        (
            "/events?types=answer",
            "",
            400,
            "started, ringing, answered, ended",
        ),
        (
            "/events",
            "Last-Event-ID: yesterday\r\n",
            400,
            "Last-Event-ID",
        ),
        (
            "/events",
            "Last-Event-ID: 1-99999999999999999999\r\n",
            400,
            "Last-Event-ID",
        ),
        (
            "/events",
            "Origin: http://evil.example\r\n",
            403,
            "other origins",
        ),
    ] {
        let text = response(address, target, headers).await;
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status}")),
            "{target}: {text}"
        );
        assert!(text.contains(part), "{target}: {text}");
    }
    let huge = format!("Last-Event-ID: {}\r\n", "9".repeat(30_000));
    let text = response(address, "/events", &huge).await;
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    assert_eq!(interface.control.events.readers(), 0);
}

#[tokio::test]
async fn events_need_the_token() {
    let interface = Interface::start("token_file = \"DIR/token\"\n").await;
    let text = response(interface.address(), "/events", "").await;
    assert!(text.starts_with("HTTP/1.1 401"), "{text}");
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    Reading::start(interface.address(), "/events", &shown).await;
}

#[tokio::test]
async fn a_reader_that_never_reads_is_disconnected_and_others_are_not() {
    let interface = Interface::start("").await;
    let hub = &interface.control.events;
    let mut reading = Reading::start(interface.address(), "/events", "").await;
    let silent = connect(interface.address(), "/events", "").await;
    until("both are connected", || hub.readers() == 2).await;
    // More than the buffers of the connection and the ring hold.
    for batch in 0..64 {
        interface.publish(Change::Answered, batch * 500..(batch + 1) * 500);
        let last = format!("-{}", (batch + 1) * 500);
        reading.line_with(&last).await;
    }
    for _ in 0..9 {
        hub.look();
    }
    assert_eq!(hub.readers(), 2);
    for _ in 0..2 {
        hub.look();
    }
    until("it is disconnected", || hub.readers() == 1).await;
    assert_eq!(hub.counters.slow.get(), 1);
    // What the buffers hold is still there; then the connection ends.
    let mut silent = BufReader::new(silent);
    let drained = async {
        let mut line = Vec::new();
        while matches!(silent.read_until(b'\n', &mut line).await, Ok(1..)) {
            line.clear();
        }
    };
    timeout(PATIENCE, drained).await.expect("it ends");
    interface.publish(Change::Ringing, 0..1);
    reading.line_with("event: ringing").await;
}

#[tokio::test]
async fn a_thousand_readers_leave_the_interface_usable() {
    let interface = Interface::start("[events]\nmax_readers = 20\n").await;
    let hub = &interface.control.events;
    let mut connections = Vec::new();
    for _ in 0..1_000 {
        connections.push(connect(interface.address(), "/events", "Connection: close\r\n").await);
    }
    until("the first are served", || hub.readers() == 20).await;
    let admin = &interface.control.counters.admin;
    let all = || 20 + hub.counters.refused.get() + admin.turned_away();
    until("the others are refused", || all() == 1_000).await;
    until("refused connections end", || admin.open() == 20).await;
    let text = response(interface.address(), "/metrics", "").await;
    assert!(text.contains("tandem_event_readers 20"), "{text}");
    let text = response(interface.address(), "/events", "").await;
    assert!(
        text.contains("503") && text.contains("max_readers"),
        "{text}"
    );
}

#[tokio::test]
async fn readers_are_told_that_the_server_stops() {
    let interface = Interface::start("").await;
    let mut reading = Reading::start(interface.address(), "/events", "").await;
    let hub = Arc::clone(&interface.control.events);
    let stopping = tokio::spawn(async move { hub.stop().await });
    assert_eq!(reading.line_with("event: ").await, "event: end");
    let data = reading.line_with("data: ").await;
    assert!(data.contains("stopping"), "{data}");
    timeout(PATIENCE, stopping)
        .await
        .expect("in time")
        .expect("no panic");
}
