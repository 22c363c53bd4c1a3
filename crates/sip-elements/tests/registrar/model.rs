//! Compares random sequences of REGISTERs with a model that follows only the text of the RFC. Responses and bindings must
//! be the same.

use crate::server::{Register, Server, at};
use proptest::prelude::*;

const MAX_CONTACTS: usize = 3;
const LIFETIMES: [u64; 4] = [0, 60, 100, 400];

/// One REGISTER of the sequence.
#[derive(Clone, Debug)]
struct Step {
    /// The time since the previous step, in seconds.
    pause: u64,
    call: u8,
    cseq: u32,
    contacts: Vec<(u8, u64, u16)>,
    ends_all: bool,
    retransmitted: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let contact = (
        0_u8..5,
        prop::sample::select(LIFETIMES.to_vec()),
        0_u16..=10,
    );
    (
        0_u64..80,
        0_u8..3,
        0_u32..12,
        prop::collection::vec(contact, 0..4),
        prop::bool::weighted(0.1),
        any::<bool>(),
    )
        .prop_map(
            |(pause, call, cseq, mut contacts, ends_all, retransmitted)| {
                // A contact that is named twice has its own test.
                contacts.sort_by_key(|contact| contact.0);
                contacts.dedup_by_key(|contact| contact.0);
                Step {
                    pause,
                    call,
                    cseq,
                    contacts,
                    ends_all,
                    retransmitted,
                }
            },
        )
}

fn register(step: &Step) -> Register {
    let lines = if step.ends_all {
        vec!["Contact: *".to_owned(), "Expires: 0".to_owned()]
    } else {
        let line = |&(name, lifetime, q): &(u8, u64, u16)| {
            format!(
                "Contact: <sip:{name}@h>;q={}.{};expires={lifetime}",
                q / 10,
                q % 10
            )
        };
        step.contacts.iter().map(line).collect()
    };
    Register {
        call_id: format!("call{}", step.call),
        lines,
        ..Register::new(step.cseq, &[])
    }
}

#[derive(Clone, Debug)]
struct Bound {
    name: u8,
    call: u8,
    cseq: u32,
    q: u16,
    until: u64,
}

#[derive(Default)]
struct Model {
    bound: Vec<Bound>,
    created: u64,
    ended: u64,
}

impl Model {
    fn receive(&mut self, now: u64, step: &Step) -> u16 {
        self.forget(|bound| bound.until <= now);
        if step.ends_all {
            if self
                .bound
                .iter()
                .any(|bound| bound.call == step.call && step.cseq <= bound.cseq)
            {
                return 500;
            }
            self.forget(|_| true);
            return 200;
        }
        let mut after = self.bound.clone();
        for &(name, lifetime, q) in &step.contacts {
            let q = q * 100;
            let old = after.iter().position(|bound| bound.name == name);
            if let Some(bound) = old
                .and_then(|place| after.get(place))
                .filter(|bound| bound.call == step.call)
            {
                if step.cseq == bound.cseq && lifetime > 0 && q == bound.q {
                    continue;
                }
                if step.cseq <= bound.cseq {
                    return 500;
                }
            }
            after.retain(|bound| bound.name != name);
            if lifetime > 0 {
                after.insert(
                    0,
                    Bound {
                        name,
                        call: step.call,
                        cseq: step.cseq,
                        q,
                        until: now + lifetime,
                    },
                );
            }
        }
        let is_there = |list: &[Bound], name| list.iter().any(|bound: &Bound| bound.name == name);
        let created = after
            .iter()
            .filter(|new| !is_there(&self.bound, new.name))
            .count();
        let ended = self
            .bound
            .iter()
            .filter(|old| !is_there(&after, old.name))
            .count();
        if after.len() > MAX_CONTACTS && created > ended {
            return 403;
        }
        after.sort_by_key(|bound| std::cmp::Reverse(bound.q));
        self.bound = after;
        self.created += created as u64;
        self.ended += ended as u64;
        200
    }

    fn forget(&mut self, test: impl Fn(&Bound) -> bool) {
        let before = self.bound.len();
        self.bound.retain(|bound| !test(bound));
        self.ended += (before - self.bound.len()) as u64;
    }

    fn bindings(&self, now: u64) -> Vec<String> {
        self.bound
            .iter()
            .map(|bound| format!("sip:{}@h {} {}", bound.name, bound.q, bound.until - now))
            .collect()
    }
}

proptest! {
    #[test]
    fn the_registrar_does_what_the_model_does(steps in prop::collection::vec(step(), 1..40)) {
        let server = Server::new(MAX_CONTACTS, 100);
        let mut model = Model::default();
        let mut now = 0;
        for step in &steps {
            now += step.pause;
            let request = register(step);
            let response = server.register(at(now), &request);
            let expected = model.receive(now, step);
            prop_assert_eq!(response.status(), expected, "{:?}", step);
            prop_assert_eq!(server.bindings(at(now)), model.bindings(now), "{:?}", step);
            if step.retransmitted && expected == 200 {
                let again = server.register(at(now), &request);
                prop_assert_eq!(again.status(), 200, "retransmission of {:?}", step);
                prop_assert_eq!(again.contacts(), response.contacts());
            }
        }
        server.shared.locations.sweep(at(now));
        model.forget(|bound| bound.until <= now);
        let stats = server.shared.locations.stats();
        prop_assert_eq!((stats.live, stats.created - stats.ended), (model.bound.len() as u64, stats.live));
        server.shared.locations.sweep(at(now + 10_000));
        prop_assert_eq!(server.shared.locations.stats().live, 0);
    }
}
