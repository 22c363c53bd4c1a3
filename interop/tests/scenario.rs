//! Plays a scenario file against a real server: the number of calls, the caller and callee of each, and the times must
//! agree with its lines.

use interop::{Capture, Server, ServerOptions, lab_run, lab_users, run};
use serde_json::Value;
use sip_transport::Protocol;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// One call, as planned in the file or as seen on the wire.
#[derive(Debug)]
struct Call {
    caller: u32,
    callee: u32,
    seconds: f64,
}

fn lab(arguments: &[&str]) -> (i32, String) {
    run(Command::new(Server::binary()).arg("lab").args(arguments))
}

fn server(phones: u32) -> Server {
    Server::start(&ServerOptions {
        users: lab_users(phones),
        ..ServerOptions::default()
    })
}

/// Plays a file and returns the report. The exit code is ignored: it is also nonzero if the machine was too busy to trust
/// the times, but counts are always exact.
fn play(server: &Server, file: &str, more: &[&str]) -> Value {
    let arguments = [&["scenario", file, "--quiet"], more].concat();
    let (_, report, output) = lab_run(server, Protocol::Udp, &arguments);
    assert!(report.is_object(), "no report:\n{output}");
    report
}

/// The calls of a file, read by its format.
fn planned(file: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(file).expect("a scenario");
    let mut due_ms = 0_u32;
    let lines = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(';').collect();
        let number = |place: usize| fields[place].parse::<u32>().expect("a number");
        let call = Call {
            caller: number(0),
            callee: number(1),
            seconds: f64::from(due_ms) / 1e3,
        };
        due_ms += number(2);
        call
    });
    lines.collect()
}

fn number_of(user: &str) -> u32 {
    let number = user.strip_prefix("user").map(str::parse);
    number
        .and_then(Result::ok)
        .unwrap_or_else(|| panic!("`{user}` is no phone"))
}

#[test]
fn every_line_of_a_scenario_is_a_call_between_its_phones_at_its_time() {
    let server = server(40);
    let file = server.path("scenario.csv");
    let path = file.to_string_lossy();
    let (code, output) = lab(&[
        "scenario",
        "generate",
        "step",
        "--rate",
        "10",
        "--step",
        "15",
        "--every",
        "2s",
        "--duration",
        "6s",
        "--spacing",
        "poisson",
        "--phones",
        "40",
        "--convention",
        "even-pod-calls-odd",
        "--pod",
        "10",
        "--output",
        &path,
    ]);
    assert_eq!(code, 0, "{output}");
    let (code, output) = lab(&[
        "scenario",
        "validate",
        &path,
        "--phones",
        "40",
        "--convention",
        "even-pod-calls-odd",
        "--pod",
        "10",
        "--spacing",
        "poisson",
    ]);
    assert_eq!(code, 0, "{output}");
    let planned = planned(&file);
    assert!(planned.len() > 100, "{}", planned.len());

    let capture = Capture::start(&server);
    let report = play(&server, &path, &["--phones", "40"]);
    let packets = capture.finish();
    let calls = &report["units"]["calls"];
    let lines = planned.len() as u64;
    assert_eq!(calls["attempted"], lines, "{report}");
    assert_eq!(calls["succeeded"], lines, "{report}");
    assert_eq!(report["calls_taken"], lines, "{report}");
    assert_eq!(
        (&calls["failed"], &calls["skipped"]),
        (&0.into(), &0.into()),
        "{report}"
    );

    // The first INVITE of each call, as tshark saw it.
    let mut known = BTreeSet::new();
    let messages = packets.messages().into_iter();
    let made: Vec<Call> = messages
        .filter(|message| message.destination == server.address().port())
        .filter(|message| message.what == "INVITE" && known.insert(message.call_id.clone()))
        .map(|message| Call {
            caller: number_of(&message.from_user),
            callee: number_of(&message.to_user),
            seconds: message.seconds,
        })
        .collect();
    assert_eq!(made.len(), planned.len());
    let begun = made[0].seconds;
    for (made, planned) in made.iter().zip(&planned) {
        assert_eq!((made.caller, made.callee), (planned.caller, planned.callee));
        // A busy machine may be late. The test checks that calls follow the times of the file, not another rate or all at once.
        let late = made.seconds - begun - planned.seconds;
        assert!(late.abs() < 1.5, "{made:?} is {planned:?}");
    }
}

#[test]
fn the_calls_of_a_scenario_are_shared_by_workers() {
    let server = server(30);
    let file = server.path("scenario.csv");
    let path = file.to_string_lossy();
    let (code, output) = lab(&[
        "scenario",
        "generate",
        "constant",
        "--rate",
        "50",
        "--duration",
        "4s",
        "--phones",
        "30",
        "--output",
        &path,
    ]);
    assert_eq!(code, 0, "{output}");
    let report = play(&server, &path, &["--phones", "30", "--workers", "3"]);
    let calls = &report["units"]["calls"];
    assert_eq!(
        (&calls["attempted"], &calls["succeeded"]),
        (&200.into(), &200.into()),
        "{report}"
    );
    assert_eq!(report["calls_taken"], 200, "{report}");
}

#[test]
fn a_scenario_with_a_mistake_is_not_played() {
    let server = server(2);
    let file = server.path("scenario.csv");
    let header = "caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s";
    std::fs::write(
        &file,
        format!("{header}\n0000;0001;1000;0;1\n0000;0002;1000;1;1\n"),
    )
    .expect("written");
    let path = file.to_string_lossy();
    let address = server.address().to_string();
    let (code, output) = lab(&[
        "run", "scenario", &path, "--server", &address, "--phones", "2",
    ]);
    assert_eq!(code, 1, "{output}");
    let expected =
        format!("tandem: {path}:3: callee 2 is not a phone: phones are 0 to 1 (--phones, --first)");
    assert!(output.contains(&expected), "{output}");
}
