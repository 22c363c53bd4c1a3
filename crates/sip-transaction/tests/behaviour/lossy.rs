//! Random calls over a network with random loss: every transaction ends, and the user sees each request once.

use crate::world::{World, unreliable};
use proptest::prelude::*;
use sip_message::Method;

#[derive(Clone, Debug)]
enum Act {
    Run(u64),
    Respond(u16),
    Cancel,
    AnswerCancel,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1u64..4_000).prop_map(Act::Run),
        3 => prop::sample::select(vec![100, 180, 183, 200, 202, 302, 404, 486, 503, 603]).prop_map(Act::Respond),
        1 => Just(Act::Cancel),
        1 => Just(Act::AnswerCancel),
    ]
}

fn count(trace: &[String], what: &str) -> usize {
    trace
        .iter()
        .filter(|line| line.split_once(' ').is_some_and(|(_, rest)| rest == what))
        .count()
}

fn lossy(mut pattern: u64) -> World {
    let mut world = unreliable();
    world.lose = Box::new(move |_| {
        pattern = pattern.rotate_right(1);
        pattern & 1 == 1
    });
    world
}

proptest! {
    #[test]
    fn every_transaction_ends_and_every_request_is_seen_once(
        invite: bool,
        // At most half of the messages are lost.
        losses in (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b),
        acts in prop::collection::vec(act(), 0..30),
    ) {
        let (method, name) = if invite { (Method::Invite, "INVITE") } else { (Method::Options, "OPTIONS") };
        let mut world = lossy(losses);
        let id = world.request(method);
        for act in acts {
            let has = |world: &World, name| world.incoming.iter().any(|incoming| incoming.method == name);
            match act {
                Act::Run(time) => world.run(time),
                Act::Respond(status) if has(&world, name) => drop(world.respond(name, status)),
                Act::Cancel => world.cancel(id),
                Act::AnswerCancel if has(&world, "CANCEL") => drop(world.respond("CANCEL", 200)),
                Act::Respond(_) | Act::AnswerCancel => {}
            }
        }
        // Every request that the server's user received gets a final response.
        for incoming in ["INVITE", "OPTIONS", "CANCEL"] {
            if world.incoming.iter().any(|one| one.method == incoming) {
                world.respond(incoming, 500);
            }
        }
        world.cancel(id);
        world.run(200_000);
        for incoming in ["INVITE", "OPTIONS", "CANCEL"] {
            if world.incoming.iter().any(|one| one.method == incoming) {
                world.respond(incoming, 500);
            }
        }
        world.run(200_000);
        let trace = world.trace();
        prop_assert!(world.is_at_rest(), "{trace:#?}");
        prop_assert!(count(&trace, &format!("new {name}")) <= 1, "{trace:#?}");
        prop_assert!(count(&trace, "timeout") <= 1, "{trace:#?}");
        // The client's user sees one end of its request: a final response or a timeout, never both.
        let finals = trace.iter().filter(|line| {
            line.split_once(" up ").is_some_and(|(_, status)| status.parse().is_ok_and(|status: u16| status >= 200))
        });
        let (finals, timeouts) = (finals.count(), count(&trace, "timeout"));
        prop_assert!((finals == 0) == (timeouts == 1), "{trace:#?}");
    }
}
