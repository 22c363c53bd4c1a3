//! The edges of the fleet, as their probes show them, and the way round those that are gone.
//!
//! A response returns through the edge that its request came through. If that edge has ended, another one forwards it as well: the Via carries all
//! that an edge must know. Only connections end with their edge.

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use sip_transport::{Flow, Time};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An edge without a probe for so long is gone. Edges probe at least once a second.
const SILENCE: Duration = Duration::from_millis(2_500);
/// The longest restart of an edge. One that is silent for longer does not return.
const LONGEST_RESTART: Duration = Duration::from_secs(10);
/// After so long, nothing is on its way to an edge that is gone.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// The most edges. More than that take the places of those that have been silent the longest.
const MOST: usize = 256;

/// The edges that have probed this node. All workers share it.
#[derive(Debug, Default)]
pub struct Edges {
    heard: HashMap<SocketAddr, Time, FxBuildHasher>,
    /// Whether one of them is gone.
    any_gone: AtomicBool,
}

impl Edges {
    /// An edge has probed this node. Call this only if the probe proves the address.
    pub fn heard(&self, address: SocketAddr, now: Time) {
        let heard = self.heard.pin();
        if heard.get(&address).is_none() && heard.len() >= MOST {
            let quietest = heard.iter().min_by_key(|(_, at)| **at);
            if let Some((quietest, _)) = quietest {
                heard.remove(quietest);
            }
        }
        heard.insert(address, now);
        heard.retain(|_, at| now - *at < FORGOTTEN);
        let any_gone = heard.values().any(|at| is_gone(*at, now));
        self.any_gone.store(any_gone, Ordering::Relaxed);
    }

    /// The number of edges that have proved their address in the last 24 hours.
    pub fn known(&self) -> usize {
        self.heard.len()
    }

    /// Whether [`Edges::around`] may lead elsewhere. An edge that falls silent shows with the next probe of another one.
    pub fn any_is_gone(&self) -> bool {
        self.any_gone.load(Ordering::Relaxed)
    }

    /// Whether the edge at this address has probed before, and has been silent for longer than a restart takes.
    pub fn has_ended(&self, address: SocketAddr, now: Time) -> bool {
        let heard = self.heard.pin();
        heard
            .get(&address)
            .is_some_and(|last| now - *last > LONGEST_RESTART)
    }

    /// The flow through another edge, if this one leads to an edge that is gone.
    pub fn around(&self, flow: Flow, now: Time) -> Option<Flow> {
        let heard = self.heard.pin();
        let last = heard.get(&flow.remote)?;
        if !is_gone(*last, now) {
            return None;
        }
        let living = heard.iter().filter(|(_, at)| !is_gone(**at, now));
        // The order of a map is not that of another node. The messages of a transaction take the same way at this one.
        let (other, _) = living.min_by_key(|(address, _)| **address)?;
        Some(Flow {
            remote: *other,
            ..flow
        })
    }
}

fn is_gone(last: Time, now: Time) -> bool {
    now - last > SILENCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::ListenerId;

    fn address(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn to(number: u16) -> Flow {
        Flow::to(ListenerId(3), address(number))
    }

    #[test]
    fn messages_for_an_edge_that_fell_silent_go_through_another_one_until_it_is_back() {
        let edges = Edges::default();
        let start = Time::from_unix_seconds(1_800_000_000);
        edges.heard(address(1), start);
        edges.heard(address(2), start + Duration::from_secs(2));
        assert!(!edges.any_is_gone());
        let later = start + Duration::from_secs(3);
        edges.heard(address(2), later);
        assert!(edges.any_is_gone());
        assert_eq!(edges.around(to(1), later), Some(to(2)));
        assert_eq!(edges.around(to(2), later), None);
        assert_eq!(edges.around(to(7), later), None, "no edge");
        edges.heard(address(1), later);
        assert!(!edges.any_is_gone());
        assert_eq!(edges.around(to(1), later), None);
    }

    #[test]
    fn an_edge_has_ended_if_it_does_not_return_as_after_a_restart() {
        let edges = Edges::default();
        let start = Time::from_unix_seconds(1_800_000_000);
        edges.heard(address(1), start);
        assert!(!edges.has_ended(address(1), start + LONGEST_RESTART));
        let later = start + LONGEST_RESTART + SILENCE;
        assert!(edges.has_ended(address(1), later));
        assert!(!edges.has_ended(address(2), later), "no edge");
        edges.heard(address(1), later);
        assert!(!edges.has_ended(address(1), later));
    }

    #[test]
    fn without_another_edge_there_is_no_way_round() {
        let edges = Edges::default();
        let start = Time::from_unix_seconds(1_800_000_000);
        edges.heard(address(1), start);
        assert_eq!(edges.around(to(1), start + Duration::from_secs(60)), None);
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let edges = Edges::default();
        let start = Time::from_unix_seconds(1_800_000_000);
        for number in 1..=1_000 {
            edges.heard(
                address(number),
                start + Duration::from_millis(number.into()),
            );
        }
        assert_eq!(edges.heard.len(), MOST);
        edges.heard(address(1), start + FORGOTTEN + FORGOTTEN);
        assert_eq!(edges.heard.len(), 1);
    }
}
