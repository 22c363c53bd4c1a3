//! Runs the example programs and checks their output.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The executable of an example, which cargo puts beside the folder of the tests.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().expect("this test");
    path.pop();
    path.pop();
    Command::new(path.join("examples").join(name))
}

/// A running program whose output is read line by line.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo builds the examples when it runs all tests of the package");
        let output = child.stdout.take().expect("piped");
        Self {
            child,
            lines: BufReader::new(output).lines(),
        }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// Closes the program's input and waits for it to exit. Returns the remaining lines, and whether it succeeded.
    fn end(mut self) -> (Vec<String>, bool) {
        drop(self.child.stdin.take());
        let lines = self.lines.map(|line| line.expect("text")).collect();
        (lines, self.child.wait().expect("ended").success())
    }
}

#[test]
fn the_user_agents_call_each_other_over_datagrams_and_streams() {
    for protocol in ["udp", "tcp"] {
        let mut uas = Program::start(example("uas").arg("127.0.0.1:0"));
        let listening = [uas.line(), uas.line()];
        let word = format!("listening at {} ", protocol.to_uppercase());
        let address = listening.iter().find_map(|line| line.strip_prefix(&word));
        let address = address.expect("where it listens").to_owned();
        let uri = format!("sip:uas@{address};transport={protocol}");
        let uac = Program::start(example("uac").arg(uri));
        let (news, is_well) = uac.end();
        assert_eq!(news, ["180", "established", "ended"], "{protocol}");
        assert!(is_well);
        let heard: Vec<String> = (0..3).map(|_| uas.line()).collect();
        let words: Vec<&str> = heard
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(words, ["call", "up", "down"]);
        assert!(uas.end().1);
    }
}

#[test]
fn a_call_to_a_closed_port_fails_at_once_over_a_stream() {
    let nobody = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        socket.local_addr().expect("address").to_string()
    };
    let uri = format!("sip:nobody@{nobody};transport=tcp");
    let began = Instant::now();
    let output = example("uac").arg(uri).output().expect("started");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("Ended(Unreachable)"), "{error}");
    // Without the report of the connection, Timer B would have to fire.
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_stack_inside_a_foreign_loop_answers_and_is_asked_from_outside() {
    let mut program = Program::start(example("foreign_loop").arg("127.0.0.1:0"));
    let address = program.line();
    let address = address.strip_prefix("listening at ").expect("where");
    let phone = UdpSocket::bind("127.0.0.1:0").expect("bind");
    phone
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("timeout");
    for number in 1..=3 {
        let request = format!(
            "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP {};rport;branch=z9hG4bK{number}\r\n\
             From: <sip:a@example.org>;tag=1\r\nTo: <sip:b@example.org>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
            phone.local_addr().expect("address")
        );
        phone.send_to(request.as_bytes(), address).expect("send");
        let mut response = [0; 2_000];
        let length = phone.recv(&mut response).expect("a response");
        let response = String::from_utf8_lossy(&response[..length]).into_owned();
        assert!(response.starts_with("SIP/2.0 200 OK\r\n"), "{response}");
        let mut input = program.child.stdin.as_ref().expect("piped");
        input.write_all(b"count\n").expect("written");
        assert_eq!(program.line(), format!("{number} answered"));
    }
    assert!(program.end().1);
}

#[test]
fn the_examples_are_short() {
    let lines = |source: &str| source.lines().filter(|it| !it.starts_with("//!")).count();
    assert!(lines(include_str!("../examples/uas.rs")) < 45);
    assert!(lines(include_str!("../examples/uac.rs")) < 25);
    let call = include_str!("../examples/call.rs");
    let (_, body) = call
        .split_once("-> Result<(), Box<dyn Error>> {\n")
        .expect("main");
    assert!(body.lines().count() <= 25, "{}", body.lines().count());
}
