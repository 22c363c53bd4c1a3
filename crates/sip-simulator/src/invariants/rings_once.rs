//! A phone rings once for a call: it gets an INVITE in one transaction only (RFC 3261 section 8.2.2.2). A machine that takes over a call from
//! another one must therefore send what that one has sent.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
use sip_message::Method;
use sip_transport::Time;
use std::collections::BTreeMap;

/// The rule.
#[derive(Debug, Default)]
pub struct RingsOnce {
    /// The branch in which each phone got each INVITE.
    branches: BTreeMap<(usize, u64), Vec<u8>>,
}

impl Invariant for RingsOnce {
    fn name(&self) -> &'static str {
        "rings_once"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        let Observation::Delivered {
            from: Party::Host(_),
            to: Party::Phone(phone),
            seen: Some(seen),
            ..
        } = observation
        else {
            return Ok(());
        };
        let begins_call =
            seen.is_request() && seen.method == Method::Invite && seen.to_tag.is_empty();
        if !begins_call || !facts.phones[*phone].honest {
            return Ok(());
        }
        let first = self.branches.entry((*phone, request(seen)));
        let first = first.or_insert_with(|| seen.branch.to_vec());
        if first == seen.branch {
            return Ok(());
        }
        let what = format!("phone{phone} got one INVITE in two transactions");
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}

/// Identifies an INVITE at its callee, whatever way it takes.
fn request(seen: &Seen<'_>) -> u64 {
    hash(&[
        seen.call_id,
        seen.from_tag,
        &seen.cseq.to_le_bytes(),
        seen.message.request_uri(),
    ])
}
