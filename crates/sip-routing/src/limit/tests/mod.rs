//! How limits work together.

mod admission;
mod descriptions;
mod model;
mod reload;
mod tables;
mod threads;

use super::*;
use sip_transport::Time;

const START: u64 = 1_800_000_000_000_000;

fn at(micros: u64) -> Time {
    Time::from_micros(START + micros)
}

fn limits(description: &Description) -> Limits {
    Limits::new(description, None).expect("a description")
}

fn from(source: &str) -> Call<'static> {
    Call {
        source: source.parse().expect("an address"),
        subscriber: None,
        rule: None,
    }
}

fn rate(calls_per_second: f64, burst: u32) -> Declared {
    Declared {
        calls_per_second: Some(calls_per_second),
        burst: Some(burst),
        max_calls: None,
    }
}

fn max_calls(max_calls: u32) -> Declared {
    Declared {
        max_calls: Some(max_calls),
        ..Declared::default()
    }
}

fn each(bounds: Declared, max_keys: usize) -> DeclaredEach {
    DeclaredEach { bounds, max_keys }
}

fn network(name: &str, networks: &[&str], bounds: Declared) -> NetworkLimit {
    let parse = |text: &&str| text.parse().expect("a network");
    NetworkLimit {
        name: name.to_owned(),
        networks: networks.iter().map(parse).collect(),
        bounds,
    }
}

fn named(name: &str, bounds: Declared) -> NamedLimit {
    NamedLimit {
        name: name.to_owned(),
        bounds,
    }
}

/// Which limit refused the call, and why.
fn refused<'l>(limits: &'l Limits, call: &Call<'l>, micros: u64) -> (&'l str, Excess) {
    let refused = limits.admit(call, at(micros)).expect_err("a refusal");
    (refused.limit, refused.excess)
}

fn source(number: u32) -> Call<'static> {
    Call {
        source: std::net::Ipv4Addr::from_bits(0x0a00_0000 | number).into(),
        subscriber: None,
        rule: None,
    }
}

/// How many sources and subscribers have counts of their own.
fn keys(limits: &Limits) -> usize {
    limits.each_stats().map(|stats| stats.keys).sum()
}
