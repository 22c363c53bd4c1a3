//! When gateways are probed.

use crate::setup::{START, build, description, descriptions, gateway};
use sip_routing::gateway::{Descriptions, Gateways};
use sip_transport::Time;
use std::collections::HashMap;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(30);

/// The probes until `end`, each with its time. The owner sleeps from one deadline to the next.
fn probes(gateways: &Gateways, begin: Time, end: Time) -> Vec<(Time, String)> {
    let (mut now, mut seen) = (begin, Vec::new());
    while now < end {
        let next = gateways.due_probes(now, |it| seen.push((now, it.name().to_owned())));
        let Some(next) = next else { break };
        assert!(next > now, "no busy loop");
        now = next;
    }
    seen
}

fn thousand() -> Gateways {
    let names = (0..1_000).map(|number| format!("gw{number}"));
    build(Descriptions {
        gateways: names.map(|name| description(&name)).collect(),
        groups: Vec::new(),
    })
}

#[test]
fn a_thousand_gateways_are_probed_once_in_each_interval_and_not_at_once() {
    let gateways = thousand();
    let seen = probes(&gateways, START, START + INTERVAL * 4);
    let mut by_second: HashMap<u64, u32> = HashMap::new();
    let mut by_name: HashMap<&str, Vec<Time>> = HashMap::new();
    for (at, name) in &seen {
        *by_second.entry(at.unix_seconds()).or_default() += 1;
        by_name.entry(name).or_default().push(*at);
    }
    assert_eq!(by_name.len(), 1_000);
    for (name, times) in by_name {
        assert!(times[0] <= START + INTERVAL, "{name}");
        assert!(times.len() >= 3, "{name}");
        assert!(
            times.windows(2).all(|it| it[1] - it[0] == INTERVAL),
            "{name}"
        );
    }
    // 33 in a second on average; six standard deviations are 34.
    let most = by_second.values().max().expect("probes");
    assert!(*most <= 67, "{most} in one second");
    let sent = gateways
        .gateways()
        .iter()
        .map(|it| it.view(START).statistics.probes_sent);
    assert_eq!(sent.sum::<u64>() as usize, seen.len());
}

#[test]
fn probes_that_were_missed_are_not_made_up_for() {
    let gateways = build(descriptions(&["gw"]));
    let first = gateways
        .due_probes(START, |_| panic!("not at once"))
        .expect("a deadline");
    let late = first + INTERVAL * 10 + Duration::from_secs(7);
    let mut sent = 0;
    let next = gateways.due_probes(late, |_| sent += 1);
    assert_eq!((sent, next), (1, Some(first + INTERVAL * 11)));
    assert_eq!(gateway(&gateways, "gw").next_probe(), next);
    let same = gateways.due_probes(late, |_| panic!("twice"));
    assert_eq!(same, next);
}

#[test]
fn gateways_that_are_disabled_or_not_to_be_probed_are_not() {
    let mut all = descriptions(&["off", "unprobed"]);
    all.gateways[1].health.probe = false;
    let gateways = build(all);
    let off = gateway(&gateways, "off");
    off.disable(START);
    assert_eq!(gateways.due_probes(START, |_| panic!("one")), None);
    assert_eq!(gateway(&gateways, "unprobed").next_probe(), None);
    // Put back, it is probed at once.
    let now = START + INTERVAL;
    off.enable(now);
    let mut sent = 0;
    assert_eq!(
        gateways.due_probes(now, |_| sent += 1),
        Some(now + INTERVAL)
    );
    assert_eq!(sent, 1);
}

#[test]
fn a_reload_keeps_the_moments_and_a_shorter_interval_holds_at_once() {
    let names = ["a", "b", "c", "d", "e"];
    let before = build(descriptions(&names));
    before.due_probes(START, |_| panic!("not at once"));
    let same = Gateways::new(descriptions(&names), Some(&before)).expect("good");
    let moments = |gateways: &Gateways| {
        let all = gateways.gateways().iter();
        all.map(|it| it.next_probe()).collect::<Vec<_>>()
    };
    assert_eq!(moments(&same), moments(&before));
    let mut shorter = descriptions(&names);
    for gateway in &mut shorter.gateways {
        gateway.health.interval = Duration::from_secs(1);
        gateway.health.timeout = Duration::from_secs(1);
    }
    let shorter = Gateways::new(shorter, Some(&same)).expect("good");
    let end = START + Duration::from_secs(1);
    shorter.due_probes(START, |_| panic!("not at once"));
    assert!(moments(&shorter).into_iter().flatten().all(|it| it <= end));
}
