//! No answered call is lost: a callee that accepts a call gets the ACK, and either party of an answered call can end it with a BYE that the
//! other one answers with 200. The rule is for fleets whose phones never vanish, in weather that retransmissions overcome.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use crate::phone::PhoneEvent;
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
#[derive(Debug, Default)]
pub struct NeverLost {
    /// The Call-ID of each BYE transaction of a phone that has no final response yet.
    open: BTreeMap<(usize, u64), Vec<u8>>,
    /// The last dialog in which each phone has accepted an INVITE.
    accepted: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The dialogs that a phone wants to end, from its point of view.
    ended: BTreeSet<u64>,
}

impl Invariant for NeverLost {
    fn name(&self) -> &'static str {
        "never_lost"
    }

    fn observe(
        &mut self,
        _: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match observation {
            Observation::Sent {
                from: Party::Phone(phone),
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() && seen.method == Method::Bye {
                    self.open
                        .insert((*phone, seen.transaction()), seen.call_id.to_vec());
                    self.ended.insert(seen.dialog());
                } else if seen.is_acceptance() {
                    let accepted = self.accepted.entry(*phone).or_default();
                    accepted.push(seen.call_id.to_vec());
                }
                Ok(())
            }
            Observation::Delivered {
                to: Party::Phone(phone),
                seen: Some(seen),
                ..
            } if seen.is_final() && seen.method == Method::Bye => self.answered(*phone, seen),
            Observation::Delivered {
                to: Party::Phone(phone),
                seen: Some(seen),
                ..
            } if seen.is_request() && seen.method == Method::Ack => {
                if let Some(accepted) = self.accepted.get_mut(phone) {
                    accepted.retain(|call_id| call_id != seen.call_id);
                }
                Ok(())
            }
            Observation::Phone { phone, event } => self.reported(*phone, event),
            _ => Ok(()),
        }
    }
}

impl NeverLost {
    /// A BYE has its first final response. 481 is right if both parties end the call at the same time.
    fn answered(&mut self, phone: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        if self.open.remove(&(phone, seen.transaction())).is_none() {
            return Ok(());
        }
        let crossed = self.ended.contains(&seen.dialog_of_receiver());
        let is_right = match seen.status {
            200..300 | 401 | 407 => true,
            481 => crossed,
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        let what = format!("the BYE of phone{phone} was answered with {}", seen.status);
        Err(violation(self.name(), what, Some(seen.call_id)))
    }

    fn reported(&self, phone: usize, event: &PhoneEvent) -> Result<(), Violation> {
        match event {
            PhoneEvent::Final {
                method: Method::Bye,
                timed_out: true,
                ..
            } => {
                let mut open = self.open.iter().filter(|((other, _), _)| *other == phone);
                let call_id = open.next().map(|(_, call_id)| &call_id[..]);
                let what = format!("the BYE of phone{phone} was not answered");
                Err(violation(self.name(), what, call_id))
            }
            PhoneEvent::CallUnacknowledged => {
                let accepted = self.accepted.get(&phone).and_then(|calls| calls.first());
                let what = format!("phone{phone} accepted a call and never got the ACK");
                Err(violation(self.name(), what, accepted.map(|id| &id[..])))
            }
            _ => Ok(()),
        }
    }
}
