//! A fleet loses processes while calls are made through it, and no call.
//!
//! `FLEET_SECONDS` and `FLEET_RATE` make the run longer and denser: `make resilience`.

mod harness;
#[path = "../../../crates/tandem-store/tests/servers/postgres.rs"]
mod postgres;
#[path = "../../../crates/tandem-store/tests/servers/process.rs"]
mod process;

use harness::{EDGES, Fleet, Member, NODES};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a killed process stays away.
const AWAY: Duration = Duration::from_secs(1);

fn from_environment(name: &str, default: u32) -> u32 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Makes calls over a transport through all edges, kills one process after the other meanwhile, and expects every call to succeed.
fn survive(transport: &str, seconds: u32, kinds: &[Member]) {
    let rate = from_environment("FLEET_RATE", 20);
    let interval = Duration::from_secs(from_environment("FLEET_INTERVAL", 4).into());
    let duration = Duration::from_secs(from_environment("FLEET_SECONDS", seconds).into());
    let mut fleet = Fleet::start();
    let calls: Vec<_> = (0..EDGES)
        .map(|edge| fleet.calls(edge, transport, rate / EDGES as u32, duration))
        .collect();
    let end = Instant::now() + duration;
    let mut killed = Vec::new();
    for member in kinds.iter().copied().cycle() {
        sleep(interval.saturating_sub(AWAY));
        if Instant::now() + AWAY > end {
            break;
        }
        fleet.kill(member);
        sleep(AWAY);
        fleet.restart(member);
        killed.push(member);
    }
    let mut failures = 0;
    for calls in calls {
        let (report, output) = calls.finish(duration + Duration::from_secs(60));
        println!("{output}");
        let calls = &report["units"]["calls"];
        let of = |count: &Value| count.as_u64().unwrap_or_else(|| panic!("{report}"));
        let missed = of(&calls["attempted"]) - of(&calls["succeeded"]);
        failures += missed + of(&calls["skipped"]);
    }
    println!("killed: {killed:?}");
    for edge in &fleet.edges {
        println!("{}", edge.http("/v1/nodes").1);
    }
    assert!(killed.len() >= NODES, "{killed:?}");
    assert_eq!(failures, 0);
}

#[test]
fn no_call_is_lost_while_one_process_after_the_other_is_killed() {
    let kinds = [
        Member::Node(0),
        Member::Redis,
        Member::Node(1),
        Member::Edge(0),
        Member::Postgres,
        Member::Node(2),
        Member::Edge(1),
    ];
    survive("udp", 30, &kinds);
}

/// The connections of an edge that is killed end with it, so the edges stay.
#[test]
fn no_call_over_connections_is_lost_while_nodes_and_stores_are_killed() {
    let kinds = [
        Member::Node(0),
        Member::Node(1),
        Member::Redis,
        Member::Node(2),
        Member::Postgres,
    ];
    survive("tls", 20, &kinds);
}
