//! Traces and the HEP collector, against a server in this process.
mod common;

use common::{PATIENCE, Phone, Place, blocking, call, metric, none, run, until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tandem::serve::Server;

const OPEN: &str = "[auth]\nchallenge = []\n";

type Lines = Box<dyn Iterator<Item = String> + Send>;

/// Starts `tandem ctl trace <words>`, and waits for its first line.
async fn trace(server: &Server, words: &'static str) -> (Child, String, Lines) {
    let address = server.admin_address().to_string();
    blocking(move || {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["ctl", "trace", "--admin", &address])
            .args(words.split(' '))
            .env_remove("TANDEM_CONFIG")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let reader = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut lines = reader.lines().map_while(Result::ok);
        let first = lines.next().expect("a line");
        (process, first, Box::new(lines) as Lines)
    })
    .await
}

/// Requests a trace; returns the connection, of which nothing is read yet.
fn request(server: SocketAddr, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).expect("sent");
    stream
}

/// Reads until the text appears.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut buffer) = (String::new(), vec![0; 65_536]);
    while !text.contains(end) {
        let length = stream.read(&mut buffer).expect("more");
        assert_ne!(length, 0, "it ends without {end}: {text}");
        text += &String::from_utf8_lossy(&buffer[..length]);
    }
    text
}

async fn none_runs(server: &Server) {
    until("the trace ends", async || {
        metric(server, "tandem_traces").await == 0
    })
    .await;
}

#[test]
fn a_trace_shows_the_messages_of_its_user_until_its_reader_leaves() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let (mut process, first, mut lines) = trace(&server, "alice@tandem.localhost --json").await;
        let started: Value = serde_json::from_str(&first).expect("JSON");
        let expected = json!({ "user": "alice@tandem.localhost", "call_id": null, "seconds": 60 });
        assert_eq!(started["started"], expected);
        assert_eq!(Phone::new(&server, "bob").register("b", 1).0, 200);
        let alice = Phone::new(&server, "alice");
        alice.register("a\u{1b}[2J", 1);
        let (messages, lines) = blocking(move || {
            let messages: Vec<String> = lines.by_ref().take(2).collect();
            (messages, lines)
        })
        .await;
        for (line, (direction, begin)) in messages
            .iter()
            .zip([("received", "REGISTER "), ("sent", "SIP/2.0 ")])
        {
            assert!(!line.contains('\u{1b}'), "{line:?}");
            let message: Value = serde_json::from_str(line).expect("JSON");
            let message = &message["message"];
            assert_eq!(message["direction"], direction);
            assert_eq!(message["remote"], alice.address().to_string());
            assert_eq!(message["call_id"], "a\u{1b}[2J");
            assert!(
                message["text"].as_str().expect("a text").starts_with(begin),
                "{line}"
            );
        }
        process.kill().expect("it runs");
        drop(lines);
        process.wait().expect("it ends");
        none_runs(&server).await;
        // There is no reader, so nothing is copied.
        let copied = metric(&server, "tandem_traced_messages_total").await;
        assert_eq!(copied, 2);
        assert_eq!(alice.register("a", 2).0, 200);
        assert_eq!(
            metric(&server, "tandem_traced_messages_total").await,
            copied
        );
    });
}

#[test]
fn a_trace_of_a_call_ends_with_its_time_and_draws_a_ladder() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let (mut process, first, lines) = trace(&server, "--call-id one --for 2s").await;
        assert_eq!(first, "tracing Call-ID one for 2 s; Ctrl-C ends it earlier");
        let alice = Phone::new(&server, "alice");
        assert_eq!(alice.register("two", 1).0, 200);
        assert_eq!(alice.register("one", 1).0, 200);
        let drawn: Vec<String> = blocking(move || lines.collect()).await;
        let text = drawn.join("\n");
        assert!(text.contains("\nCall-ID one\n"), "{text}");
        assert!(
            text.contains(&alice.address().to_string()) && text.contains("Tandem"),
            "{text}"
        );
        assert!(
            text.contains(" REGISTER ") && text.contains(" 200 OK "),
            "{text}"
        );
        assert!(!text.contains("two"), "{text}");
        assert!(
            text.ends_with("\nended: the time is over; messages: 2, dropped: 0"),
            "{text}"
        );
        assert!(process.wait().expect("it ends").success());
        none_runs(&server).await;
    });
}

