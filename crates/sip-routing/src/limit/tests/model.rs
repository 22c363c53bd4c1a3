//! Random calls, against a model that keeps its counts in plain maps and its credit in whole nanoseconds.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// A limit of the model.
#[derive(Clone, Copy)]
struct Bound {
    interval: u32,
    burst: u32,
    max_calls: u32,
}

impl Bound {
    fn depth(self) -> u64 {
        u64::from(self.interval) * u64::from(self.burst)
    }

    /// The interval must be exact.
    fn declared(self) -> Declared {
        Declared {
            calls_per_second: Some(1e9 / f64::from(self.interval)),
            burst: Some(self.burst),
            max_calls: Some(self.max_calls),
        }
    }
}

const SOURCE: Bound = Bound {
    interval: 100_000_000,
    burst: 2,
    max_calls: 3,
};
const SUBSCRIBER: Bound = Bound {
    interval: 200_000_000,
    burst: 3,
    max_calls: 2,
};
const NETWORK: Bound = Bound {
    interval: 62_500_000,
    burst: 4,
    max_calls: 4,
};
const RULE: Bound = Bound {
    interval: 250_000_000,
    burst: 2,
    max_calls: 2,
};
const OVERALL: Bound = Bound {
    interval: 50_000_000,
    burst: 6,
    max_calls: 5,
};

/// What the model counts for one identity.
struct State {
    bound: Bound,
    credit: u64,
    at: u64,
    live: u32,
}

impl State {
    fn new(bound: Bound) -> Self {
        Self {
            bound,
            credit: bound.depth(),
            at: 0,
            live: 0,
        }
    }

    fn excess(&mut self, now: u64) -> Option<Excess> {
        let most = self.bound.depth();
        self.credit = (self.credit + (now - self.at) * 1000).min(most);
        self.at = now;
        let is_full = self.live >= self.bound.max_calls;
        let is_empty = self.credit < self.bound.interval.into();
        let excess = is_full.then_some(Excess::Calls);
        excess.or(is_empty.then_some(Excess::Rate))
    }
}

#[derive(Default)]
struct Model(HashMap<&'static str, State>);

impl Model {
    fn admit(
        &mut self,
        passed: &[(&'static str, Bound)],
        now: u64,
    ) -> Result<(), (&'static str, Excess)> {
        for (name, bound) in passed {
            let state = self.0.entry(name).or_insert_with(|| State::new(*bound));
            if let Some(excess) = state.excess(now) {
                return Err((name, excess));
            }
        }
        for (name, bound) in passed {
            let state = self.0.get_mut(name).expect("a state");
            state.credit -= u64::from(bound.interval);
            state.live += 1;
        }
        Ok(())
    }

    fn end(&mut self, passed: &[(&'static str, Bound)]) {
        for (name, _) in passed {
            self.0.get_mut(name).expect("a state").live -= 1;
        }
    }

    fn live(&self, name: &str) -> u32 {
        self.0.get(name).map_or(0, |state| state.live)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        source: usize,
        subscriber: Option<usize>,
        is_ruled: bool,
    },
    End(prop::sample::Index),
    Wait(u64),
    Sweep,
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let call = (0..4_usize, prop::option::of(0..3_usize), any::<bool>());
    let call = call.prop_map(|(source, subscriber, is_ruled)| Step::Call {
        source,
        subscriber,
        is_ruled,
    });
    prop_oneof![
        6 => call,
        3 => any::<prop::sample::Index>().prop_map(Step::End),
        2 => (0_u64..300_000).prop_map(Step::Wait),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reload),
    ]
}

/// The sources and the networks that they are in.
const SOURCES: [(&str, Option<&str>); 4] = [
    ("10.0.0.1", Some("inner")),
    ("10.1.0.1", Some("outer")),
    ("2001:db8:0:1::", Some("outer")),
    ("192.0.2.1", None),
];
const SUBSCRIBERS: [&str; 3] = ["alice", "bob", "carol"];

fn description() -> Description {
    Description {
        overall: OVERALL.declared(),
        networks: vec![
            network(
                "outer",
                &["10.0.0.0/8", "2001:db8::/32"],
                NETWORK.declared(),
            ),
            network("inner", &["10.0.0.0/16"], NETWORK.declared()),
        ],
        each_source: Some(each(SOURCE.declared(), 10)),
        each_subscriber: Some(each(SUBSCRIBER.declared(), 10)),
        named: vec![named("rule", RULE.declared())],
    }
}

/// The names that limits of the model have, for the names that refusals have.
fn label(name: &'static str) -> &'static str {
    if SUBSCRIBERS.contains(&name) {
        return "subscriber";
    }
    let is_source = SOURCES.iter().any(|(source, _)| *source == name);
    if is_source { "source" } else { name }
}

proptest! {
    #[test]
    fn limits_behave_like_the_model(steps in prop::collection::vec(step(), 1..200)) {
        let mut limits = limits(&description());
        let (mut model, mut live, mut now) = (Model::default(), Vec::new(), START);
        for step in steps {
            match step {
                Step::Call { source, subscriber, is_ruled } => {
                    let (source, network) = SOURCES[source];
                    let subscriber = subscriber.map(|index| SUBSCRIBERS[index]);
                    let rule = is_ruled.then_some("rule");
                    let mut passed = vec![(source, SOURCE)];
                    passed.extend(subscriber.map(|name| (name, SUBSCRIBER)));
                    passed.extend(network.map(|name| (name, NETWORK)));
                    passed.extend(rule.map(|name| (name, RULE)));
                    passed.push(("overall", OVERALL));
                    let call = Call {
                        source: source.parse().expect("an address"),
                        subscriber: subscriber.map(str::as_bytes),
                        rule: rule.and_then(|name| limits.named(name)).map(|limit| &**limit),
                    };
                    let expected = model.admit(&passed, now);
                    let found = limits.admit(&call, Time::from_micros(now));
                    let found = found.map_err(|refused| (refused.limit, refused.excess));
                    let expected = expected.map_err(|(name, excess)| (label(name), excess));
                    prop_assert_eq!(found.as_ref().err(), expected.as_ref().err());
                    live.extend(found.ok().map(|permits| (passed, permits)));
                }
                Step::End(index) if !live.is_empty() => {
                    let (passed, permits) = live.swap_remove(index.index(live.len()));
                    model.end(&passed);
                    drop(permits);
                }
                Step::End(_) => {}
                Step::Wait(micros) => now += micros,
                Step::Sweep => {
                    limits.sweep(Time::from_micros(now), 3);
                }
                Step::Reload => {
                    limits = Limits::new(&description(), Some(&limits)).expect("a description");
                }
            }
            for (source, _) in SOURCES {
                let address = source.parse().expect("an address");
                prop_assert_eq!(limits.source_calls(address), model.live(source));
            }
            for name in SUBSCRIBERS {
                prop_assert_eq!(limits.subscriber_calls(name.as_bytes()), model.live(name));
            }
            for stats in limits.stats() {
                prop_assert_eq!(stats.live, model.live(stats.name));
            }
        }
    }
}
