//! Reasons (RFC 3326): if an INVITE is cancelled because another phone answered, its CANCEL has a reason. No phone gets the reason that the
//! call was answered elsewhere unless it was.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::{HeaderName, Method};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A worker with at least this many client transactions is never full.
const ROOMY: u64 = 1_000;

/// Machine and transaction.
type Key = (usize, u64);

/// The rule.
#[derive(Debug, Default)]
pub struct Reasons {
    /// Branches of an INVITE, with the transaction in which the INVITE arrived.
    branches: BTreeMap<Key, u64>,
    /// INVITEs that were answered with 2xx.
    answered: BTreeSet<Key>,
    /// INVITEs to which a 2xx has arrived. It may still wait for the control plane.
    accepted: BTreeSet<Key>,
    /// INVITEs that their callers cancelled.
    given_up: BTreeSet<Key>,
    /// Branches whose CANCEL was checked. Its retransmissions are equal.
    judged: BTreeSet<Key>,
}

impl Invariant for Reasons {
    fn name(&self) -> &'static str {
        "reasons"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Delivered {
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if seen.is_request() && seen.method == Method::Cancel => {
                self.given_up.insert((host, seen.invite_transaction()));
                Ok(())
            }
            Observation::Delivered {
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if seen.is_acceptance() => {
                let upstream = self.branches.get(&(host, seen.transaction()));
                self.accepted
                    .extend(upstream.map(|upstream| (host, *upstream)));
                Ok(())
            }
            Observation::Sent {
                from: Party::Host(host),
                seen: Some(seen),
                ..
            } => self.sent(facts, host, seen),
            _ => Ok(()),
        }
    }
}

impl Reasons {
    fn sent(&mut self, facts: &Facts, host: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        if seen.is_acceptance() {
            self.answered.insert((host, seen.transaction()));
        } else if seen.is_request() && seen.method == Method::Invite {
            let branch = (host, seen.transaction());
            self.branches.insert(branch, seen.upstream_transaction());
        } else if seen.is_request() && seen.method == Method::Cancel {
            return self.cancelled(facts, host, seen);
        }
        Ok(())
    }

    fn cancelled(&mut self, facts: &Facts, host: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        let branch = (host, seen.invite_transaction());
        let Some(upstream) = self.branches.get(&branch) else {
            return Ok(());
        };
        if !self.judged.insert(branch) || self.given_up.contains(&(host, *upstream)) {
            return Ok(());
        }
        let mut reasons = seen.message.values(HeaderName::Reason);
        let is_answered = self.answered.contains(&(host, *upstream));
        let is_right = if is_answered {
            // A full table has no room for the reason of a CANCEL that has to wait. A CANCEL that waited may carry an earlier reason:
            // another phone declined, or this one was silent for too long.
            reasons.next().is_some() || facts.hosts[host].bounds.clients < ROOMY
        } else {
            self.accepted.contains(&(host, *upstream))
                || !reasons.any(|reason| String::from_utf8_lossy(reason).contains(";cause=200"))
        };
        if is_right {
            return Ok(());
        }
        let what = if is_answered {
            "a phone was cancelled without a reason after the call was answered"
        } else {
            "a phone was told that a call was answered elsewhere, and it was not"
        };
        Err(violation(self.name(), what.to_owned(), Some(seen.call_id)))
    }
}
