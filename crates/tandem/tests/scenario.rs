//! `tandem lab scenario` as a process.

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const HEADER: &str = "caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s";

fn scenario(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.args(["lab", "scenario"]).args(arguments);
    command.current_dir(folder).output().expect("it runs")
}

/// The complete output: errors first.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stderr) + &text(&output.stdout)
}

#[test]
fn mistakes_are_reported_as_the_documentation_shows() {
    let folder = TempDir::new().expect("a folder");
    let lines = "0400;0500;1000;0;1\n711;811;1000;1;1\n0600;0700;1000;2;1\n0600;0700;1000;12;1\n0400;1200;1000;13;1\n";
    let file = folder.path().join("broken.csv");
    std::fs::write(&file, format!("{HEADER}\n{lines}")).expect("written");
    let page = include_str!("../../../docs/laboratory.md");
    let (_, example) = page
        .split_once("$ tandem lab scenario ")
        .expect("an example");
    let (command, example) = example.split_once('\n').expect("a command");
    let (expected, _) = example.split_once("```").expect("an end");
    let arguments: Vec<&str> = command.split(' ').collect();
    let output = scenario(folder.path(), &arguments);
    assert_eq!(said(&output), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_each_shape_makes_validates_and_can_be_drawn() {
    let folder = TempDir::new().expect("a folder");
    for (shape, calls) in [
        ("constant --rate 20 --duration 1min", 1_200),
        ("step --rate 5 --step 5 --every 10s --duration 30s", 300),
        ("day --day 2 --peak 20 --duration 2min", 1_144),
    ] {
        let mut arguments = vec!["generate"];
        arguments.extend(shape.split(' '));
        arguments.extend(["--output", "s.csv"]);
        let output = scenario(folder.path(), &arguments);
        assert_eq!(said(&output), format!("s.csv: {calls} calls\n"), "{shape}");
        let output = scenario(folder.path(), &["validate", "s.csv", "--phones", "1000"]);
        assert!(
            said(&output).ends_with(": no mistakes\n"),
            "{}",
            said(&output)
        );
        let output = scenario(folder.path(), &["plot", "s.csv", "--output", "s.svg"]);
        assert_eq!(said(&output), "", "{shape}");
        let svg = std::fs::read_to_string(folder.path().join("s.svg")).expect("a picture");
        assert!(svg.contains(&format!("s.csv: {calls} calls in")), "{shape}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(
        folder.path().join("measured.csv"),
        "timestamp_utc_ms,calls\n0,1\n600000,x\n",
    )
    .expect("written");
    for (arguments, expected) in [
        ("generate constant --rate 0", "there would be no call"),
        (
            "generate constant --rate 1e6 --duration 1day",
            "86400000000 calls are too many",
        ),
        ("generate day --day 8", "the days are 1 to 7"),
        (
            "generate day --measured measured.csv",
            "measured.csv:3: calls `x`",
        ),
        (
            "generate constant --phones 300 --convention even-pod-calls-odd",
            "multiples of 200",
        ),
        (
            "generate constant --output nowhere/s.csv",
            "cannot write nowhere/s.csv",
        ),
        ("validate nowhere.csv", "nowhere.csv cannot be read"),
        ("validate .", ". is a directory"),
        (
            "plot measured.csv",
            "measured.csv:1: `timestamp_utc_ms,calls` is not the header",
        ),
    ] {
        let output = scenario(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let said = said(&output);
        assert!(
            said.starts_with("tandem: ") && said.contains(expected),
            "{said}"
        );
    }
}
