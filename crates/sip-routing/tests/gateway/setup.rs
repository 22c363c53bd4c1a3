//! Gateways for tests.

use sip_routing::gateway::{
    Admission, Algorithm, Choice, Descriptions, Gateway, GatewayDescription, Gateways, Group,
    GroupDescription, NoRates, Outcome, Skip, TriedSet,
};
use sip_transport::Time;
use sip_transport::selection::Destination;
use std::sync::Arc;

pub const START: Time = Time::from_unix_seconds(1_800_000_000);

pub fn destination(host: &str) -> Destination {
    Destination {
        host: host.into(),
        port: Some(5060),
        protocol: None,
        secure: false,
    }
}

/// A gateway whose host is its name.
pub fn description(name: &str) -> GatewayDescription {
    GatewayDescription::new(name, destination(name))
}

/// Gateways with the default rules, and the group `all` with all of them.
pub fn descriptions(names: &[&str]) -> Descriptions {
    let group = GroupDescription::new("all");
    Descriptions {
        gateways: names.iter().map(|name| description(name)).collect(),
        groups: vec![names.iter().fold(group, |group, name| group.member(name))],
    }
}

/// The group `all` of these gateways with weights.
pub fn weighted(algorithm: Algorithm, members: &[(&str, u16)]) -> Descriptions {
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    let mut all = descriptions(&names);
    all.groups[0].algorithm = algorithm;
    for (member, (_, weight)) in all.groups[0].members.iter_mut().zip(members) {
        member.weight = *weight;
    }
    all
}

pub fn build(descriptions: Descriptions) -> Gateways {
    Gateways::new(descriptions, None).expect("good descriptions")
}

pub fn all(gateways: &Gateways) -> &Group {
    gateways.group("all").expect("the group")
}

pub fn gateway<'g>(gateways: &'g Gateways, name: &str) -> &'g Arc<Gateway> {
    gateways.gateway(name).expect(name)
}

/// Chooses without rates and without having tried any member.
pub fn choose(group: &Group, call: u64) -> Option<Choice<'_>> {
    group.choose(call, TriedSet::default(), START, &mut NoRates)
}

/// The name that a call chooses. Its place is free again.
pub fn chosen(group: &Group, call: u64) -> &str {
    choose(group, call).expect("a member").gateway.name()
}

/// The names that a call tries one after the other while all fail.
pub fn order(group: &Group, call: u64, now: Time) -> Vec<(&str, bool)> {
    let (mut tried, mut names) = (TriedSet::default(), Vec::new());
    while let Some(choice) = group.choose(call, tried, now, &mut NoRates) {
        assert!(!tried.contains(choice.member), "no member twice");
        tried.insert(choice.member);
        names.push((choice.gateway.name(), choice.last_resort));
    }
    names
}

/// Takes a gateway out with probes.
pub fn make_inactive(gateway: &Gateway, now: Time) {
    for _ in 0..gateway.description().health.misses {
        gateway.probed(Outcome::Timeout, now);
    }
}

/// Admits no call to the gateways of these names, and remembers who was skipped.
#[derive(Default)]
pub struct Watch {
    pub refused: Vec<&'static str>,
    pub skipped: Vec<(String, Skip)>,
}

impl Admission for Watch {
    fn admits(&mut self, gateway: &Gateway, _now: Time) -> bool {
        !self.refused.contains(&gateway.name())
    }

    fn skipped(&mut self, gateway: &Gateway, why: Skip) {
        self.skipped.push((gateway.name().to_owned(), why));
    }
}
