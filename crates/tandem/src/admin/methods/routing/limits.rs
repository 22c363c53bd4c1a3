//! The method `limits.list`.
use crate::control::Running;
use serde_json::{Value, json};
use sip_routing::limit::{Bounds, EachStats, LimitStats};

/// All limits with their counts: those with a name, then those of each source and each subscriber.
pub(in crate::admin::methods) fn limits(running: &Running) -> Value {
    let policy = running.policy.load();
    let limits: Vec<Value> = policy.limits.stats().map(|limit| named(&limit)).collect();
    let each: Vec<Value> = policy
        .limits
        .each_stats()
        .map(|limit| each(&limit))
        .collect();
    json!({ "limits": limits, "each": each })
}

fn named(limit: &LimitStats<'_>) -> Value {
    json!({
        "name": limit.name,
        "scope": limit.scope.label(),
        "max_calls": limit.bounds.max_calls,
        "calls_per_second": rate(&limit.bounds),
        "live": limit.live,
        "highest": limit.highest,
        "admitted": limit.admitted,
        "refused": { "rate": limit.refused_by_rate, "calls": limit.refused_by_calls },
    })
}

fn each(limit: &EachStats) -> Value {
    json!({
        "scope": limit.scope.label(),
        "max_calls": limit.bounds.max_calls,
        "calls_per_second": rate(&limit.bounds),
        "keys": limit.keys,
        "max_keys": limit.max_keys,
        "highest": limit.highest,
        "refused": { "rate": limit.refused_by_rate, "calls": limit.refused_by_calls },
        "overflowed": limit.overflowed,
    })
}

/// New calls per second, to three decimals.
fn rate(bounds: &Bounds) -> Option<f64> {
    let rate = bounds.rate?.calls_per_second();
    Some((rate * 1_000.0).round() / 1_000.0)
}
