//! Agents, a controller and its page in a browser. A scenario is registered and run, an agent vanishes, and the
//! controller restarts.
//!
//! Screenshots go to the folder that the test prints. `INTEROP_SECONDS=10` selects the full rate test.

use interop::{Child, Laboratory, Look, Page, Server, ServerOptions};
use serde_json::{Value, json};
use std::path::PathBuf;

const DESK: Look = Look {
    width: 1280,
    height: 800,
    dark: false,
};
const DARK: Look = Look { dark: true, ..DESK };
const PHONE: Look = Look {
    width: 390,
    height: 844,
    dark: false,
};

/// Pods 46 and 70 call pods 47 and 71.
const PAIRS: [(u32, u32); 4] = [(4600, 4700), (7000, 7100), (4601, 4701), (7001, 7101)];

fn server() -> Server {
    let users = PAIRS.iter().flat_map(|(caller, callee)| [caller, callee]);
    Server::start(&ServerOptions {
        users: users.map(u32::to_string).collect(),
        ..ServerOptions::default()
    })
}

fn picture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("console-{name}.png"))
}

fn number(text: &str) -> u64 {
    let digits: String = text
        .chars()
        .take_while(|letter| *letter != ' ' && *letter != '\n')
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(0)
}

#[test]
fn a_scenario_is_run_from_the_page_and_a_run_that_lost_an_agent_is_not_trusted() {
    let server = server();
    let mut laboratory = Laboratory::start();
    laboratory.scenario("short.csv", 200, &[20], &PAIRS);
    laboratory.scenario("long.csv", 2_000, &[10], &PAIRS);
    let mut page = Page::open(&laboratory.page());
    page.wait_for(".situation", |text| text == "Waiting for agents.");
    page.screenshot(&picture("1-no-agents"), DESK);
    let _one = laboratory.agent("pod-0", &server);
    let mut other = laboratory.agent("pod-1", &server);
    page.wait_for("table", |text| {
        text.contains("pod-0") && text.contains("pod-1")
    });

    run_by_mouse(&laboratory, &mut page);
    run_and_lose(&mut other, &laboratory, &mut page);

    // The controller restarts.
    let _other = laboratory.agent("pod-1", &server);
    page.wait_for("table", |text| text.contains("pod-1"));
    laboratory.end_controller();
    page.wait_for(".connection", |text| text.contains("does not answer"));
    page.screenshot(&picture("9-controller-gone"), DESK);
    laboratory.restart();
    page.wait_for(".connection", |text| {
        text.starts_with("controller 127.0.0.1")
    });
    page.wait_for("table", |text| {
        text.contains("pod-0") && text.contains("pod-1")
    });
    page.click("Register");
    page.wait_for(".situation", |text| text.ends_with("Ready to start."));
    assert_eq!(page.complaints(), Vec::<Value>::new());
    println!("pictures: {}", env!("CARGO_TARGET_TMPDIR"));
}

/// A run without faults.
fn run_by_mouse(laboratory: &Laboratory, page: &mut Page) {
    page.choose("Scenario", "short.csv");
    page.fill("Talking", "0.3");
    page.screenshot(&picture("2-before"), DESK);
    page.click("Register");
    page.wait_for(".situation", |text| {
        text == "8 phones registered. Ready to start."
    });
    page.click("Start");
    page.wait_for("[data-figure=commanded]", |text| number(text) > 60);
    page.screenshot(&picture("3-during"), DESK);
    page.wait_for(".title", |text| text.contains("ended"));
    for figure in ["commanded", "answered", "succeeded"] {
        let text = page.text(&format!("[data-figure={figure}]"));
        assert_eq!(number(&text), 200, "{figure}: {text}");
    }
    let report = laboratory.get("/report").expect("a report");
    println!("doubts about a run that went well: {}", report["doubts"]);
    assert_eq!(report["succeeded"], 200, "{report:#}");
    assert_eq!(report["command_lateness"]["count"], 200, "{report:#}");
    assert_eq!(report["command_confirmed"]["count"], 200, "{report:#}");
    // On a busy machine commands may be late. Then the page must say so, and nothing else may be wrong.
    let percentile = page.text("[data-figure='response p99']");
    if report["trusted"] == json!(true) {
        assert_eq!(report["session_request_delay"]["count"], 200);
        assert_eq!(report["response_delay"]["count"], 200);
        assert!(percentile.ends_with("ms"), "{percentile}");
        assert_eq!(page.text(".verdict"), "");
    } else {
        let doubts = report["doubts"].as_array().expect("doubts");
        let is_of_lateness = |doubt: &Value| {
            doubt
                .as_str()
                .is_some_and(|doubt| doubt.starts_with("one "))
        };
        assert!(doubts.iter().all(is_of_lateness), "{report:#}");
        assert_eq!(
            (percentile.as_str(), &report["response_delay"]),
            ("—", &Value::Null)
        );
    }
    page.screenshot(&picture("4-after"), DESK);
    page.screenshot(&picture("5-after-dark"), DARK);
    page.screenshot(&picture("6-after-on-a-phone"), PHONE);
}

