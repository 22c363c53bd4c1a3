//! Choices of a gateway for new calls: one call after the other, the place given back at once.

use divan::{Bencher, black_box};
use sip_routing::gateway::{
    Algorithm, Descriptions, GatewayDescription, Gateways, GroupDescription, NoRates, Outcome,
    TriedSet,
};
use sip_transport::Time;
use sip_transport::selection::Destination;

const NOW: Time = Time::from_unix_seconds(1_800_000_000);
const MEMBERS: [usize; 3] = [3, 16, 64];

fn main() {
    divan::main();
}

fn gateways(members: usize, algorithm: Algorithm, weight: fn(usize) -> u16) -> Gateways {
    let mut all = Descriptions::default();
    let mut group = GroupDescription::new("group");
    group.algorithm = algorithm;
    for number in 0..members {
        let name = format!("gw{number}.example.net");
        let destination = Destination {
            host: name.as_str().into(),
            port: None,
            protocol: None,
            secure: false,
        };
        let mut gateway = GatewayDescription::new(&name, destination);
        gateway.max_calls = Some(1_000);
        all.gateways.push(gateway);
        group = group.member(&name);
        group.members[number].weight = weight(number);
    }
    all.groups.push(group);
    let gateways = Gateways::new(all, None).expect("good descriptions");
    for gateway in gateways.gateways() {
        gateway.probed(Outcome::status(200), NOW);
    }
    gateways
}

fn choose(bencher: Bencher<'_, '_>, gateways: &Gateways) {
    let group = gateways.group("group").expect("the group");
    let mut call = 0_u64;
    bencher.bench_local(|| {
        call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let none = TriedSet::default();
        let choice = group.choose(black_box(call), none, NOW, &mut NoRates);
        choice.map(|it| it.member)
    });
}

#[divan::bench(args = MEMBERS)]
fn rendezvous(bencher: Bencher<'_, '_>, members: usize) {
    choose(bencher, &gateways(members, Algorithm::Rendezvous, |_| 1));
}

#[divan::bench(args = MEMBERS)]
fn rendezvous_weighted(bencher: Bencher<'_, '_>, members: usize) {
    let gateways = gateways(members, Algorithm::Rendezvous, |number| {
        1 + number as u16 % 4
    });
    choose(bencher, &gateways);
}

#[divan::bench(args = MEMBERS)]
fn round_robin(bencher: Bencher<'_, '_>, members: usize) {
    choose(bencher, &gateways(members, Algorithm::RoundRobin, |_| 1));
}

#[divan::bench(args = MEMBERS)]
fn round_robin_weighted(bencher: Bencher<'_, '_>, members: usize) {
    let gateways = gateways(members, Algorithm::RoundRobin, |number| {
        1 + number as u16 % 4
    });
    choose(bencher, &gateways);
}

#[divan::bench(args = MEMBERS)]
fn random(bencher: Bencher<'_, '_>, members: usize) {
    choose(bencher, &gateways(members, Algorithm::Random, |_| 1));
}

#[divan::bench(args = MEMBERS)]
fn least_calls(bencher: Bencher<'_, '_>, members: usize) {
    choose(bencher, &gateways(members, Algorithm::LeastCalls, |_| 1));
}

/// All but the last member are inactive.
#[divan::bench(args = MEMBERS)]
fn rendezvous_with_one_active(bencher: Bencher<'_, '_>, members: usize) {
    let gateways = gateways(members, Algorithm::Rendezvous, |_| 1);
    for gateway in &gateways.gateways()[..members - 1] {
        for _ in 0..5 {
            gateway.probed(Outcome::Timeout, NOW);
        }
    }
    choose(bencher, &gateways);
}

/// What the owner of probes pays for each look at 1,000 gateways.
#[divan::bench]
fn due_probes_of_1000(bencher: Bencher<'_, '_>) {
    let mut all = Descriptions::default();
    for number in 0..1_000 {
        let name = format!("gw{number}.example.net");
        let destination = Destination {
            host: name.as_str().into(),
            port: None,
            protocol: None,
            secure: false,
        };
        all.gateways
            .push(GatewayDescription::new(&name, destination));
    }
    let gateways = Gateways::new(all, None).expect("good descriptions");
    bencher.bench_local(|| gateways.due_probes(black_box(NOW), |_| ()));
}
