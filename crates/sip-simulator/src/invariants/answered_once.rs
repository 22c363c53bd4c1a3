//! No answered call is lost, and no call is answered twice: a callee that accepts a call gets the ACK of its caller, or a BYE, and a caller
//! gets the 2xx of one callee. The rule is for worlds without forks, whose phones do not give up a call that they place. A network that loses messages, and
//! machines that fail, only delay it.
use crate::observe::{Facts, Invariant, Observation, Party, Violation, violation};
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
#[derive(Debug, Default)]
pub struct AnsweredOnce {
    /// The Call-ID of each dialog that a callee has accepted and of whose caller it has heard nothing since.
    unacknowledged: BTreeMap<u64, Vec<u8>>,
    acknowledged: BTreeSet<u64>,
    /// The To tag of the 2xx that each caller has got, by phone and transaction.
    answers: BTreeMap<(usize, u64), Vec<u8>>,
}

impl Invariant for AnsweredOnce {
    fn name(&self) -> &'static str {
        "answered_once"
    }

    fn observe(
        &mut self,
        _: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match observation {
            Observation::Sent {
                from: Party::Phone(_),
                seen: Some(seen),
                ..
            } if seen.is_acceptance() && !self.acknowledged.contains(&seen.dialog()) => {
                self.unacknowledged
                    .insert(seen.dialog(), seen.call_id.to_vec());
            }
            Observation::Delivered {
                to: Party::Phone(_),
                seen: Some(seen),
                ..
            } if seen.is_request() && matches!(seen.method, Method::Ack | Method::Bye) => {
                for dialog in [seen.dialog(), seen.dialog_of_receiver()] {
                    self.unacknowledged.remove(&dialog);
                    self.acknowledged.insert(dialog);
                }
            }
            Observation::Delivered {
                to: Party::Phone(phone),
                seen: Some(seen),
                ..
            } if seen.is_acceptance() => {
                let first = self.answers.entry((*phone, seen.transaction()));
                if first.or_insert_with(|| seen.to_tag.to_vec()) != seen.to_tag {
                    let what = format!("two callees have accepted one call of phone{phone}");
                    return Err(violation(self.name(), what, Some(seen.call_id)));
                }
            }
            Observation::Quiet { .. } => {
                if let Some(call_id) = self.unacknowledged.values().next() {
                    let what = "a callee that accepted a call never heard of its caller".to_owned();
                    return Err(violation(self.name(), what, Some(call_id)));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
