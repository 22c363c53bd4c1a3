//! Every request is answered. A request that an honest phone sends and the network delivers gets a final response in
//! time. Each retransmission of the request gets the response again, so losses heal.
//!
//! RFC 4320 section 4.2 makes one exception: a forwarded request other than INVITE that gets no final response stays
//! unanswered.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Machine, address of the phone, transaction.
type Key = (usize, SocketAddr, u64);

#[derive(Debug)]
struct Awaited {
    what: String,
    call_id: Vec<u8>,
    is_invite: bool,
    /// The deadline for a response.
    due: Option<Time>,
    /// The time and status of the final response.
    answered: Option<(Time, u16)>,
    acknowledged: bool,
}

/// A request that a machine has forwarded.
#[derive(Debug)]
struct Forwarded {
    at: Time,
    /// Its downstream transactions, in the order in which they began.
    branches: Vec<u64>,
    /// Whether the last of them has had its final response. If only an earlier one has, the machine may have abandoned
    /// that one before.
    answered: bool,
    /// Whether one of them has had a 2xx.
    accepted: bool,
}

/// The rule.
#[derive(Debug, Default)]
pub struct Answered {
    awaited: BTreeMap<Key, Awaited>,
    due: BTreeSet<(Time, Key)>,
    /// By machine and upstream transaction.
    forwarded: BTreeMap<(usize, u64), Forwarded>,
}

impl Invariant for Answered {
    fn name(&self) -> &'static str {
        "answered"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Delivered {
                from,
                source,
                to: Party::Host(host),
                seen: Some(seen),
            } => {
                let honest = matches!(from, Party::Phone(phone) if facts.phones[phone].honest);
                if !seen.is_request() {
                    self.response_arrived(facts, now, host, seen);
                } else if honest {
                    self.request_arrived(facts, now, (host, source), seen);
                }
            }
            Observation::Sent {
                from: Party::Host(host),
                destination,
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() {
                    self.request_left(now, host, seen);
                } else {
                    self.response_left(now, (host, destination, seen.transaction()), seen.status);
                }
            }
            Observation::Crashed { host } => {
                self.awaited.retain(|(other, _, _), _| *other != host);
                self.due.retain(|(_, (other, _, _))| *other != host);
                self.forwarded.retain(|(other, _), _| *other != host);
            }
            _ => {}
        }
        self.check(now)
    }
}

impl Answered {
    fn request_arrived(
        &mut self,
        facts: &Facts,
        now: Time,
        (host, source): (usize, SocketAddr),
        seen: &Seen<'_>,
    ) {
        if seen.method == Method::Ack {
            let invite = (host, source, seen.invite_transaction());
            if let Some(awaited) = self.awaited.get_mut(&invite) {
                awaited.acknowledged = true;
            }
            return;
        }
        let bounds = &facts.hosts[host].bounds;
        let key = (host, source, seen.transaction());
        let Some(awaited) = self.awaited.get_mut(&key) else {
            let is_invite = seen.method == Method::Invite;
            let within = if is_invite {
                bounds.invite_answered
            } else {
                bounds.other_answered
            };
            return self.await_answer(now, key, now + within + facts.lateness, seen);
        };
        // The callee retransmits the 2xx of an INVITE (RFC 6026), and a better response may follow a 503. The server
        // transaction repeats all other responses.
        let Some((at, status)) = awaited.answered else {
            return;
        };
        let ours =
            (!awaited.is_invite || (status >= 300 && !awaited.acknowledged)) && status != 503;
        let kept = (bounds.t1 * 64).saturating_sub(facts.lateness + Duration::from_secs(1));
        if ours && awaited.due.is_none() && now.saturating_since(at) < kept {
            let due = now + facts.lateness;
            awaited.due = Some(due);
            self.due.insert((due, key));
        }
    }

    fn await_answer(&mut self, now: Time, key: Key, due: Time, seen: &Seen<'_>) {
        let (host, source, _) = key;
        let method = String::from_utf8_lossy(seen.method.as_bytes());
        let awaited = Awaited {
            what: format!(
                "{method} from {source} to host{host}, first delivered at {} µs",
                now.as_micros()
            ),
            call_id: seen.call_id.to_vec(),
            is_invite: seen.method == Method::Invite,
            due: Some(due),
            answered: None,
            acknowledged: false,
        };
        self.awaited.insert(key, awaited);
        self.due.insert((due, key));
    }

    fn request_left(&mut self, now: Time, host: usize, seen: &Seen<'_>) {
        let request = (host, seen.upstream_transaction());
        let forwarded = self.forwarded.entry(request).or_insert(Forwarded {
            at: now,
            branches: Vec::new(),
            answered: false,
            accepted: false,
        });
        if !forwarded.branches.contains(&seen.transaction()) {
            forwarded.branches.push(seen.transaction());
            forwarded.answered = false;
        }
    }

    fn response_left(&mut self, now: Time, key: Key, status: u16) {
        let Some(awaited) = self.awaited.get_mut(&key) else {
            return;
        };
        // A machine that answered statelessly may accept the retransmission. Then any response will do.
        if (status >= 200 || awaited.answered.is_some())
            && let Some(due) = awaited.due.take()
        {
            self.due.remove(&(due, key));
        }
        if status >= 200 {
            awaited.answered.get_or_insert((now, status));
        }
    }

    /// Counts a response as long as its client transaction must still live.
    fn response_arrived(&mut self, facts: &Facts, now: Time, host: usize, seen: &Seen<'_>) {
        let alive = (facts.hosts[host].bounds.t1 * 64).saturating_sub(facts.lateness);
        let request = (host, seen.upstream_transaction());
        if let Some(forwarded) = self.forwarded.get_mut(&request)
            && seen.is_final()
            && now.saturating_since(forwarded.at) < alive
        {
            forwarded.answered |= forwarded.branches.last() == Some(&seen.transaction());
            forwarded.accepted |= seen.status < 300;
        }
    }

    fn check(&mut self, now: Time) -> Result<(), Violation> {
        while let Some((due, key)) = self.due.first().copied().filter(|(due, _)| *due < now) {
            self.due.remove(&(due, key));
            let Some(awaited) = self.awaited.get_mut(&key) else {
                continue;
            };
            awaited.due = None;
            let forwarded = self.forwarded.get(&(key.0, key.2));
            let in_vain = forwarded.is_some_and(|it| !it.answered && !it.accepted);
            let what = match awaited.answered {
                None if in_vain && !awaited.is_invite => continue,
                None => format!("no final response to {}", awaited.what),
                Some((_, status)) => format!("the {status} was not repeated to {}", awaited.what),
            };
            return Err(violation("answered", what, Some(&awaited.call_id)));
        }
        Ok(())
    }
}
