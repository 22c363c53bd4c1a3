//! A group of gateways during 200 calls per second: its members die, return, and are disabled, enabled, added, removed and reordered. No call
//! fails, and the server counts what the gateways count.
//!
//! `INTEROP_SECONDS` makes the run longer: its events repeat.

use interop::{Child, Gateways, Server, ServerOptions, lab_command, wait_until};
use serde_json::{Value, json};
use sip_transport::Protocol;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const RATE: u64 = 200;
const PHONES: usize = 400;
/// Seconds of calls, and the part of them that the events of one round may take.
const SECONDS: u64 = 30;
const ROUND: Duration = Duration::from_secs(25);
/// Calls that show that a gateway gets calls, or that the others do.
const SOME: u64 = 20;

/// The names of the gateways 1 to 4.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A group of these members, and the gateways of these names.
fn sections(gateways: &Gateways, members: &[&str], declared: &[&str]) -> String {
    let mut sections = "[call_limits]\nmax_calls = 5000\nsubscriber_max_calls = 20\n\
        [[limit]]\nname = \"customers\"\nnetworks = [\"127.0.0.0/8\"]\nmax_calls = 5000\n\
        [[rule]]\nname = \"out\"\nuser = [\"49*\"]\naction = \"group\"\ngroup = \"carriers\"\nauthenticate = \"digest\"\n"
        .to_owned();
    for name in declared {
        let number = NAMES.iter().position(|it| it == name).expect("a gateway") + 1;
        let _ = write!(
            sections,
            "[[gateway]]\nname = \"{name}\"\ndestination = \"sip:{};transport=udp\"\nmax_calls = 2000\n\
             probe_interval = \"1s\"\nprobe_timeout = \"1s\"\nmisses = 3\nanswers = 2\n",
            gateways.address(number)
        );
    }
    let _ = writeln!(
        sections,
        "[[group]]\nname = \"carriers\"\nmembers = {members:?}"
    );
    sections
}

/// The server and its gateways.
struct Course {
    server: Server,
    gateways: Gateways,
    options: ServerOptions,
}

impl Course {
    fn start() -> Self {
        let gateways = Gateways::start(NAMES.len());
        let options = ServerOptions {
            users: (0..PHONES).map(|number| format!("49{number:05}")).collect(),
            ..ServerOptions::with(&sections(&gateways, &["a", "b", "c"], &["a", "b", "c"]))
        };
        Self {
            server: Server::start(&options),
            gateways,
            options,
        }
    }

    fn gateway(&self, name: &str) -> Value {
        self.server.rpc("gateways.get", &json!({ "name": name }))
    }

    fn wait_for_state(&self, name: &str, state: &str) {
        wait_until(&format!("{name} is {state}"), || {
            self.gateway(name)["state"] == state
        });
    }

    /// Waits until some more calls have reached a gateway.
    fn wait_for_calls(&mut self, number: usize) {
        let before = self.gateways.count(number, "calls");
        wait_until(&format!("calls reach gateway {number}"), || {
            self.gateways.count(number, "calls") >= before + SOME
        });
    }

    fn reload(&mut self, members: &[&str], declared: &[&str]) {
        self.options.sections = sections(&self.gateways, members, declared);
        self.server.configure(&self.options);
        self.server.rpc("config.reload", &json!({}));
    }

    /// A gateway dies and returns.
    fn let_die(&mut self, number: usize, how: &str) {
        self.gateways.behave(number, how);
        self.wait_for_state(NAMES[number - 1], "inactive");
        self.wait_for_calls(1);
        self.gateways.behave(number, "answering");
        self.wait_for_state(NAMES[number - 1], "active");
        self.wait_for_calls(number);
    }

    /// An operator takes a gateway out and back in. Meanwhile it gets no call, and those that it has go on.
    fn disable_and_enable(&mut self, number: usize) {
        let name = json!({ "name": NAMES[number - 1] });
        self.server.rpc("gateways.disable", &name);
        self.wait_until_empty(number);
        let before = self.gateways.count(number, "calls");
        self.wait_for_calls(2);
        assert_eq!(self.gateways.count(number, "calls"), before);
        self.server.rpc("gateways.enable", &name);
        self.wait_for_calls(number);
    }

    /// Waits until a gateway has no calls, for the server and for itself.
    fn wait_until_empty(&mut self, number: usize) {
        let name = NAMES[number - 1];
        wait_until(&format!("{name} has no calls"), || {
            self.gateway(name)["live_calls"] == 0 && self.gateways.count(number, "live") == 0
        });
    }

