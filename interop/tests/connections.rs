//! Thousands of connections with registrations, and the behavior when there is no room for more.

use interop::{Server, ServerOptions, eventually, free_port, run, wait_until};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// The number of connections held.
const CONNECTIONS: u32 = 2_000;
/// Registrations over one connection, to measure what a registration takes without a connection.
const ALONE: u32 = 200;
/// The maximum number of bytes for an idle connection. The budget is half of it; a test build shares fewer pages.
const BYTES_EACH: f64 = 2_048.0;

/// A server with a TCP listener that does not authenticate.
fn over_tcp(workers: u16, descriptors: Option<(u64, u64)>) -> (Server, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let sections = format!(
        "[auth]\nchallenge = []\n\n[connections]\nmax_per_peer = 10000\n\n[[listen]]\ntransport = \"tcp\"\naddress = \"{address}\"\n"
    );
    let users = (0..=ALONE + CONNECTIONS).map(|number| format!("user{number}"));
    let server = Server::start(&ServerOptions {
        sections,
        users: users.collect(),
        workers,
        descriptors,
        ..ServerOptions::default()
    });
    (server, address)
}

#[test]
fn calls_find_their_way_over_any_of_thousands_of_connections() {
    let (mut server, address) = over_tcp(2, Some((256, 20_000)));
    let log = server.log();
    assert!(
        log.contains("RLIMIT_NOFILE") && log.contains("20000"),
        "the limit was not raised:\n{log}"
    );
    let (code, output) = run(Command::new(Server::binary()).args([
        "bench",
        "connections",
        "--json",
        &format!("--server={address}"),
        &format!("--domain={}", server.domain()),
        &format!("--admin={}", server.admin_address()),
        &format!("--pid={}", server.process().id()),
        &format!("--steps={},{CONNECTIONS}", CONNECTIONS / 2),
        &format!("--registrations={ALONE}"),
        "--calls=50",
    ]));
    assert_eq!(code, 0, "{output}");
    let report: Value = serde_json::from_str(&output).expect("a report");
    let number = |path: &str| {
        let value = report.pointer(path).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("no {path} in {report}"))
    };
    assert!(number("/calls/answered") >= 50.0, "{report}");
    let grown = number("/steps/1/memory_bytes") - number("/steps/0/memory_bytes");
    assert!(
        grown / (f64::from(CONNECTIONS) / 2.0) < BYTES_EACH,
        "{report}"
    );
    let gone = || server.metric("tandem_connections", "") == 0.0;
    wait_until("the server knows that they are gone", gone);
}

/// Sends OPTIONS and returns whether it is answered.
fn asks(stream: &mut TcpStream) -> bool {
    let local = stream.local_addr().expect("an address");
    let options = format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK{}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: {}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
        local.port(),
        local.port()
    );
    let mut answer = [0; 4_096];
    stream.write_all(options.as_bytes()).is_ok()
        && matches!(stream.read(&mut answer), Ok(count) if answer[..count].starts_with(b"SIP/2.0 200"))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the kernel takes it");
    let timeout = Some(Duration::from_secs(10));
    stream.set_read_timeout(timeout).expect("a timeout");
    stream
}

/// The processor time that a process has used, in clock ticks of 1/100 s.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(')').expect("its name");
    let fields = fields.split_whitespace().skip(11).take(2);
    fields
        .map(|field| field.parse::<u64>().expect("ticks"))
        .sum()
}

#[test]
fn without_room_new_connections_are_refused_and_others_continue() {
    let (mut server, address) = over_tcp(2, Some((64, 100)));
    let process = server.process().id();
    let mut streams: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    // A connection that is not accepted is closed at once, not after a deadline.
    let mut served: Vec<TcpStream> = Vec::new();
    let mut refused = 0;
    for mut stream in streams.drain(..) {
        if asks(&mut stream) {
            served.push(stream);
        } else {
            let mut rest = [0; 1];
            let end = stream.read(&mut rest).map_err(|error| error.kind());
            assert!(
                matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)),
                "it is left waiting: {end:?}"
            );
            refused += 1;
        }
    }
    assert!(
        served.len() > 10 && refused > 100,
        "{} served",
        served.len()
    );
    assert!(served.iter_mut().all(asks), "they do not go on");
    let before = ticks(process);
    // A further connection waits all the time or is refused. Neither keeps a worker busy.
    let late: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
    std::thread::sleep(Duration::from_secs(2));
    let spent = ticks(process) - before;
    assert!(spent < 50, "{spent} of 200 ticks for nothing");
    drop(late);
    served.truncate(served.len() / 2);
    let counted = || server.metric("tandem_connections_refused_total", "table_full") > 0.0;
    wait_until("the refusals are counted", counted);
    let again = || asks(&mut connect(address));
    assert!(
        eventually(Duration::from_secs(10), again),
        "nobody is taken on any more"
    );
}