/// A run that is registered and started by keyboard. Its agent is killed in the middle.
fn run_and_lose(agent: &mut Child, laboratory: &Laboratory, page: &mut Page) {
    page.choose("Scenario", "long.csv");
    page.click("Register");
    page.wait_for(".situation", |text| {
        text == "8 phones registered. Ready to start."
    });
    page.press("Tab");
    page.press("Enter");
    page.wait_for("[data-figure=commanded]", |text| {
        (300..1_900).contains(&number(text))
    });
    agent.signal("KILL");
    agent.wait();
    let verdict = page.wait_for(".verdict", |text| text.contains("agent pod-1 vanished"));
    assert!(verdict.contains("This run cannot be trusted."), "{verdict}");
    assert_eq!(page.text("[data-figure='response p99']"), "—");
    page.screenshot(&picture("7-agent-vanished"), DESK);
    page.click("Stop");
    page.wait_for(".title", |text| text.contains("ended"));
    let report = laboratory.get("/report").expect("a report");
    assert_eq!(
        (&report["trusted"], &report["session_request_delay"]),
        (&json!(false), &Value::Null)
    );
    let count = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(
        count("commanded"),
        count("succeeded") + count("failed") + count("lost"),
        "{report:#}"
    );
    assert!(
        count("lost") > 0 && count("commanded") < 2_000,
        "{report:#}"
    );
    page.screenshot(&picture("8-stopped"), DARK);
}

#[test]
fn scenarios_with_mistakes_are_shown_with_their_lines_and_not_run() {
    let server = server();
    let laboratory = Laboratory::start();
    let path = laboratory.scenario("holes.csv", 10, &[500], &PAIRS);
    let text = std::fs::read_to_string(&path).expect("the scenario");
    let without: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(place, _)| !(3..7).contains(place))
        .map(|(_, line)| line)
        .collect();
    std::fs::write(&path, without.join("\n") + "\n").expect("the scenario");
    let _agent = laboratory.agent("pod-0", &server);
    laboratory.wait_for("the agent", |state| {
        state["agents"]
            .as_array()
            .is_some_and(|agents| agents.len() == 1)
    });
    let mut page = Page::open(&laboratory.page());
    let mistakes = page.wait_for(".errors", |text| !text.is_empty());
    assert!(mistakes.starts_with("holes.csv:4: "), "{mistakes}");
    let (status, answer) = laboratory.post("/register", &json!({ "scenario": "holes.csv" }));
    assert_eq!(status, 422, "{answer}");
    assert!(
        answer["errors"][0]
            .as_str()
            .is_some_and(|error| error.starts_with("holes.csv:4: ")),
        "{answer}"
    );

    // An upload with mistakes is rejected in the same way, and accepted without them.
    let beside = laboratory.path("beside.csv");
    std::fs::write(&beside, "caller,callee\n").expect("a file");
    page.upload(&beside);
    page.wait_for("[role=alert]", |text| text.starts_with("beside.csv:1: "));
    page.screenshot(&picture("mistakes"), DESK);
    std::fs::write(&beside, text).expect("a file");
    page.upload(&beside);
    page.wait_for(".note", |text| text.contains("10 calls between 8 phones"));
    page.click("Register");
    page.wait_for(".situation", |text| text.ends_with("Ready to start."));

    // Phones that the server does not know are reported with the reason.
    laboratory.scenario("unknown.csv", 2, &[1_000], &[(9_998, 9_999)]);
    let (status, answer) = laboratory.post("/register", &json!({ "scenario": "unknown.csv" }));
    assert_eq!(status, 200, "{answer}");
    let state = laboratory.wait_for("refused registrations", |state| {
        state["phase"] == "incomplete"
    });
    let (_, count) = state["prepared"]["unregistered"]
        .as_object()
        .and_then(|reasons| reasons.iter().next())
        .expect("a reason");
    assert_eq!(count, 2, "{state:#}");
    let (status, answer) = laboratory.post("/start", &json!({ "scenario": "unknown.csv" }));
    assert_eq!(status, 409, "{answer}");
    assert_eq!(page.complaints(), Vec::<Value>::new());
}

#[test]
fn a_thousand_commands_a_second_leave_in_time_and_every_call_is_accounted_for() {
    let server = server();
    let laboratory = Laboratory::start();
    // 1,200 calls per second.
    let seconds = std::env::var("INTEROP_SECONDS").map_or(3, |seconds| {
        seconds.parse::<u32>().expect("INTEROP_SECONDS is a number")
    });
    let calls = 1_200 * seconds;
    laboratory.scenario("fast.csv", calls, &[1, 1, 0, 1, 1, 1], &PAIRS);
    let _agents = ["pod-0", "pod-1"].map(|name| laboratory.agent(name, &server));
    laboratory.wait_for("both agents", |state| {
        state["agents"]
            .as_array()
            .is_some_and(|agents| agents.len() == 2)
    });
    assert_eq!(
        laboratory
            .post("/register", &json!({ "scenario": "fast.csv" }))
            .0,
        200
    );
    laboratory.wait_for("registered", |state| state["phase"] == "registered");
    let (status, answer) = laboratory.post(
        "/start",
        &json!({ "scenario": "fast.csv", "talking_ms": 0 }),
    );
    assert_eq!(status, 200, "{answer}");
    let report = laboratory.report_at_the_end();
    for key in [
        "command_lateness",
        "command_lateness_above_ms",
        "command_confirmed",
        "agent_lateness",
        "doubts",
    ] {
        println!("{key}: {}", report[key]);
    }
    let count = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(count("commanded"), u64::from(calls));
    assert_eq!(
        (count("succeeded") + count("failed"), count("lost")),
        (u64::from(calls), 0),
        "{report:#}"
    );
    assert_eq!(report["command_lateness"]["count"], calls);
    // On a busy machine commands may be late, but then the run must report it.
    let late = report["command_lateness"]["p99"]
        .as_u64()
        .expect("a percentile")
        > 5_000;
    assert!(!late || report["trusted"] == json!(false), "{report:#}");
}
