//! The method `targets.dead`.
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_elements::TargetFailure;

/// The servers of next hops that failed recently, ordered by address.
pub(super) fn dead(control: &Control, running: &Running) -> Value {
    let now = control.clock.now();
    let mut found = Vec::new();
    let dead = &running.shared.dead_targets;
    dead.for_each(|candidate, until, why| found.push((candidate, until, why)));
    found.sort_by_key(|(candidate, ..)| (candidate.address, candidate.protocol.via_token()));
    let shown = found.into_iter().map(|(candidate, until, why)| {
        json!({
            "transport": candidate.protocol.via_token().to_ascii_lowercase(),
            "address": candidate.address.to_string(),
            "why": word(why),
            "tried_again_in": (until - now).as_secs(),
        })
    });
    json!({ "targets": shown.collect::<Vec<_>>() })
}

const fn word(why: TargetFailure) -> &'static str {
    match why {
        TargetFailure::Silent => "silent",
        TargetFailure::Unreachable => "unreachable",
        TargetFailure::Unavailable => "503",
        TargetFailure::RetryAfter => "503 with Retry-After",
    }
}
