//! Compares `tandem analyze` with tshark: the same messages at the same times, and response times equal to the
//! differences of tshark's times.

use interop::{
    Capture, Child, Dissected, Scenario, Server, ServerOptions, Sipp, free_port, run, wait_until,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The number of calls of each test.
const CALLS: u32 = 25;

/// Starts a server with a long T1, so that nothing is sent twice because the machine is busy. It sends no two messages in
/// one piece, because tshark reads only the first.
fn server(address: IpAddr) -> Server {
    Server::start(&ServerOptions {
        host: interop::Host::here(address),
        ..ServerOptions::with("[timers]\nt1 = \"4s\"\n[udp]\nsegmentation = false\n")
    })
}

/// Bob's phone, registered with the transport that it accepts.
fn bob(server: &Server, answer: &Scenario, params: &str) -> Sipp {
    let phone = answer.clone().calls(CALLS).start(server);
    let contact = format!("<sip:bob@{}{params}>", phone.address);
    let register = Scenario::new("register")
        .from("bob")
        .key("contact", &contact);
    register.run(server);
    phone
}

/// Makes calls that are challenged, forwarded, answered and ended, and one call to an unknown user.
fn calls(server: &Server, over: impl Fn(Scenario) -> Scenario, bob: Sipp) {
    over(Scenario::new("call").calls(CALLS)).run(server);
    over(Scenario::new("call_refused").to("nobody")).run(server);
    bob.finish();
}

/// Runs `tandem analyze`. Returns its report, and the lines of its messages and samples.
fn analyze(server: &Server, source: &[&str]) -> (Value, Vec<Line>, Vec<Line>) {
    let folder = TempDir::new().expect("temporary folder");
    let [messages, samples] = ["messages.csv", "samples.csv"].map(|name| folder.path().join(name));
    let mut command = Command::new(Server::binary());
    command.args([
        "analyze",
        "--json",
        "--server",
        &server.address().to_string(),
    ]);
    command
        .arg("--messages")
        .arg(&messages)
        .arg("--samples")
        .arg(&samples);
    let (code, output) = run(command.args(source));
    assert_eq!(code, 0, "{output}");
    let report = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    (report, lines(&messages), lines(&samples))
}

/// A line of a CSV file, by column name.
type Line = BTreeMap<String, String>;

fn lines(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).expect("written");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().expect("names").collect();
    lines
        .map(|values| names.iter().cloned().zip(values).collect())
        .collect()
}

/// Formats a time as `tandem analyze` does.
fn decimal(nanoseconds: i64) -> String {
    format!(
        "{}.{:09}",
        nanoseconds / 1_000_000_000,
        nanoseconds % 1_000_000_000
    )
}

/// Whether a message goes to the server. `phones` are the ports at which phones listen.
fn comes_in(message: &Dissected, server: &Server, phones: &[u16]) -> bool {
    let port = server.address().port();
    if message.source != port && message.destination != port {
        // Over a connection that the server opened.
        assert_eq!(message.transport, "tcp");
        return phones.contains(&message.source);
    }
    message.destination == port
}