#[test]
fn what_cannot_be_traced_is_refused_with_a_reason() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let address = server.admin_address();
        let refused = move |body: Value, status: &str, problem: &str| {
            let answer = read_until(&mut request(address, &body), "}\n");
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
            assert!(answer.contains(problem), "{answer}");
        };
        blocking(move || {
            refused(json!({}), "400", "name either `user` or `call_id`");
            refused(json!({ "user": "@" }), "400", "must be user@domain");
            let body = json!({ "user": "alice" });
            let mut readers = Vec::new();
            for _ in 0..8 {
                let mut reader = request(address, &body);
                read_until(&mut reader, "started");
                readers.push(reader);
            }
            refused(body, "429", "8 traces run already");
        })
        .await;
        // The readers are gone.
        none_runs(&server).await;
        let again = blocking(move || {
            read_until(
                &mut request(address, &json!({ "user": "alice" })),
                "started",
            )
        });
        again.await;
    });
}

#[test]
fn a_reader_that_never_reads_is_dropped_and_delays_no_call() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let address = server.admin_address();
        let mut reader = blocking(move || {
            let mut reader = request(address, &json!({ "user": "alice" }));
            read_until(&mut reader, "started");
            reader
        })
        .await;
        let alice = Phone::new(&server, "alice");
        let padding = format!("X-Padding: {}\r\n", "x".repeat(40_000));
        let mut number = 0;
        until("the reader is dropped", async || {
            for _ in 0..20 {
                number += 1;
                let to = "sip:alice@tandem.localhost";
                alice.send(
                    (number, "REGISTER"),
                    "sip:tandem.localhost",
                    to,
                    "a",
                    &padding,
                );
                assert_eq!(alice.final_response("REGISTER").0, 200);
            }
            metric(&server, "tandem_trace_slow_readers_total").await == 1
        })
        .await;
        none_runs(&server).await;
        // What waited is still there, with the reason at its end.
        let rest = blocking(move || read_until(&mut reader, "\"ended\"")).await;
        assert!(
            rest.contains("the reader is too slow"),
            "{}",
            &rest[rest.len() - 200..]
        );
    });
}

#[test]
fn a_collector_gets_hep_from_the_start_and_a_reload_ends_it() {
    run(async {
        let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        collector
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        let hep = format!(
            "{OPEN}[trace]\nhep = \"udp:{}\"\nhep_key = \"open-sesame\"\n",
            collector.local_addr().expect("bound")
        );
        let (place, server) = Place::new(&hep).start_alone().await;
        let (alice, mut number) = (Phone::new(&server, "alice"), 0);
        until("the workers copy", async || {
            number += 1;
            assert_eq!(alice.register("a", number).0, 200);
            metric(&server, "tandem_hep_packets_total").await >= 2
        })
        .await;
        let mut packet = vec![0; 65_536];
        let length = collector.recv(&mut packet).expect("a packet");
        let packet = String::from_utf8_lossy(&packet[..length]);
        assert!(
            packet.starts_with("HEP3") && packet.contains("SIP/2.0\r\n"),
            "{packet}"
        );
        assert!(packet.contains("open-sesame"), "{packet}");
        place.configure(OPEN);
        let changed = call(&server, "config.reload", none())
            .await
            .expect("reloaded");
        assert_eq!(
            changed,
            json!({ "changed": ["trace.hep", "trace.hep_key"] })
        );
        until("the workers copy nothing more", async || {
            let before = metric(&server, "tandem_traced_messages_total").await;
            number += 1;
            assert_eq!(alice.register("a", number).0, 200);
            metric(&server, "tandem_traced_messages_total").await == before
        })
        .await;
    });
}

#[test]
fn a_collector_that_is_away_costs_packets_and_no_calls() {
    run(async {
        let gone = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let hep = format!(
            "{OPEN}[trace]\nhep = \"udp:{}\"\n",
            gone.local_addr().expect("bound")
        );
        drop(gone);
        let (_place, server) = Place::new(&hep).start_alone().await;
        let dropped = "tandem_hep_packets_dropped_total{reason=\"not_accepted\"}";
        let (alice, mut number) = (Phone::new(&server, "alice"), 0);
        until("packets are refused", async || {
            for _ in 0..20 {
                number += 1;
                assert_eq!(alice.register("a", number).0, 200);
            }
            metric(&server, dropped).await > 0
        })
        .await;
        tokio::time::timeout(Duration::from_secs(20), server.stop(false))
            .await
            .expect("it stops");
    });
}
