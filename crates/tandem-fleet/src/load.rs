//! The load of each node, from its metrics page: live dialogs, and new calls per second since the page was read before.

use crate::controller::{Fleet, count};
use crate::histograms::total;
use crate::members::{Member, MemberState};
use crate::nodes::metrics;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The counter of new calls.
const CREATED: &str = "tandem_dialogs_created_total";
/// The gauge of live calls, by state.
const LIVE: &str = "tandem_dialogs";
/// Shortest time over which a rate is computed.
const SHORTEST: Duration = Duration::from_secs(5);

/// The load of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeLoad {
    /// Dialogs of calls.
    pub(crate) dialogs: f64,
    /// New calls per second; `None` until the node was asked twice.
    pub(crate) calls_per_second: Option<f64>,
    /// The time over which the rate was computed.
    pub(crate) window: Duration,
}

/// When a node had created how many calls.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    created: f64,
    rate: Option<f64>,
    window: Duration,
}

/// The last sample of each node.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<HashMap<String, Sample>>);

impl Loads {
    /// Reads the page of a node. `None`: the node is starting, and does not count calls yet.
    pub(crate) fn read(&self, instance: &str, page: &str, now: Instant) -> Option<NodeLoad> {
        let (created, dialogs) = (total(page, CREATED)?, total(page, LIVE)?);
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = Sample {
            at: now,
            created,
            rate: None,
            window: Duration::ZERO,
        };
        let sample = samples.entry(instance.to_owned()).or_insert(first);
        let window = now.saturating_duration_since(sample.at);
        if created < sample.created {
            // The process was started again.
            *sample = first;
        } else if window >= SHORTEST {
            let rate = Some((created - sample.created) / window.as_secs_f64());
            *sample = Sample {
                rate,
                window,
                ..first
            };
        }
        Some(NodeLoad {
            dialogs,
            calls_per_second: sample.rate,
            window: sample.window,
        })
    }

    /// Forgets all other nodes.
    pub(crate) fn keep(&self, is_known: impl Fn(&str) -> bool) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|instance, _| is_known(instance));
    }
}

/// The load of each active node that answers.
pub(crate) async fn of_active_nodes(fleet: &Fleet) -> Vec<(Member, NodeLoad)> {
    let members = fleet.members();
    fleet
        .loads
        .keep(|instance| members.iter().any(|member| member.instance == instance));
    let active: Vec<_> = members
        .into_iter()
        .filter(|member| member.state == MemberState::Active)
        .collect();
    let asked = fleet.nodes.ask(&active, metrics).await;
    for _ in &asked.unanswered {
        count(&fleet.counters.node_errors);
    }
    let now = Instant::now();
    let answers = asked.answers.into_iter();
    let load = |(node, page): (Member, String)| {
        let load = fleet.loads.read(&node.instance, &page, now)?;
        Some((node, load))
    };
    answers.filter_map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(created: u32) -> String {
        format!(
            "tandem_dialogs{{state=\"early\"}} 1\ntandem_dialogs{{state=\"confirmed\"}} 2\ntandem_dialogs_created_total {created}\n"
        )
    }

    #[test]
    fn a_rate_needs_two_samples_and_survives_a_restart_of_the_node() {
        let (loads, start) = (Loads::default(), Instant::now());
        let read = |created, seconds| {
            let now = start + Duration::from_secs(seconds);
            let load = loads.read("a", &page(created), now).expect("a load");
            assert!((load.dialogs - 3.0).abs() < f64::EPSILON);
            load.calls_per_second
        };
        assert_eq!(read(100, 0), None);
        assert_eq!(read(150, 1), None, "too early");
        assert_eq!(read(300, 10), Some(20.0));
        assert_eq!(read(310, 11), Some(20.0), "the last rate");
        assert_eq!(read(5, 20), None, "started again");
        assert_eq!(read(25, 30), Some(2.0));
        assert!(loads.read("a", "", start).is_none());
        loads.keep(|instance| instance != "a");
        assert_eq!(read(25, 40), None, "forgotten");
    }
}
