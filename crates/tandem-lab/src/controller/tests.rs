//! The controller with agents of the test: the orders they receive, and what happens to a run when they misbehave.

use super::protocol::{AgentReport, FromAgent, FromController, PROTOCOL};
use super::run::{Report, Status};
use super::{Arguments, Controller, Division, serve};
use crate::scenario::HEADER;
use futures_util::{SinkExt, StreamExt};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const PATIENCE: Duration = Duration::from_secs(20);

struct Bench {
    controller: Arc<Controller>,
    address: SocketAddr,
    folder: TempDir,
}

impl Bench {
    async fn start() -> Self {
        Self::start_with(None).await
    }

    async fn start_with(token: Option<&str>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let token_file = token.map(|token| {
            let file = folder.path().join("token");
            std::fs::write(&file, token).expect("written");
            file
        });
        let controller = Controller::new(Arguments {
            listen: ([127, 0, 0, 1], 0).into(),
            host: Vec::new(),
            token_file,
            scenarios: folder.path().to_owned(),
            division: Division::Ranges,
            registrations_per_second: 1_000,
            ringing: Duration::ZERO,
            talking: Duration::ZERO,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let guard = super::guard(&controller.options).expect("sound options");
        tokio::spawn(serve(Arc::clone(&controller), listener, guard));
        Self {
            controller,
            address,
            folder,
        }
    }

    /// Calls from phone 1 to 2 and from 3 to 4 in turn, at this interval; every phone is registered.
    async fn prepare(&self, calls: u32, wait_ms: u32) {
        let mut text = format!("{HEADER}\n");
        for call in 0..calls {
            let caller = call % 2 * 2 + 1;
            let second = call * wait_ms / 1_000;
            let rate = 1_000 / wait_ms;
            let _ = writeln!(text, "{caller};{};{wait_ms};{second};{rate}", caller + 1);
        }
        std::fs::write(self.folder.path().join("a.csv"), text).expect("a scenario");
        let calls = self.controller.scenarios.calls("a.csv").expect("sound");
        let registered = self
            .controller
            .state()
            .register("a.csv", &calls, Division::Ranges, 1_000);
        registered.expect("agents have room");
        self.wait_for("registered", |controller| {
            let state = controller.state();
            let prepared = state.prepared.as_ref();
            prepared
                .is_some_and(|prepared| state.registered(prepared) == prepared.plan.phones() as u64)
        })
        .await;
    }

    fn run(&self) -> u64 {
        let started = self
            .controller
            .start("a.csv", Duration::ZERO, Duration::ZERO);
        started.expect("everything is ready")
    }

    fn report(&self) -> Report {
        let state = self.controller.state();
        state
            .run
            .as_ref()
            .expect("a run")
            .draft(Instant::now())
            .finish()
    }

    async fn ended(&self) -> Report {
        self.wait_for("the end of the run", |_| {
            self.report().status == Status::Ended
        })
        .await;
        self.report()
    }

    async fn wait_for(&self, what: &str, is_true: impl Fn(&Controller) -> bool) {
        let began = Instant::now();
        while !is_true(&self.controller) {
            assert!(
                began.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn connect(&self) -> Agent {
        let (socket, _) = connect_async(format!("ws://{}/agent", self.address))
            .await
            .expect("a connection");
        Agent(socket)
    }

    async fn agent(&self, name: &str) -> Agent {
        let mut agent = self.connect().await;
        agent.say(&hello(PROTOCOL, name)).await;
        self.wait_for("the agent", |controller| {
            controller.state().agents.contains_key(name)
        })
        .await;
        agent
    }
}

struct Agent(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Agent {
    async fn say(&mut self, message: &FromAgent) {
        self.say_text(&message.to_json()).await;
    }

    async fn say_text(&mut self, text: &str) {
        self.0
            .send(Message::text(text))
            .await
            .expect("the controller listens");
    }

    /// The next order; `None` after the controller has closed the connection.
    async fn hear(&mut self) -> Option<FromController> {
        let order = async {
            loop {
                match self.0.next().await? {
                    Ok(Message::Text(text)) => {
                        return Some(serde_json::from_str(&text).expect("an order"));
                    }
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        // Pings keep arriving.
        let order = timeout(PATIENCE, order).await;
        order.expect("the controller says something")
    }

    /// Executes orders as agents do; every call ends at once. It vanishes after `most` calls. Returns the calls and when each arrived.
    async fn obey(mut self, most: usize) -> Vec<((u32, u32), Instant)> {
        let mut heard = Vec::new();
        let mut report = AgentReport::default();
        while heard.len() < most {
            match self.hear().await {
                Some(FromController::Register {
                    registration,
                    phones,
                    ..
                }) => {
                    report.registration = Some(registration);
                    report.registered = phones.len() as u32;
                }
                Some(FromController::Begin { run, .. }) => report.run = Some(run),
                Some(FromController::Call { batch, calls }) => {
                    let now = Instant::now();
                    report.commanded += calls.len() as u64;
                    report.succeeded = report.commanded;
                    report.answered = report.commanded;
                    report.session_request_delay = vec![(1_000, calls.len() as u64)];
                    report.response_delay = vec![(2_000, calls.len() as u64)];
                    heard.extend(calls.into_iter().map(|call| (call, now)));
                    self.say(&FromAgent::Begun { batch }).await;
                }
                Some(FromController::Stop | FromController::Refused { .. }) => {}
                None => break,
            }
            self.say(&FromAgent::Report(Box::new(report.clone()))).await;
            report.session_request_delay.clear();
            report.response_delay.clear();
        }
        heard
    }
}

fn hello(protocol: u32, name: &str) -> FromAgent {
    FromAgent::Hello {
        protocol,
        name: name.to_owned(),
        most_phones: 100,
        run: None,
        registered: 0,
        in_progress: 0,
    }
}

#[tokio::test]
async fn calls_are_commanded_in_their_order_at_their_time_by_the_agent_of_their_caller() {
    let bench = Bench::start().await;
    let [one, other] = [bench.agent("one").await, bench.agent("two").await]
        .map(|agent| tokio::spawn(agent.obey(50)));
    bench.prepare(100, 10).await;
    bench.run();
    let [one, other] = [one.await.expect("calls"), other.await.expect("calls")];
    assert!(one.iter().all(|(call, _)| *call == (1, 2)), "{one:?}");
    assert!(other.iter().all(|(call, _)| *call == (3, 4)), "{other:?}");
    let took = one[49].1 - one[0].1;
    // The 50 calls of each are 20 ms apart. The test makes no assumption about the lateness of a busy machine.
    assert!(took >= Duration::from_millis(900), "{took:?}");
    let report = bench.report();
    assert_eq!(
        (report.totals.commanded, report.command_lateness.count),
        (100, 100)
    );
}

#[tokio::test]
async fn a_sound_run_ends_with_every_call_accounted_for() {
    let bench = Bench::start().await;
    tokio::spawn(bench.agent("one").await.obey(usize::MAX));
    bench.prepare(40, 5).await;
    bench.run();
    let report = bench.ended().await;
    assert_eq!(
        (
            report.totals.succeeded,
            report.totals.lost,
            report.totals.in_progress
        ),
        (40, 0, 0)
    );
    assert_eq!(report.command_confirmed.count, 40);
    let rows: u64 = report
        .command_lateness_above_ms
        .iter()
        .map(|(_, count)| count)
        .sum();
    assert_eq!(rows, 40);
    if report.trusted {
        assert_eq!(
            report.session_request_delay.map(|delay| delay.count),
            Some(40)
        );
    } else {
        assert!(
            report
                .doubts
                .iter()
                .all(|doubt| doubt.contains("late") || doubt.contains("confirmed")),
            "{report:#?}"
        );
    }
}

#[tokio::test]
async fn the_calls_of_an_agent_that_vanishes_are_lost_and_the_run_is_not_trusted() {
    let bench = Bench::start().await;
    tokio::spawn(bench.agent("one").await.obey(usize::MAX));
    tokio::spawn(bench.agent("two").await.obey(10));
    bench.prepare(100, 5).await;
    bench.run();
    let report = bench.ended().await;
    let totals = &report.totals;
    assert_eq!(totals.commanded, 100);
    assert_eq!(totals.succeeded + totals.lost, 100);
    assert!(totals.lost >= 40, "{totals:?}");
    assert!(!report.trusted && report.session_request_delay.is_none());
    assert!(
        report
            .doubts
            .iter()
            .any(|doubt| doubt.contains("agent two vanished")),
        "{:?}",
        report.doubts
    );
    // It cannot start again without registering, because another agent must play those phones.
    let again = bench
        .controller
        .start("a.csv", Duration::ZERO, Duration::ZERO);
    assert!(again.expect_err("phones are missing").contains("register"));
}

#[tokio::test]
async fn after_stop_no_call_is_commanded() {
    let bench = Bench::start().await;
    let agent = tokio::spawn(bench.agent("one").await.obey(usize::MAX));
    bench.prepare(4_000, 5).await;
    bench.run();
    bench
        .wait_for("some calls", |_| bench.report().totals.commanded > 20)
        .await;
    bench.controller.state().stop().expect("it runs");
    let commanded = bench.report().totals.commanded;
    let report = bench.ended().await;
    assert_eq!(report.totals.commanded, commanded);
    assert!(
        report.remarks[0].starts_with("stopped after"),
        "{:?}",
        report.remarks
    );
    assert!(
        bench.controller.state().stop().is_err(),
        "nothing is under way any more"
    );
    agent.abort();
}

#[tokio::test]
async fn an_agent_that_says_what_makes_no_sense_is_refused_with_the_reason() {
    let bench = Bench::start().await;
    let _first = bench.agent("one").await;
    for (said, reason) in [
        (String::from("hello"), "invalid message"),
        (
            String::from(r#"{"type":"begun","batch":1}"#),
            "first message is not hello",
        ),
        (hello(PROTOCOL + 1, "two").to_json(), "of the same release"),
        (hello(PROTOCOL, "one").to_json(), "give each its own --name"),
        (hello(PROTOCOL, "<b>").to_json(), "its name is invalid"),
    ] {
        let mut agent = bench.connect().await;
        agent.say_text(&said).await;
        let Some(FromController::Refused { reason: told }) = agent.hear().await else {
            panic!("{said} is not refused")
        };
        assert!(told.contains(reason), "{said}: {told}");
        assert_eq!(agent.hear().await, None);
    }
    assert_eq!(bench.controller.state().agents.len(), 1);
}

#[tokio::test]
async fn an_agent_that_goes_mad_is_gone() {
    let bench = Bench::start().await;
    let mad = AgentReport {
        succeeded: u64::MAX,
        ..AgentReport::default()
    };
    for (said, reason) in [
        (String::from("{}"), "invalid message"),
        (hello(PROTOCOL, "mad").to_json(), "hello twice"),
        (
            FromAgent::Report(Box::new(mad)).to_json(),
            "implausible counts",
        ),
    ] {
        let mut agent = bench.agent("mad").await;
        agent.say_text(&said).await;
        bench
            .wait_for("it is gone", |controller| {
                controller.state().agents.is_empty()
            })
            .await;
        let event = serde_json::json!(bench.controller.state().events.back());
        let what = event["what"].as_str().expect("an event");
        assert!(what.contains(reason), "{said}: {what}");
    }
}

#[tokio::test]
async fn an_agent_with_calls_of_an_unknown_run_must_end_them() {
    let bench = Bench::start().await;
    let mut agent = bench.connect().await;
    agent.say_text(r#"{"type":"hello","protocol":1,"name":"one","most_phones":9,"run":7,"registered":2,"in_progress":3}"#).await;
    assert_eq!(agent.hear().await, Some(FromController::Stop));
}

#[tokio::test]
async fn a_count_that_an_agent_denies_is_a_doubt() {
    let bench = Bench::start().await;
    let mut agent = bench.agent("one").await;
    let preparing = bench.prepare(2, 5);
    let obeying = async {
        let Some(FromController::Register {
            registration,
            phones,
            ..
        }) = agent.hear().await
        else {
            panic!("no order to register")
        };
        let report = AgentReport {
            registration: Some(registration),
            registered: phones.len() as u32,
            ..AgentReport::default()
        };
        agent.say(&FromAgent::Report(Box::new(report))).await;
        agent
    };
    let ((), mut agent) = tokio::join!(preparing, obeying);
    let run = bench.run();
    let mut told = 0;
    while told < 2 {
        if let Some(FromController::Call { batch, calls }) = agent.hear().await {
            told += calls.len();
            agent.say(&FromAgent::Begun { batch }).await;
        }
    }
    let report = AgentReport {
        run: Some(run),
        commanded: 1,
        succeeded: 2,
        ..AgentReport::default()
    };
    agent.say(&FromAgent::Report(Box::new(report))).await;
    let report = bench.ended().await;
    assert!(
        report
            .doubts
            .iter()
            .any(|doubt| doubt.contains("was sent 2 calls but reports 1")),
        "{report:#?}"
    );
}

const TOKEN: &str = "5d0f3a9b7c1e2468";

/// The status of `GET path` with these header fields.
async fn status(address: SocketAddr, path: &str, headers: &str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).expect("a status");
    status.parse().expect("a number")
}

#[tokio::test]
async fn pages_of_others_are_refused_by_host_and_origin() {
    let bench = Bench::start().await;
    for (headers, expected) in [
        ("Host: localhost\r\n", 200),
        ("Host: localhost\r\nOrigin: http://localhost\r\n", 200),
        ("Host: evil.example\r\n", 421),
        ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 421),
        ("Host: localhost\r\nOrigin: http://evil.example\r\n", 403),
    ] {
        assert_eq!(
            status(bench.address, "/state", headers).await,
            expected,
            "{headers}"
        );
    }
}

#[tokio::test]
async fn with_a_token_pages_and_agents_must_show_it() {
    let bench = Bench::start_with(Some(TOKEN)).await;
    let host = "Host: localhost\r\n";
    let cookie = format!("{host}Cookie: tandem_token={TOKEN}\r\n");
    let bearer = format!("{host}Authorization: Bearer {TOKEN}\r\n");
    let query = format!("/state?token={TOKEN}");
    for (path, headers, expected) in [
        ("/state", host, 401),
        ("/agent", host, 401),
        ("/", host, 401),
        (&query, host, 303),
        ("/state", &cookie, 200),
        ("/state", &bearer, 200),
    ] {
        assert_eq!(
            status(bench.address, path, headers).await,
            expected,
            "{path} {headers}"
        );
    }
    assert!(
        connect_async(format!("ws://{}/agent", bench.address))
            .await
            .is_err()
    );
    let controller = bench.address.to_string();
    assert!(crate::agent::connect(&controller, None).await.is_err());
    assert!(
        crate::agent::connect(&controller, Some(TOKEN))
            .await
            .is_ok()
    );
}

#[test]
fn beyond_loopback_a_controller_needs_a_token() {
    let mut options = Arguments {
        listen: ([0, 0, 0, 0], 8070).into(),
        host: Vec::new(),
        token_file: None,
        scenarios: ".".into(),
        division: Division::Ranges,
        registrations_per_second: 1,
        ringing: Duration::ZERO,
        talking: Duration::ZERO,
    };
    let problem = super::guard(&options).expect_err("no token").to_string();
    assert!(problem.contains("--token-file"), "{problem}");
    options.listen = ([127, 0, 0, 1], 8070).into();
    assert!(super::guard(&options).is_ok());
}
