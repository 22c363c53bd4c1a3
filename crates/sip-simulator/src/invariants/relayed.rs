//! Relayed: every 2xx to an INVITE that reaches a machine goes on to the caller, and every ACK of it to the callee,
//! each time. A branch that rang and got no final response is cancelled. The server leaves no call half-open.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
use sip_message::{HeaderName, Method};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Machine, and a hash of the message to relay.
type Key = (usize, u64);

#[derive(Debug)]
struct Branch {
    call_id: Vec<u8>,
    /// When its INVITE was first sent.
    sent_at: Time,
    rung: bool,
    ended: bool,
}

/// A message that must be relayed, once for each time that it arrived.
#[derive(Debug)]
struct Debt {
    what: &'static str,
    call_id: Vec<u8>,
    /// The deadline of each of them.
    due: VecDeque<Time>,
}

/// The rule.
#[derive(Debug, Default)]
pub struct Relayed {
    /// INVITEs sent, by transaction.
    branches: BTreeMap<Key, Branch>,
    /// INVITEs received, by transaction. An ACK with the same branch is not relayed.
    invites: BTreeSet<Key>,
    /// Dialogs whose 2xx was relayed.
    dialogs: BTreeSet<Key>,
    /// Each 2xx to an INVITE that has arrived.
    accepted: BTreeSet<Key>,
    /// Messages that must be relayed.
    owed: BTreeMap<Key, Debt>,
}

impl Invariant for Relayed {
    fn name(&self) -> &'static str {
        "relayed"
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
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } => {
                self.arrived(facts, now, host, from, seen);
            }
            Observation::Sent {
                from: Party::Host(host),
                seen: Some(seen),
                ..
            } => self.sent(now, host, seen),
            Observation::Crashed { host } => self.forget(host),
            Observation::Quiet { .. } => self.no_branch_left_ringing()?,
            _ => {}
        }
        // There are few debts at a time, because they are paid in the same instant.
        let is_late = |debt: &&Debt| debt.due.front().is_some_and(|due| *due < now);
        let late = self.owed.values().find(is_late);
        match late {
            Some(debt) => {
                let what = format!("{} was not passed on", debt.what);
                Err(violation(self.name(), what, Some(&debt.call_id)))
            }
            None => Ok(()),
        }
    }
}

impl Relayed {
    fn arrived(&mut self, facts: &Facts, now: Time, host: usize, from: Party, seen: &Seen<'_>) {
        let due = now + facts.lateness + facts.hosts[host].bounds.response_waits;
        if !seen.is_request() && seen.method == Method::Invite {
            let Some(branch) = self.branches.get_mut(&(host, seen.transaction())) else {
                return;
            };
            // After timer B has fired, there is no transaction left to cancel.
            let alive = (facts.hosts[host].bounds.t1 * 64).saturating_sub(Duration::from_secs(1));
            branch.rung |= now.saturating_since(branch.sent_at) < alive;
            branch.ended |= seen.is_final();
            // Where responses wait, their number is bounded. A callee repeats a 2xx, so a copy of one that waits may be dropped.
            let may_be_dropped = facts.hosts[host].description_mark.is_some()
                && self.accepted.contains(&(host, passed_on(seen)));
            if seen.is_acceptance() && !may_be_dropped {
                self.accepted.insert((host, passed_on(seen)));
                self.owe(due, host, "a 2xx to an INVITE", seen);
            }
        } else if seen.is_request() && seen.method == Method::Invite {
            self.invites.insert((host, seen.transaction()));
        } else if seen.is_request() && seen.method == Method::Ack {
            let honest = match from {
                Party::Phone(phone) => facts.phones[phone].honest,
                Party::Host(_) => true,
                Party::Nobody => false,
            };
            let hop_by_hop = self.invites.contains(&(host, seen.invite_transaction()));
            // A machine that adds no Record-Route gets such an ACK only by chance.
            let is_routed = seen.message.header(HeaderName::Route).is_some();
            if honest && is_routed && !hop_by_hop && self.dialogs.contains(&(host, dialog(seen))) {
                self.owe(due, host, "the ACK of a 2xx", seen);
            }
        }
    }

    fn owe(&mut self, due: Time, host: usize, what: &'static str, seen: &Seen<'_>) {
        let debt = self
            .owed
            .entry((host, passed_on(seen)))
            .or_insert_with(|| Debt {
                what,
                call_id: seen.call_id.to_vec(),
                due: VecDeque::new(),
            });
        debt.due.push_back(due);
    }

    fn pay(&mut self, host: usize, seen: &Seen<'_>) {
        let key = (host, passed_on(seen));
        if let Some(debt) = self.owed.get_mut(&key) {
            debt.due.pop_front();
            if debt.due.is_empty() {
                self.owed.remove(&key);
            }
        }
    }

    fn sent(&mut self, now: Time, host: usize, seen: &Seen<'_>) {
        if seen.is_acceptance() {
            self.dialogs.insert((host, dialog(seen)));
            self.pay(host, seen);
        } else if seen.is_request() {
            match seen.method {
                Method::Ack => self.pay(host, seen),
                Method::Invite => {
                    let branch = self.branches.entry((host, seen.transaction()));
                    branch.or_insert_with(|| Branch {
                        call_id: seen.call_id.to_vec(),
                        sent_at: now,
                        rung: false,
                        ended: false,
                    });
                }
                Method::Cancel => {
                    if let Some(branch) = self.branches.get_mut(&(host, seen.invite_transaction()))
                    {
                        branch.ended = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn forget(&mut self, host: usize) {
        self.branches.retain(|(other, _), _| *other != host);
        self.invites.retain(|(other, _)| *other != host);
        self.owed.retain(|(other, _), _| *other != host);
    }

    fn no_branch_left_ringing(&self) -> Result<(), Violation> {
        let ringing = self
            .branches
            .iter()
            .find(|(_, branch)| branch.rung && !branch.ended);
        match ringing {
            Some(((host, _), branch)) => {
                let what = format!(
                    "a branch of host{host} had rung, got no final response, and was never cancelled"
                );
                Err(violation(self.name(), what, Some(&branch.call_id)))
            }
            None => Ok(()),
        }
    }
}

/// Identifies a 2xx or ACK on both sides of a machine: everything except the hop.
fn passed_on(seen: &Seen<'_>) -> u64 {
    let kind: &[u8] = if seen.is_request() { b"ACK" } else { b"2xx" };
    hash(&[
        kind,
        seen.call_id,
        seen.from_tag,
        seen.to_tag,
        &seen.cseq.to_le_bytes(),
    ])
}

fn dialog(seen: &Seen<'_>) -> u64 {
    hash(&[seen.call_id, seen.from_tag, seen.to_tag])
}
