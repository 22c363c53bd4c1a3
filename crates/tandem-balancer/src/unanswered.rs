//! Requests that came over a stream, and that no node has answered yet.
//!
//! A client retransmits over UDP until it gets a response, so a request that a dying node took with it reaches another node. Over a stream it
//! does not. The edge therefore keeps such a request until its first response, which normally takes a millisecond, and sends it again in the
//! meantime, as the client would. A node takes the copy for a retransmission. The edge forgets requests when it stops, like the connections
//! that they came over.

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use sip_message::KeyHasher;
use sip_transport::{Flow, Time};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The first wait (T1 of RFC 3261). It doubles each time, up to [`T2`].
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// How long a request is kept: 64*T1.
const LIFETIME: Duration = Duration::from_secs(32);
/// How often the table is looked through.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// The bytes of sources are counted in this many groups.
const GROUPS: usize = 1_024;
/// The share of one group: this fraction of all bytes.
const SHARE: usize = 16;
/// What an entry takes beside the bytes of its request.
const OVERHEAD: usize = 160;

/// The table. All workers share it.
#[derive(Debug)]
pub struct Unanswered {
    waiting: HashMap<u64, Waiting, FxBuildHasher>,
    bytes: AtomicUsize,
    by_source: Box<[AtomicUsize]>,
    max_bytes: usize,
}

/// A request.
#[derive(Clone, Debug)]
struct Waiting {
    request: Box<[u8]>,
    flow: Flow,
    is_invite: bool,
    since: Time,
    next: Time,
    wait: Duration,
}

/// A request that is to be sent again.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) request: Box<[u8]>,
    pub(crate) flow: Flow,
}

