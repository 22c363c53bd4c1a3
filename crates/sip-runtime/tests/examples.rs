//! The example programs do what they say.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where cargo puts an example: beside the folder of the tests.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().expect("this test");
    path.pop();
    path.pop();
    Command::new(path.join("examples").join(name))
}

#[test]
fn a_stack_inside_a_foreign_loop_answers_and_reports() {
    let mut program = example("foreign_loop")
        .arg("127.0.0.1:0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo builds the examples when it runs all tests of the package");
    let mut input = program.stdin.take().expect("piped");
    let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let address = line();
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
        input.write_all(b"count\n").expect("written");
        assert_eq!(line(), format!("{number} answered"));
    }
    drop(input);
    assert!(program.wait().expect("ended").success());
}
