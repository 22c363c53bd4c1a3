//! Stops a server for two seconds. Its own histograms show the stall, as do the load generator and the analyzer.

use interop::{Capture, Server, ServerOptions, lab_run, lab_users, run};
use serde_json::Value;
use sip_transport::Protocol;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const BEFORE: Duration = Duration::from_secs(3);
const STALL: Duration = Duration::from_secs(2);
/// More than a hundredth of the messages waited longer, because a third of all calls fall into the stall.
const LEAST: f64 = 1.5;

#[test]
fn a_stall_is_in_the_histograms_of_the_server_the_generator_and_the_analyzer() {
    for event_loop in ["epoll", "poll", "io_uring"] {
        check(event_loop);
    }
}

fn check(event_loop: &str) {
    let mut server = Server::start(&ServerOptions {
        users: lab_users(20),
        event_loop: event_loop.to_owned(),
        ..ServerOptions::default()
    });
    let capture = Capture::start(&server);
    let report = std::thread::scope(|scope| {
        let pid = server.process().id();
        let stall = scope.spawn(move || {
            std::thread::sleep(BEFORE);
            signal("STOP", pid);
            std::thread::sleep(STALL);
            signal("CONT", pid);
        });
        let arguments = [
            "call", "--phones", "20", "--nonces", "fresh", "--ports", "5",
        ];
        let pace = ["--rate", "50", "--duration", "6s"];
        let arguments = [&arguments[..], &pace].concat();
        let (_, report, output) = lab_run(&server, Protocol::Udp, &arguments);
        println!("{output}");
        stall.join().expect("stalled");
        report
    });
    let by_generator = seconds(&report["delays"]["invite_to_challenge"]["p99"]);
    let by_analyzer = analyzed(&server, capture.finish().file());
    let by_server = quantile(
        &server,
        "tandem_stage_duration_seconds",
        "invite_to_challenge",
    );
    println!(
        "{event_loop}: generator {by_generator} s, analyzer {by_analyzer} s, server {by_server} s"
    );
    for p99 in [by_generator, by_analyzer, by_server] {
        assert!((LEAST..=2.5).contains(&p99), "{p99}");
    }
    // Most messages came before or after the stall.
    let queueing = quantile(&server, "tandem_queueing_delay_seconds", "");
    assert!((0.75..=2.5).contains(&queueing), "{queueing}");
}

fn seconds(microseconds: &Value) -> f64 {
    microseconds.as_f64().unwrap_or_default() / 1e6
}

/// The 99th percentile of the first INVITEs in a capture, from `tandem analyze`.
fn analyzed(server: &Server, capture: &Path) -> f64 {
    let mut command = Command::new(Server::binary());
    let address = server.address().to_string();
    command.args(["analyze", "--json", "--server", &address]);
    let (code, output) = run(command.arg("--pcap").arg(capture));
    assert_eq!(code, 0, "{output}");
    let report: Value = serde_json::from_str(&output).expect("a report");
    let rows = report["response_times_us"].as_array().expect("rows");
    let of_challenge = |row: &&Value| row["step"] == "challenged" && row["method"] == "INVITE";
    let row = rows.iter().find(of_challenge).expect("challenges");
    seconds(&row["p99"])
}

fn signal(name: &str, process: u32) {
    let mut command = Command::new("kill");
    let (code, output) = run(command.args([format!("-{name}"), process.to_string()]));
    assert_eq!(code, 0, "{output}");
}

/// The 99th percentile of a histogram over all workers, as the middle of its bucket.
fn quantile(server: &Server, name: &str, label: &str) -> f64 {
    let text = server.http("/metrics").1;
    let bucket = format!("{name}_bucket{{");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    let lines = text.lines();
    for line in lines.filter(|line| line.starts_with(&bucket) && line.contains(label)) {
        let bound = line
            .split("le=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let bound = bound.expect("a bound").parse().unwrap_or(f64::INFINITY);
        let count: f64 = line
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .parse()
            .expect("a count");
        match buckets
            .iter_mut()
            .find(|(other, _)| other.total_cmp(&bound).is_eq())
        {
            Some((_, sum)) => *sum += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = buckets.last().expect("buckets").1;
    assert!(all > 0.0, "{name} {label} is empty");
    let place = buckets.iter().position(|(_, count)| *count >= all * 0.99);
    let place = place.expect("a bucket");
    let from = if place == 0 {
        0.0
    } else {
        buckets[place - 1].0
    };
    f64::midpoint(from, buckets[place].0)
}