/// A response time: the frames of both messages, its name, and the difference of tshark's times.
type Sample = (u64, u64, &'static str, String);

/// Computes the response times only from tshark's messages and the definitions in docs/analyzer.md.
fn expected(messages: &[(bool, Dissected)]) -> Vec<Sample> {
    let same = |one: &Dissected, other: &Dissected| {
        (&one.call_id, one.cseq, &one.method) == (&other.call_id, other.cseq, &other.method)
    };
    let mut samples = Vec::new();
    for (place, (comes_in, left)) in messages
        .iter()
        .enumerate()
        .filter(|(_, (comes_in, _))| !comes_in)
    {
        assert!(!comes_in);
        let before = &messages[..place];
        let came = |is_it: &dyn Fn(&Dissected) -> bool| {
            let mut those = before
                .iter()
                .filter(|(comes_in, message)| *comes_in && same(message, left));
            those
                .find(|(_, message)| is_it(message))
                .map(|(_, message)| message)
        };
        let has_left = |is_it: &dyn Fn(&Dissected) -> bool| {
            let mut those = before
                .iter()
                .filter(|(comes_in, message)| !*comes_in && same(message, left));
            those.any(|(_, message)| is_it(message))
        };
        let is_request = |message: &Dissected| message.status == 0;
        let (found, step) = if is_request(left) {
            let Some(below) = left.branches.get(1) else {
                continue;
            };
            let found =
                came(&|message| is_request(message) && message.branches.first() == Some(below));
            if has_left(&|message| is_request(message) && message.branches.get(1) == Some(below)) {
                continue;
            }
            let step = match found {
                Some(request) if request.has_credentials => "authenticated_forwarded",
                _ => "forwarded",
            };
            (found, step)
        } else {
            let top = left.branches.first();
            let like_it = |message: &Dissected| {
                (message.status, &message.to_tag) == (left.status, &left.to_tag)
            };
            let relayed = came(&|message| like_it(message) && message.branches.get(1) == top);
            if has_left(&|message| like_it(message) && message.branches.first() == top) {
                continue;
            }
            let step = match (relayed, left.status) {
                (None, 100) => "trying",
                (None, 401 | 407) => "challenged",
                (None, _) => "answered",
                (Some(_), 101..200) => "provisional_relayed",
                (Some(_), 200..300) => "success_relayed",
                (Some(_), _) => "failure_relayed",
            };
            let own = || came(&|message| is_request(message) && message.branches.first() == top);
            (relayed.or_else(own), step)
        };
        let found = found.unwrap_or_else(|| panic!("nothing came for {left:?}"));
        samples.push((
            left.frame,
            found.frame,
            step,
            decimal(left.time - found.time),
        ));
    }
    samples
}

/// Checks that the results from a file agree with tshark, message by message and response time by response time.
fn assert_agrees(server: &Server, capture: Capture, phones: &[u16]) {
    let packets = capture.finish();
    let dissected = packets.dissect(phones);
    let messages: Vec<(bool, Dissected)> = dissected
        .into_iter()
        .map(|message| (comes_in(&message, server, phones), message))
        .collect();
    let file = packets.file().to_string_lossy().into_owned();
    let (report, found, samples) = analyze(server, &["--pcap", &file]);

    let told: Vec<[String; 9]> = messages
        .iter()
        .map(|(comes_in, message)| {
            [
                message.frame.to_string(),
                decimal(message.time),
                if *comes_in { "in" } else { "out" }.to_owned(),
                message.status.to_string(),
                message.method.clone(),
                message.call_id.clone(),
                message.cseq.to_string(),
                message.branches.first().cloned().unwrap_or_default(),
                message.transport.clone(),
            ]
        })
        .collect();
    let names = [
        "frame",
        "time",
        "direction",
        "status",
        "method",
        "call_id",
        "cseq",
        "branch",
        "transport",
    ];
    let found: Vec<[String; 9]> = found
        .iter()
        .map(|line| names.map(|name| line[name].clone()))
        .collect();
    assert_eq!(found, told);

    let expected = expected(&messages);
    let found: Vec<(String, String, String, String)> = samples
        .iter()
        .map(|line| {
            ["frame", "first_frame", "step", "seconds"]
                .map(|name| line[name].clone())
                .into()
        })
        .collect();
    let told: Vec<(String, String, String, String)> = expected
        .iter()
        .map(|(frame, first, step, time)| {
            (
                frame.to_string(),
                first.to_string(),
                (*step).to_owned(),
                time.clone(),
            )
        })
        .collect();
    assert_eq!(found, told);

    // The summary counts each sample under its name, and no others.
    for (step, method, count) in [
        ("challenged", "INVITE", CALLS + 1),
        ("authenticated_forwarded", "INVITE", CALLS),
        ("success_relayed", "INVITE", CALLS),
        ("answered", "INVITE", 1),
        ("success_relayed", "BYE", CALLS),
    ] {
        let rows = report["response_times_us"].as_array().expect("rows");
        let row = rows
            .iter()
            .find(|row| row["step"] == step && row["method"] == method);
        let row = row.unwrap_or_else(|| panic!("no {step} of {method} in {report}"));
        assert_eq!(row["count"], count, "{row}");
    }
    for counter in [
        "foreign_messages",
        "broken_messages",
        "unmatched",
        "unanswered",
        "unrelayed",
        "negative",
    ] {
        assert_eq!(report["counters"][counter], 0, "{counter} in {report}");
    }
    assert_eq!(report["counters"]["messages"], messages.len());
}

#[test]
fn over_udp_every_message_and_response_time_is_tsharks() {
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let server = server(address);
        let bob = bob(&server, &Scenario::new("answer"), "");
        let capture = Capture::start(&server);
        calls(&server, |scenario| scenario, bob);
        assert_agrees(&server, capture, &[]);
    }
}

