//! Tests that a 200 to REGISTER is durable when the process is killed during many registrations.

use interop::{Server, ServerOptions};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Registrations sent before responses are read.
const BURST: usize = 64;
/// The sum of the defaults of `location.save_interval` and `location.max_lag`.
const STATED: Duration = Duration::from_millis(1_020);

/// Registers one user after another until `stop` is set. Returns the users that got a 200, and when.
fn storm(server: &Server, stop: &AtomicBool) -> Vec<(String, Instant)> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let short = Some(Duration::from_millis(2));
    socket.set_read_timeout(short).expect("a timeout");
    let (here, to) = (socket.local_addr().expect("bound"), server.address());
    let mut answered = Vec::new();
    let mut buffer = [0; 4_096];
    for number in 0.. {
        let user = format!("storm{number}");
        let request = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK{user};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@example.org>;tag=1\r\nTo: <sip:{user}@example.org>\r\nCall-ID: {user}\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:{user}@{here}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n"
        );
        // Once the server is dead, the kernel returns an error.
        let _ = socket.send_to(request.as_bytes(), to);
        if number % BURST != 0 {
            continue;
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            let answer = String::from_utf8_lossy(&buffer[..length]);
            if answer.starts_with("SIP/2.0 200") {
                let user = answer
                    .split("Call-ID: ")
                    .nth(1)
                    .and_then(|rest| rest.lines().next());
                answered.push((user.expect("a Call-ID").to_owned(), Instant::now()));
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    answered
}

/// All registered users.
fn registered(server: &Server) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut after = Value::Null;
    loop {
        let page = server.rpc("location.list", &json!({ "limit": 10_000, "after": after }));
        for entry in page["addresses"].as_array().expect("a list") {
            let address = entry["address"].as_str().expect("an address");
            found.insert(address.split('@').next().expect("a user").to_owned());
        }
        after = page["next"].clone();
        if after.is_null() {
            return found;
        }
    }
}

/// A time between 1.2 and 2.7 seconds that differs on each call.
fn some_time() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.expect("after 1970").subsec_nanos();
    Duration::from_millis(1_200 + u64::from(nanos / 1_000 % 1_500))
}

/// Kills a server during many registrations. Every 200 that is older than `grace` must still be valid afterwards.
fn no_answer_is_forgotten(sections: &str, grace: Duration) {
    let mut server = Server::start(&ServerOptions::with(&format!(
        "[auth]\nchallenge = []\n\n{sections}"
    )));
    let stop = AtomicBool::new(false);
    let (answered, killed) = std::thread::scope(|scope| {
        let client = scope.spawn(|| storm(&server, &stop));
        std::thread::sleep(some_time());
        let killed = Instant::now();
        let id = server.process_id();
        interop::run(std::process::Command::new("kill").args(["-KILL", &id.to_string()]));
        stop.store(true, Ordering::Relaxed);
        (client.join().expect("the client"), killed)
    });
    server.restart();
    let registered = registered(&server);
    let old = answered.iter().filter(|(_, at)| *at + grace < killed);
    let (lost, kept): (Vec<_>, Vec<_>) = old.partition(|(user, _)| !registered.contains(user));
    assert!(kept.len() > 100, "too few to say anything: {}", kept.len());
    assert!(
        lost.is_empty(),
        "{} of {} answered registrations are lost; the oldest was answered {:?} before the end",
        lost.len(),
        lost.len() + kept.len(),
        killed - lost[0].1
    );
}

#[test]
fn a_registration_is_on_disk_within_the_stated_time() {
    for _ in 0..2 {
        no_answer_is_forgotten("", STATED);
    }
}

#[test]
fn with_durability_commit_no_answer_is_ever_forgotten() {
    for _ in 0..2 {
        no_answer_is_forgotten("[location]\ndurability = \"commit\"\n", Duration::ZERO);
    }
}
