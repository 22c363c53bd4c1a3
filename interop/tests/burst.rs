//! Makes many calls at a steady rate, twice. No call fails, no message is sent twice, and nothing stays behind in the
//! tables or in memory.
//!
//! `INTEROP_CALLS=10000 INTEROP_RATE=500` selects the full run, with the timers of the RFC.

use interop::{Outcome, Scenario, Server, ServerOptions, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// The memory that may stay in use after the calls: buffers of the admin interface, which this test polls all the time,
/// pages of the database, and what the allocator keeps for each thread.
const KEPT: u64 = 5 << 20;
/// How much the second burst may add to that.
const MAX_GROWTH: u64 = 1 << 20;
/// The memory must be released within this time after the last transaction.
const QUIET: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

#[test]
fn a_burst_of_calls_fails_none_repeats_nothing_and_leaves_nothing_behind() {
    let full = std::env::var_os("INTEROP_CALLS").is_some();
    let (calls, rate) = (number("CALLS", 2000), number("RATE", 200));
    // Transactions live for 64 times T1 after their call.
    let t1 = if full { 500 } else { 200 };
    let lingering = Duration::from_millis(64 * t1) + Duration::from_secs(10);
    let server = Server::start(&ServerOptions::with(&format!(
        "[timers]\nt1 = \"{t1}ms\"\n"
    )));
    let mut memory = vec![resident(&server)];
    let mut most = memory[0] + KEPT;
    for _ in 0..2 {
        for outcome in burst(&server, calls, rate) {
            assert_eq!(outcome.count("SuccessfulCall(C)"), u64::from(calls));
            assert_eq!(outcome.count("FailedCall(C)"), 0);
            assert_eq!(outcome.count("Retransmissions(C)"), 0);
        }
        let gone = eventually(lingering, || transactions(&server) == 0);
        assert!(gone, "transactions are left: {}", summary(&server));
        let at_the_end = resident(&server);
        let given_back = eventually(QUIET, || {
            // Each poll makes the server work. Polling often would keep its memory in use.
            std::thread::sleep(BETWEEN_LOOKS);
            resident(&server) <= most
        });
        memory.extend([at_the_end, resident(&server)]);
        println!("resident memory at the start, and after each burst first and last: {memory:?}");
        assert!(given_back, "{memory:?}, but at most {most}");
        most = most.min(memory[memory.len() - 1] + MAX_GROWTH);
    }
    let after = summary(&server);
    println!("{after}");
    assert_eq!(after["forwarding"], 0);
    assert_eq!(after["kernel_drops"], 0);
}

/// The statistics of the callers and the callees.
fn burst(server: &Server, calls: u32, rate: u32) -> [Outcome; 2] {
    let rate_text = rate.to_string();
    let many = |name| {
        let scenario = Scenario::new(name).calls(calls).untraced();
        scenario.with(&["-buff_size", "4000000", "-l", "10000", "-r", &rate_text])
    };
    let callees = many("answer").start(server);
    server.register("bob", callees.address, "");
    let takes = Duration::from_secs(u64::from(calls / rate) + 60);
    let callers = many("call").start(server).finish_within(takes);
    let callees = callees.finish();
    server.rpc("location.remove", &json!({ "address": "bob@example.org" }));
    [callers, callees]
}

fn summary(server: &Server) -> Value {
    server.rpc("stats.summary", &json!({}))
}

fn resident(server: &Server) -> u64 {
    let bytes = &summary(server)["resident_memory_bytes"];
    bytes.as_u64().expect("a number of bytes")
}

fn transactions(server: &Server) -> u64 {
    let live = &summary(server)["transactions"];
    let of = |kind| live[kind].as_u64().expect("a count");
    of("server") + of("client")
}

fn number(name: &str, default: u32) -> u32 {
    let value = std::env::var(format!("INTEROP_{name}"));
    value.map_or(default, |value| value.parse().expect("a number"))
}