    /// Reloads add a member, reorder all, remove one of them and take it back, and remove the new one.
    fn reconfigure(&mut self) {
        let before = self.gateways.count(4, "answered");
        self.reload(&["d", "c", "b", "a"], &["c", "a", "d", "b"]);
        self.wait_for_calls(4);
        self.reload(&["c", "d", "a"], &["d", "c", "b", "a"]);
        self.wait_until_empty(2);
        self.wait_for_calls(4);
        self.reload(&["a", "b", "c"], &["d", "b", "a", "c"]);
        self.wait_for_calls(2);
        self.wait_until_empty(4);
        self.check_counts(4, before);
        self.reload(&["a", "b", "c"], &["a", "b", "c"]);
        self.wait_for_calls(3);
    }

    /// A gateway is away for a moment, several times.
    fn flap(&mut self, number: usize) {
        for _ in 0..5 {
            self.gateways.behave(number, "silent");
            let before = self.gateways.count(number, "ignored");
            wait_until("requests are ignored", || {
                self.gateways.count(number, "ignored") >= before + SOME
            });
            self.gateways.behave(number, "answering");
            self.wait_for_calls(number);
        }
    }

    /// The server counts the same calls as a gateway, since the gateway had answered `before`.
    fn check_counts(&mut self, number: usize, before: u64) {
        let counted = self.gateway(NAMES[number - 1]);
        let of = |name: &str| counted[name].as_u64().expect("a number");
        assert_eq!(
            of("answered"),
            self.gateways.count(number, "answered") - before,
            "{counted}"
        );
        let failed = counted["failed"].as_object().expect("counts").values();
        let failed: u64 = failed.filter_map(Value::as_u64).sum();
        let outcomes = ["answered", "timeouts", "transport_errors", "abandoned"].map(of);
        let ended = outcomes.iter().sum::<u64>() + failed;
        assert_eq!(of("tried"), ended, "{counted}");
        assert_eq!((of("live_calls"), failed), (0, 0), "{counted}");
    }

    /// Starts the calls.
    fn calls(&self, seconds: u64) -> Child {
        let (rate, duration) = (RATE.to_string(), format!("{seconds}s"));
        let pace = ["call", "--rate", &rate, "--duration", &duration];
        let phones = PHONES.to_string();
        let who = [
            "--phones",
            &phones,
            "--user",
            "49{:05}",
            "--password",
            "49{:05}-secret",
            "--registered",
        ];
        let how = ["--talking", "1s", "--ports", "4", "--quiet"];
        let words = [&pace[..], &who, &how].concat();
        let mut command = lab_command(&self.server, Protocol::Udp, &words);
        Child::start(&mut command, &self.server.path("lab.log"))
    }

    fn live(&self, metric: &str) -> u64 {
        self.server.count(metric, "")
    }
}

#[test]
fn no_call_fails_while_members_of_a_group_die_return_and_are_reloaded() {
    let seconds = std::env::var("INTEROP_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("INTEROP_SECONDS"));
    let mut course = Course::start();
    let mut calls = course.calls(seconds);
    for number in 1..=3 {
        course.wait_for_calls(number);
    }
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || begun.elapsed() + ROUND < Duration::from_secs(seconds) {
        course.let_die(2, "silent");
        course.let_die(3, "closed");
        course.disable_and_enable(1);
        course.reconfigure();
        course.flap(2);
        rounds += 1;
        println!("{rounds}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    assert!(
        calls.ended().is_none(),
        "the calls ended before the events:\n{}",
        calls.output()
    );
    let patience = Duration::from_secs(seconds + 90);
    assert!(calls.wait_at_most(patience).is_some(), "{}", calls.output());
    println!("{}", calls.output());

    let report = std::fs::read_to_string(course.server.path("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let made = &report["units"]["calls"];
    assert_eq!(made["attempted"], seconds * RATE, "{report:#}");
    assert_eq!(made["succeeded"], made["attempted"], "{report:#}");
    assert_eq!(report["unfinished"], 0, "{report:#}");

    wait_until("no call is left", || {
        course.live("tandem_dialogs") == 0 && course.live("tandem_response_contexts") == 0
    });
    let left = ["tandem_gateway_calls", "tandem_limit_calls"].map(|it| course.live(it));
    assert_eq!(left, [0, 0]);
    for number in 1..=3 {
        course.check_counts(number, 0);
    }
    let counts = course.gateways.counts();
    let sum = |name: &str| -> u64 { counts.iter().filter_map(|it| it[name].as_u64()).sum() };
    assert_eq!(sum("answered"), seconds * RATE, "{counts:?}");
    assert_eq!(sum("ended"), seconds * RATE, "{counts:?}");
    assert_eq!(
        (sum("unacknowledged"), sum("unknown")),
        (0, 0),
        "{counts:?}"
    );
}