impl Unanswered {
    /// A table that holds requests of so many bytes. Sources have shares: of the sources that fall into one of 1,024 groups, all together hold
    /// at most a sixteenth.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            waiting: HashMap::default(),
            bytes: AtomicUsize::new(0),
            by_source: (0..GROUPS).map(|_| AtomicUsize::new(0)).collect(),
            max_bytes,
        }
    }

    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps a request, by the number of its transaction. Returns `false` if there is no room.
    pub(crate) fn insert(
        &self,
        transaction: u64,
        (request, flow, is_invite): (&[u8], Flow, bool),
        now: Time,
        hasher: &KeyHasher,
    ) -> bool {
        let waiting = self.waiting.pin();
        if waiting.contains_key(&transaction) {
            return true;
        }
        let size = request.len() + OVERHEAD;
        let Some(group) = self.group(flow, hasher) else {
            return false;
        };
        let share = group.fetch_add(size, Ordering::Relaxed) + size;
        let all = self.bytes.fetch_add(size, Ordering::Relaxed) + size;
        if share > self.max_bytes / SHARE || all > self.max_bytes {
            self.release(size, group);
            return false;
        }
        let entry = Waiting {
            request: request.into(),
            flow,
            is_invite,
            since: now,
            next: now + T1,
            wait: T1,
        };
        if let Some(old) = waiting.insert(transaction, entry) {
            self.release(old.request.len() + OVERHEAD, group);
        }
        true
    }

    /// A response with this status has arrived. A provisional response ends the wait only for an INVITE, as it ends the retransmissions of a
    /// client (RFC 3261 section 17.1).
    pub(crate) fn answered(&self, transaction: u64, status: u16, hasher: &KeyHasher) {
        if self.bytes() == 0 {
            return;
        }
        let waiting = self.waiting.pin();
        let Some(entry) = waiting.get(&transaction) else {
            return;
        };
        if status >= 200 || entry.is_invite {
            self.remove(&waiting, transaction, hasher);
        }
    }

    /// Forgets the requests whose time is over, and returns those that are to be sent again.
    pub(crate) fn due(&self, now: Time, hasher: &KeyHasher) -> Vec<Due> {
        if self.bytes() == 0 {
            return Vec::new();
        }
        let waiting = self.waiting.pin();
        let (mut due, mut over) = (Vec::new(), Vec::new());
        for (transaction, entry) in &waiting {
            if now - entry.since > LIFETIME {
                over.push(*transaction);
            } else if entry.next <= now {
                due.push((*transaction, entry.clone()));
            }
        }
        for transaction in over {
            self.remove(&waiting, transaction, hasher);
        }
        for (transaction, entry) in &due {
            let wait = (entry.wait * 2).min(T2);
            waiting.update(*transaction, |old| Waiting {
                next: now + wait,
                wait,
                ..old.clone()
            });
        }
        due.into_iter()
            .map(|(_, Waiting { request, flow, .. })| Due { request, flow })
            .collect()
    }

    fn remove(
        &self,
        waiting: &papaya::HashMapRef<'_, u64, Waiting, FxBuildHasher, papaya::LocalGuard<'_>>,
        transaction: u64,
        hasher: &KeyHasher,
    ) {
        if let Some(old) = waiting.remove(&transaction)
            && let Some(group) = self.group(old.flow, hasher)
        {
            self.release(old.request.len() + OVERHEAD, group);
        }
    }

    fn release(&self, size: usize, group: &AtomicUsize) {
        group.fetch_sub(size, Ordering::Relaxed);
        self.bytes.fetch_sub(size, Ordering::Relaxed);
    }

    /// The counter of a source: an IPv4 address, or the network of an IPv6 address.
    fn group(&self, flow: Flow, hasher: &KeyHasher) -> Option<&AtomicUsize> {
        let hash = match flow.remote.ip().to_canonical() {
            std::net::IpAddr::V4(ip) => hasher.hash(&[b"source", &ip.octets()]),
            std::net::IpAddr::V6(ip) => {
                let octets = ip.octets();
                hasher.hash(&[b"source", octets.get(..8)?])
            }
        };
        self.by_source.get(hash as usize % GROUPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::{ConnectionId, ListenerId};

    const HASHER: KeyHasher = KeyHasher::new((1, 2));

    fn flow(remote: &str) -> Flow {
        Flow {
            listener: ListenerId(0),
            connection: ConnectionId::new(0, 1),
            remote: remote.parse().expect("an address"),
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn insert(table: &Unanswered, number: u64, is_invite: bool, from: &str) -> bool {
        table.insert(
            number,
            (&[b'x'; 1_000], flow(from), is_invite),
            at(0),
            &HASHER,
        )
    }

    #[test]
    fn a_request_is_repeated_as_a_client_would_until_it_is_answered() {
        let table = Unanswered::new(1 << 20);
        assert!(insert(&table, 7, true, "192.0.2.1:9"));
        let times: Vec<u64> = (0..40_000)
            .step_by(100)
            .filter(|millis| !table.due(at(*millis), &HASHER).is_empty())
            .collect();
        let expected = [
            500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
        ];
        assert_eq!(times, expected);
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn a_provisional_response_answers_an_invite_only() {
        let table = Unanswered::new(1 << 20);
        insert(&table, 1, true, "192.0.2.1:9");
        insert(&table, 2, false, "192.0.2.1:9");
        table.answered(1, 100, &HASHER);
        table.answered(2, 100, &HASHER);
        assert_eq!(table.due(at(600), &HASHER).len(), 1);
        table.answered(2, 200, &HASHER);
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn one_source_cannot_take_the_room_of_others() {
        let table = Unanswered::new(160_000);
        let taken = (0..1_000).filter(|number| insert(&table, *number, true, "192.0.2.1:9"));
        assert_eq!(taken.count(), 8);
        assert!(insert(&table, 5_000, true, "192.0.2.2:9"));
        // What is refused takes no room.
        assert_eq!(table.bytes(), 9 * (1_000 + OVERHEAD));
    }

    #[test]
    fn all_sources_together_have_a_bound() {
        let table = Unanswered::new(160_000);
        let taken = (0..1_000_u64).filter(|number| {
            let from = format!("10.0.{}.{}:9", number / 250, number % 250);
            insert(&table, *number, true, &from)
        });
        assert_eq!(taken.count(), 160_000 / (1_000 + OVERHEAD));
    }
}
