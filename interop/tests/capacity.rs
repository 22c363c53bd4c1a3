//! Tests `tandem lab capacity`, which starts its own server under a CPU limit and finds its capacity in steps. It needs
//! root, because the limit is a control group.

use interop::{Server, ServerOptions, lab_users, run};
use serde_json::Value;
use std::process::Command;

const PHONES: u32 = 20;

/// Runs a search against a server that it starts itself with this server's configuration. Returns exit code, report and output.
fn search(server: &Server, arguments: &[&str]) -> (i32, Value, String) {
    laboratory("capacity", server, arguments)
}

/// The same with another command of the laboratory.
fn laboratory(kind: &str, server: &Server, arguments: &[&str]) -> (i32, Value, String) {
    let binary = Server::binary();
    let (configuration, json) = (server.path("tandem.toml"), server.path("capacity.json"));
    let start = format!(
        "'{}' serve --config '{}' >'{}' 2>&1",
        binary.display(),
        configuration.display(),
        server.path("limited.log").display()
    );
    let mut command = Command::new(&binary);
    command
        .args(["lab", kind, "--quiet", "--start", &start])
        .args(["--duration", "3s", "--warm-up", "1s"])
        .args(["--password", "user{}-secret", "--domain", server.domain()])
        .args(["--phones", &PHONES.to_string(), "--server"])
        .arg(server.address().to_string())
        .arg("--json")
        .arg(&json)
        .args(arguments);
    let (code, output) = run(&mut command);
    let report = std::fs::read_to_string(&json).unwrap_or_default();
    (
        code,
        serde_json::from_str(&report).unwrap_or_default(),
        output,
    )
}

fn stopped_server() -> Server {
    let mut server = Server::start(&ServerOptions {
        users: lab_users(PHONES),
        workers: 1,
        ..ServerOptions::default()
    });
    server.kill();
    server
}

#[test]
fn a_server_under_a_limit_carries_what_the_limit_lets_it_and_no_more() {
    let server = stopped_server();
    let limit = ["--cpu", "20m", "--p99", "900ms"];
    let pace = ["--growth", "6", "--resolution", "1", "call", "--rate", "5"];
    let (code, report, output) = search(&server, &[&limit[..], &pace].concat());
    println!("{output}");
    assert_eq!(code, 0, "{output}");
    let capacity = report["capacity"].as_f64().expect("a rate");
    let trials = report["trials"].as_array().expect("trials");
    let rate = |trial: &Value| trial["rate"].as_f64().expect("a rate");
    assert!(
        trials.iter().any(|trial| rate(trial) > capacity),
        "{output}"
    );
    // In a trial that was ended early, the first period of the limit has too much weight.
    let whole = |trial: &&Value| {
        let rejected = trial["rejected"].as_str().unwrap_or_default();
        !rejected.starts_with("ended after")
    };
    for trial in trials.iter().filter(whole) {
        let used = trial["server_cpu"].as_f64().expect("known");
        // The CPU quota is renewed ten times a second, and the last one may be used partly in the next period.
        assert!(used < 0.03, "{trial}");
    }
    let is_left = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("tandem-lab-")
        })
    };
    let left: Vec<_> = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"]
        .into_iter()
        .filter(|folder| is_left(folder))
        .collect();
    assert_eq!(left, [""; 0], "the control group is removed");
}

#[test]
fn a_search_that_ends_at_its_bound_says_so_and_stands_beside_another() {
    let server = stopped_server();
    let bounds = ["--highest", "20", "call", "--rate", "10"];
    let (code, report, output) = search(&server, &bounds);
    assert_eq!(
        (code, report["capacity"].as_f64()),
        (0, Some(20.0)),
        "{output}"
    );
    assert!(
        output.contains("no higher rate than 20 was tried"),
        "{output}"
    );
    let first = server.path("first.json");
    std::fs::write(
        &first,
        report.to_string().replace("\"server\"", "\"another\""),
    )
    .expect("kept");
    let (first, page) = (first.display().to_string(), server.path("page.html"));
    let beside = ["--beside", &first, "--html", &page.display().to_string()];
    let (code, _, output) = search(&server, &[&beside[..], &bounds].concat());
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("another carries 20.0 units per second"),
        "{output}"
    );
    assert!(
        output.contains("server carries 20.0 units per second"),
        "{output}"
    );
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("\nanother\n</text>"), "{page}");
}

#[test]
fn a_server_that_does_not_start_is_reported() {
    let server = stopped_server();
    std::fs::write(server.path("tandem.toml"), "domains = 5\n").expect("written");
    let (code, _, output) = search(&server, &["call", "--rate", "10"]);
    assert_eq!(code, 1, "{output}");
    assert!(
        output.contains("the server exited before it responded"),
        "{output}"
    );
}

#[test]
fn a_server_that_is_offered_less_than_it_carries_does_all_of_it_and_needs_no_recovery() {
    let server = stopped_server();
    let page = server.path("overload.html").display().to_string();
    let steps = [
        "--step-duration",
        "3s",
        "--step-warm-up",
        "1s",
        "--best",
        "10",
    ];
    let offered = ["--factors", "1,2", "--html", &page, "call", "--rate", "10"];
    let (code, report, output) = laboratory("overload", &server, &[&steps[..], &offered].concat());
    println!("{output}");
    assert_eq!(code, 0, "{output}");
    let points = report["points"].as_array().expect("points");
    for (point, offered) in points.iter().zip([10.0, 20.0]) {
        let goodput = point["goodput"].as_f64().expect("a rate");
        assert!((goodput - offered).abs() <= 1.0, "{point}");
        assert_eq!(point["refused"], 0, "{point}");
    }
    assert_eq!(points.len(), 2, "{output}");
    assert_eq!(report["recovery"]["seconds"], 0.0, "{output}");
    assert_eq!(report["recovery"]["from"], 30.0, "{output}");
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("% of the best rate"), "{page}");
}
