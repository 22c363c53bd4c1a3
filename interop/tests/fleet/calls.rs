//! Calls through a fleet, by the load generator and by sipp, and what became of them.

use crate::members::{Fleet, PHONES};
use interop::{Child, Scenario, Server, Sipp};
use serde_json::Value;
use sip_transport::Protocol;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a phone rings.
const RINGING: Duration = Duration::from_millis(500);
/// How long the parties talk.
pub const TALKING: Duration = Duration::from_secs(3);
/// How long calls and retransmissions may go on after the last call has begun.
const FINAL: Duration = Duration::from_secs(60);

/// A running load generator.
pub struct Calls {
    child: Child,
    report: PathBuf,
    at_most: Duration,
}

/// What became of calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub attempted: u64,
    pub failed: u64,
    pub invites_retransmitted: u64,
    pub answers_retransmitted: u64,
    /// BYE and REGISTER.
    pub other_retransmitted: u64,
    /// From the 2xx of the callee to the caller, in microseconds: the median, the 99th percentile and the longest of any generator.
    pub answer: [u64; 3],
}

impl Calls {
    /// Starts calls over a transport among the phones of an edge, at this rate for each second, and lets them end by themselves.
    pub fn start(
        fleet: &Fleet,
        edge: usize,
        transport: &str,
        rate: u32,
        duration: Duration,
    ) -> Self {
        let protocol = Protocol::from_token(transport.as_bytes()).expect("a transport");
        let server = fleet.edges[edge].address_of(protocol);
        let domain = fleet.nodes[0].domain();
        let folder = fleet.path("");
        Self::start_at(&folder, (edge, server), transport, domain, rate, duration)
    }

    /// Like [`Calls::start`], through an edge of another kind, by its place and address.
    pub fn start_at(
        folder: &Path,
        (edge, server): (usize, SocketAddr),
        transport: &str,
        domain: &str,
        rate: u32,
        duration: Duration,
    ) -> Self {
        let report = folder.join(format!("calls{edge}.json"));
        let mut command = Command::new(Server::binary());
        command.args(["lab", "run", "call", "--quiet", "--ignore-icmp"]);
        command.args(["--transport", transport, "--server", &server.to_string()]);
        command.args(["--domain", domain]);
        command.args(["--password", "user{}-secret", "--nonces", "fresh"]);
        command.args(["--phones", &PHONES.to_string()]);
        command.args(["--first", &(edge as u32 * PHONES).to_string()]);
        command.args(["--rate", &rate.to_string()]);
        command.args(["--duration", &format!("{}s", duration.as_secs())]);
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        command.args(["--ringing", &millis(RINGING)]);
        command.args(["--talking", &millis(TALKING)]);
        command.arg("--json").arg(&report);
        Self {
            child: Child::start(&mut command, &folder.join(format!("calls{edge}.log"))),
            report,
            at_most: duration + FINAL,
        }
    }

    /// Waits until all calls are over.
    pub fn finish(mut self) -> Tally {
        let status = self.child.wait_at_most(self.at_most);
        let output = self.child.output();
        println!("{output}");
        assert!(status.is_some(), "the calls do not end:\n{output}");
        let report = std::fs::read_to_string(&self.report).expect("a report");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let of = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report}"));
        let calls = &report["units"]["calls"];
        let [attempted, succeeded, skipped] =
            ["attempted", "succeeded", "skipped"].map(|name| of(&calls[name]));
        let [sent, invites, answers] = [
            "retransmissions_sent",
            "invites_retransmitted",
            "answers_retransmitted",
        ]
        .map(|name| of(&report[name]));
        let answer = &report["delays"]["answer_to_caller"];
        Tally {
            attempted,
            failed: attempted - succeeded + skipped,
            invites_retransmitted: invites,
            answers_retransmitted: answers,
            other_retransmitted: sent - invites - answers,
            answer: ["p50", "p99", "max"].map(|name| of(&answer[name])),
        }
    }
}

impl Tally {
    /// The tally of both.
    pub fn and(self, other: Self) -> Self {
        let [mine, others] = [self.answer, other.answer];
        Self {
            attempted: self.attempted + other.attempted,
            failed: self.failed + other.failed,
            invites_retransmitted: self.invites_retransmitted + other.invites_retransmitted,
            answers_retransmitted: self.answers_retransmitted + other.answers_retransmitted,
            other_retransmitted: self.other_retransmitted + other.other_retransmitted,
            answer: [0, 1, 2].map(|place| mine[place].max(others[place])),
        }
    }
}

/// Calls of alice to bob by sipp.
pub struct SippCalls {
    alice: Sipp,
    bob: Sipp,
    count: u32,
    at_most: Duration,
}

impl SippCalls {
    /// Starts calls through an edge, at this rate for each second.
    pub fn start(fleet: &Fleet, edge: usize, rate: u32, duration: Duration) -> Self {
        let count = rate * u32::try_from(duration.as_secs()).expect("short");
        let of = |name: &str| {
            let scenario = Scenario::new(name).at(fleet.edges[edge].address());
            scenario.calls(count).untraced()
        };
        let node = &fleet.nodes[0];
        let bob = of("answer").start(node);
        register(fleet, edge, "bob", &bob);
        let talking = TALKING.as_millis().to_string();
        let alice = of("call").with(&["-r", &rate.to_string(), "-d", &talking]);
        Self {
            alice: alice.start(node),
            bob,
            count,
            at_most: duration + FINAL,
        }
    }

    /// Waits until all calls are over. Returns their number. Panics if one did not follow the scenario of either party.
    pub fn finish(self) -> u64 {
        self.alice.finish_within(self.at_most);
        self.bob.finish_within(FINAL);
        self.count.into()
    }
}

/// Registers a sipp through an edge.
pub fn register(fleet: &Fleet, edge: usize, user: &str, phone: &Sipp) {
    let contact = format!("<sip:{user}@{}>", phone.address);
    let registration = Scenario::new("register").from(user);
    let registration = registration.key("contact", &contact);
    let registration = registration.at(fleet.edges[edge].address());
    registration.run(&fleet.nodes[0]);
}