#[test]
fn over_tcp_every_message_and_response_time_is_tsharks() {
    let server = server(Ipv4Addr::LOCALHOST.into());
    let answer = Scenario::new("answer").over_tcp();
    let bob = bob(&server, &answer, ";transport=tcp");
    let phones = [bob.address.port()];
    let capture = Capture::with_ports(&server, &phones);
    calls(&server, Scenario::over_tcp, bob);
    assert_agrees(&server, capture, &phones);
}

/// Sends a GET request to an HTTP server.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
}

#[test]
fn a_live_capture_sees_what_tshark_sees_and_tells_prometheus() {
    let server = server(Ipv4Addr::LOCALHOST.into());
    let bob = bob(&server, &Scenario::new("answer"), "");
    let folder = TempDir::new().expect("temporary folder");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let messages = folder.path().join("messages.csv");
    let mut command = Command::new(Server::binary());
    command.args([
        "analyze",
        "--interface",
        "lo",
        "--server",
        &server.address().to_string(),
    ]);
    command
        .args(["--metrics", &metrics.to_string(), "--messages"])
        .arg(&messages);
    let mut live = Child::start(&mut command, &folder.path().join("output"));
    wait_until("the analyzer captures", || {
        get(metrics, "/metrics").is_some_and(|page| page.contains("tandem_analyzer_events_total"))
    });
    let capture = Capture::start(&server);
    // The kernel filters out packets of ports that are not SIP ports.
    let (noise, nobody) = (
        std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket"),
        free_port(),
    );
    for _ in 0..100 {
        noise
            .send_to(b"OPTIONS sip:a SIP/2.0\r\n\r\n", ("127.0.0.1", nobody))
            .expect("sent");
    }
    calls(&server, |scenario| scenario, bob);
    let packets = capture.finish();
    let told = packets.dissect(&[]);
    let bucket = "tandem_analyzer_response_time_seconds_bucket{le=\"+Inf\",step=\"authenticated_forwarded\",method=\"INVITE\"}";
    wait_until("the metrics have all calls", || {
        get(metrics, "/metrics").is_some_and(|page| page.contains(&format!("{bucket} {CALLS}\n")))
    });
    live.signal("INT");
    let ended = live.wait();
    let output = live.output();
    assert!(ended.success(), "{output}");
    assert!(
        output.contains("INVITE with credentials in > out"),
        "{output}"
    );
    for counter in ["kernel_drops", "not_sip", "broken_messages", "other_ports"] {
        assert!(!output.contains(counter), "{output}");
    }
    let found = lines(&messages);
    assert_eq!(found.len(), told.len());
    for (found, told) in found.iter().zip(&told) {
        // The kernel gives both the same time.
        assert_eq!(found["time"], decimal(told.time));
        assert_eq!(found["call_id"], told.call_id);
        assert_eq!(found["status"], told.status.to_string());
        assert_eq!(found["source"], format!("127.0.0.1:{}", told.source));
        assert_eq!(
            found["destination"],
            format!("127.0.0.1:{}", told.destination)
        );
    }
}

#[test]
fn mistakes_are_reported_with_what_to_do() {
    let refused = |arguments: &[&str], expected: &str| {
        let (code, output) = run(Command::new(Server::binary())
            .arg("analyze")
            .args(arguments));
        assert_ne!(code, 0, "{arguments:?}");
        assert!(output.contains(expected), "{arguments:?}: {output}");
    };
    let server = ["--server", "127.0.0.1:5060"];
    let with = |more: &[&'static str]| [&server, more].concat();
    refused(&with(&[]), "--pcap <FILE>");
    refused(&["--pcap", "x"], "--server");
    refused(
        &with(&["--pcap", "/nonexistent"]),
        "/nonexistent: No such file",
    );
    refused(&with(&["--pcap", "/etc/passwd"]), "not a capture file");
    refused(&with(&["--interface", "nonexistent0"]), "available: ");
    refused(
        &with(&["--pcap", "x", "--samples", "/tmp/samples.txt"]),
        ".csv",
    );
    refused(
        &with(&["--pcap", "x", "--buckets", "1s,500ms"]),
        "larger than the one before",
    );
    refused(
        &["--pcap", "x", "--server", "example.org"],
        "192.0.2.1:5060",
    );
    // Without the right to capture.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--"]);
    command
        .arg(Server::binary())
        .args(["analyze", "--interface", "lo"])
        .args(server);
    let (code, output) = run(&mut command);
    assert_ne!(code, 0);
    assert!(
        output.contains("CAP_NET_RAW") && output.contains("setcap"),
        "{output}"
    );
}
