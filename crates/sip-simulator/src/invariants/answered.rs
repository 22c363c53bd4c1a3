//! Every request is answered: what an honest phone sends and the network delivers gets a final response in time, and
//! the response is repeated for every repetition of the request, so that losses heal.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
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
    /// Until then a response must be sent.
    due: Option<Time>,
    /// When and how it was answered.
    answered: Option<(Time, u16)>,
    acknowledged: bool,
}

/// The rule.
#[derive(Debug, Default)]
pub struct Answered {
    awaited: BTreeMap<Key, Awaited>,
    due: BTreeSet<(Time, Key)>,
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
                from: Party::Phone(phone),
                source,
                to: Party::Host(host),
                seen: Some(seen),
            } => {
                if seen.is_request() && facts.phones[phone].honest {
                    self.request(facts, now, (host, source), seen);
                }
            }
            Observation::Sent {
                from: Party::Host(host),
                destination,
                seen: Some(seen),
                ..
            } if seen.is_final() => {
                self.answer(now, (host, destination, seen.transaction()), seen.status);
            }
            Observation::Crashed { host } => {
                self.awaited.retain(|(other, _, _), _| *other != host);
                self.due.retain(|(_, (other, _, _))| *other != host);
            }
            _ => {}
        }
        self.check(now)
    }
}

impl Answered {
    fn request(
        &mut self,
        facts: &Facts,
        now: Time,
        (host, source): (usize, SocketAddr),
        seen: &Seen<'_>,
    ) {
        if seen.method == Method::Ack {
            let invite = (host, source, hash(&[seen.branch, b"INVITE"]));
            if let Some(awaited) = self.awaited.get_mut(&invite) {
                awaited.acknowledged = true;
            }
            return;
        }
        let bounds = &facts.hosts[host].bounds;
        let invite = seen.method == Method::Invite;
        let key = (host, source, seen.transaction());
        let Some(awaited) = self.awaited.get_mut(&key) else {
            let within = if invite {
                bounds.invite_answered
            } else {
                bounds.other_answered
            };
            let due = now + within + facts.lateness;
            let method = String::from_utf8_lossy(seen.method.as_bytes()).into_owned();
            let what = format!(
                "{method} from {source} to host{host}, first delivered at {} µs",
                now.as_micros()
            );
            let call_id = seen.call_id.to_vec();
            let awaited = Awaited {
                what,
                call_id,
                due: Some(due),
                answered: None,
                acknowledged: false,
            };
            self.awaited.insert(key, awaited);
            self.due.insert((due, key));
            return;
        };
        // The 2xx of an INVITE is repeated by the callee (RFC 6026); everything else by the server transaction.
        let Some((at, status)) = awaited.answered else {
            return;
        };
        let ours = !invite || (status >= 300 && !awaited.acknowledged);
        let kept = (bounds.t1 * 64).saturating_sub(facts.lateness + Duration::from_secs(1));
        if ours && awaited.due.is_none() && now.saturating_since(at) < kept {
            let due = now + facts.lateness;
            awaited.due = Some(due);
            self.due.insert((due, key));
        }
    }

    fn answer(&mut self, now: Time, key: Key, status: u16) {
        if let Some(awaited) = self.awaited.get_mut(&key) {
            if let Some(due) = awaited.due.take() {
                self.due.remove(&(due, key));
            }
            awaited.answered.get_or_insert((now, status));
        }
    }

    fn check(&mut self, now: Time) -> Result<(), Violation> {
        match self.due.first() {
            Some((due, key)) if *due < now => {
                let Some(awaited) = self.awaited.get(key) else {
                    return Ok(());
                };
                let what = match awaited.answered {
                    None => format!("no final response to {}", awaited.what),
                    Some((_, status)) => {
                        format!("the {status} was not repeated to {}", awaited.what)
                    }
                };
                Err(violation(self.name(), what, Some(&awaited.call_id)))
            }
            _ => Ok(()),
        }
    }
}
