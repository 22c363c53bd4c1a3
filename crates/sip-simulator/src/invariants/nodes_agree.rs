//! The nodes of a fleet agree: when no phone has registered for a while, all of them have the same bindings, and each phone's is among them.
use crate::observe::{BoundContact, Facts, Invariant, Observation, Violation, violation};
use crate::phone::PhoneEvent;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest time that a change needs to reach all nodes while the store works.
const SETTLES: Duration = Duration::from_secs(5);
/// The clocks of the nodes differ by less than this, in seconds.
const CLOCKS: u64 = 61;

/// The rule.
#[derive(Debug, Default)]
pub struct NodesAgree {
    last_change: Time,
    /// What each phone was told: its contact, and when it expires.
    confirmed: BTreeMap<usize, (String, u64)>,
}

impl Invariant for NodesAgree {
    fn name(&self) -> &'static str {
        "nodes_agree"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match observation {
            Observation::Phone { phone, event } => {
                self.reported(*phone, now, event);
                Ok(())
            }
            Observation::Calm { bindings } if now.saturating_since(self.last_change) > SETTLES => {
                self.compare(facts, now, bindings)
            }
            _ => Ok(()),
        }
    }
}

impl NodesAgree {
    fn reported(&mut self, phone: usize, now: Time, event: &PhoneEvent) {
        match event {
            PhoneEvent::Registered {
                contact,
                expires_at,
            } => {
                self.confirmed.insert(phone, (contact.clone(), *expires_at));
            }
            PhoneEvent::RegistrationUncertain | PhoneEvent::Unregistered { .. } => {
                self.confirmed.remove(&phone);
            }
            _ => return,
        }
        self.last_change = now;
    }

    fn compare(
        &self,
        facts: &Facts,
        now: Time,
        bindings: &[Vec<BoundContact>],
    ) -> Result<(), Violation> {
        let lives = now.unix_seconds() + CLOCKS;
        let nodes = bindings.iter().zip(&facts.hosts).enumerate();
        let nodes = nodes.filter(|(_, (_, host))| host.bounds.bindings > 0);
        let mut first: Option<(usize, BTreeSet<&BoundContact>)> = None;
        for (node, (bound, _)) in nodes {
            let bound: BTreeSet<_> = bound.iter().filter(|it| it.expires_at > lives).collect();
            for (phone, (contact, expires_at)) in &self.confirmed {
                let is_bound = bound.iter().any(|it| it.contact == *contact);
                if *expires_at > lives + CLOCKS && !is_bound {
                    let what = format!("host{node} does not have the binding of phone{phone}");
                    return Err(violation(self.name(), what, None));
                }
            }
            let (other, of_other) = first.get_or_insert_with(|| (node, bound.clone()));
            if let Some(differs) = of_other.symmetric_difference(&bound).next() {
                let what = format!("host{other} and host{node} differ about {differs:?}");
                return Err(violation(self.name(), what, None));
            }
        }
        Ok(())
    }
}
