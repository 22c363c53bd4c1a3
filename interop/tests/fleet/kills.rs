//! A fleet loses processes while calls are made through it, and no call.
//!
//! `FLEET_SECONDS`, `FLEET_RATE` and `FLEET_INTERVAL` make the run over UDP longer and denser, and `FLEET_MACHINES` gives each process a network namespace: `make resilience`.

use crate::calls::{Calls, SippCalls, Tally};
use crate::members::{EDGES, Fleet, Member, Members, is_on_machines};
use crate::records::Records;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of nodes.
const NODES: usize = 3;
/// How long a killed process stays away.
const AWAY: Duration = Duration::from_secs(1);
/// A node has not written the dialogs of the last 20 ms and the records of the last 50 ms when it is killed. With the time that a write and
/// the kill take, that is this part of a second.
const UNWRITTEN: u64 = 5;

/// A plan: how long, how many calls per second, and how long from one kill to the next.
pub struct Plan {
    pub duration: Duration,
    pub rate: u32,
    interval: Duration,
    /// Killed in turn.
    pub members: Vec<Member>,
}

impl Plan {
    /// Calls over UDP, for so many seconds unless the environment says otherwise.
    pub fn over_udp(seconds: u32) -> Self {
        let seconds = from_environment("FLEET_SECONDS", seconds);
        let interval = from_environment("FLEET_INTERVAL", 4);
        // After a failure, records are written again within 5 s: the node that has them is killed later.
        Self {
            duration: Duration::from_secs(seconds.into()),
            rate: from_environment("FLEET_RATE", 20),
            interval: Duration::from_secs(interval.into()),
            members: vec![
                Member::Node(0),
                Member::Edge(0),
                Member::Redis,
                Member::Postgres,
                Member::Controller,
                silent(1),
                Member::Edge(1),
                Member::Redis,
                Member::Postgres,
                Member::Controller,
                Member::Node(2),
                Member::Edge(0),
                Member::Redis,
                Member::Postgres,
                Member::Controller,
            ],
        }
    }
}

/// What was killed, and what it took with it.
#[derive(Debug, Default)]
pub struct Killed {
    pub members: Vec<Member>,
    /// How many calls at most may have no record, or a dialog that ends only with its session.
    unwritten: u64,
}

/// A node whose machine falls silent with it, if it has one.
fn silent(place: usize) -> Member {
    if is_on_machines() {
        Member::Machine(place)
    } else {
        Member::Node(place)
    }
}

fn from_environment(name: &str, default: u32) -> u32 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Kills one process after the other while calls are made.
pub fn kill_in_turn(fleet: &mut impl Members, plan: &Plan) -> Killed {
    let began = Instant::now();
    let mut killed = Killed::default();
    for (member, number) in plan.members.iter().copied().cycle().zip(1_u32..) {
        let next = (plan.interval * number).saturating_sub(AWAY);
        // The last one has to return while calls are made.
        if next + AWAY * 2 > plan.duration {
            break;
        }
        sleep(next.saturating_sub(began.elapsed()));
        if let Member::Node(place) | Member::Machine(place) = member {
            killed.unwritten +=
                fleet.being_set_up(place) + u64::from(plan.rate).div_ceil(UNWRITTEN);
        }
        fleet.kill(member);
        sleep(AWAY);
        fleet.restart(member);
        killed.members.push(member);
    }
    killed
}

/// Checks that no call failed, that all have one record but those that were being set up at a killed node, and that no dialog is left.
fn check(fleet: &Fleet, killed: &Killed, tally: Tally, sipp: u64) {
    println!("killed: {:?}", killed.members);
    println!("{tally:?}");
    for edge in &fleet.edges {
        println!("{}", edge.http("/v1/nodes").1);
    }
    assert_eq!(tally.failed, 0);
    let calls = tally.attempted + sipp;
    let records = Records::of(fleet, calls);
    let missing = i64::try_from(calls).expect("few") - records.written;
    let left: u64 = (0..fleet.nodes.len())
        .map(|place| fleet.dialogs(place, ""))
        .sum();
    println!(
        "{records:?}, missing {missing} and left {left} of at most {}",
        killed.unwritten
    );
    assert_eq!(records.written, records.calls, "a call has two records");
    assert_eq!(records.written, records.hung_up);
    let unwritten = i64::try_from(killed.unwritten).expect("few");
    assert!((0..=unwritten).contains(&missing), "{missing}");
    assert!(left <= killed.unwritten, "{left}");
}

#[test]
fn no_call_is_lost_while_one_process_after_the_other_is_killed() {
    let plan = Plan::over_udp(34);
    let mut fleet = Fleet::start(NODES);
    let calls = [0, 1].map(|edge| {
        let rate = plan.rate / EDGES as u32;
        Calls::start(&fleet, edge, "udp", rate, plan.duration)
    });
    let sipp = SippCalls::start(&fleet, 1, 2, plan.duration);
    let killed = kill_in_turn(&mut fleet, &plan);
    assert!(killed.members.len() >= 7, "{killed:?}");
    let tally = calls.map(Calls::finish).into_iter();
    let tally = tally.fold(Tally::default(), Tally::and);
    check(&fleet, &killed, tally, sipp.finish());
}

/// The connections of an edge that is killed end with it, so the edges stay.
#[test]
fn no_call_over_connections_is_lost_while_nodes_and_stores_are_killed() {
    let plan = Plan {
        duration: Duration::from_secs(22),
        rate: 20,
        interval: Duration::from_secs(4),
        members: vec![
            Member::Node(0),
            Member::Redis,
            Member::Node(1),
            Member::Controller,
            Member::Node(2),
            Member::Postgres,
        ],
    };
    let mut fleet = Fleet::start(NODES);
    let transports = ["tls", "tcp"].into_iter().enumerate();
    let calls: Vec<Calls> = transports
        .map(|(edge, transport)| {
            let rate = plan.rate / EDGES as u32;
            Calls::start(&fleet, edge, transport, rate, plan.duration)
        })
        .collect();
    let killed = kill_in_turn(&mut fleet, &plan);
    assert!(killed.members.len() >= 4, "{killed:?}");
    let tally = calls.into_iter().map(Calls::finish);
    let tally = tally.fold(Tally::default(), Tally::and);
    check(&fleet, &killed, tally, 0);
}
