//! One call: however often a caller repeats its INVITE, a callee sees one INVITE transaction for it; and however often
//! a request is repeated, its sender sees one final response, beside the 2xx of whoever accepts the call.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Tables below this size may refuse a request statelessly and take its repetition: then 503 comes beside the answer.
const AMPLE: u64 = 1000;

#[derive(Debug)]
struct Final {
    status: u16,
    to_tag: Vec<u8>,
}

/// The rule.
#[derive(Debug, Default)]
pub struct OneCall {
    /// Phone, machine, and transaction at the caller and Request-URI of an INVITE: the branch it came with.
    branches: BTreeMap<(usize, usize, u64), Vec<u8>>,
    /// Machine, phone and transaction: the first final response that was sent.
    finals: BTreeMap<(usize, usize, u64), Final>,
    /// Machine and transaction of the requests it has got in its present life. It may pass on a 2xx of an earlier one.
    asked: BTreeSet<(usize, u64)>,
}

impl Invariant for OneCall {
    fn name(&self) -> &'static str {
        "one_call"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Sent {
                from: Party::Host(host),
                to: Party::Phone(phone),
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() && seen.method == Method::Invite {
                    self.invite(host, phone, seen)
                } else if seen.is_final() && has_one_answer(seen) {
                    self.response(facts, host, phone, seen)
                } else {
                    Ok(())
                }
            }
            Observation::Delivered {
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if seen.is_request() => {
                self.asked.insert((host, seen.transaction()));
                Ok(())
            }
            // Nobody remembers over a crash.
            Observation::Crashed { host } => {
                self.branches.retain(|(_, other, _), _| *other != host);
                self.finals.retain(|(other, _, _), _| *other != host);
                self.asked.retain(|(other, _)| *other != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl OneCall {
    fn invite(&mut self, host: usize, phone: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        let upstream = seen.upstream_transaction().to_le_bytes();
        let call = hash(&[&upstream, seen.message.request_uri()]);
        let first = self
            .branches
            .entry((phone, host, call))
            .or_insert_with(|| seen.branch.to_vec());
        if first == seen.branch {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (one, other) = (text(first), text(seen.branch));
        let what = format!("phone{phone} got one INVITE as two transactions, {one} and {other}");
        Err(violation(self.name(), what, Some(seen.call_id)))
    }

    fn response(
        &mut self,
        facts: &Facts,
        host: usize,
        phone: usize,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        if !self.asked.contains(&(host, seen.transaction())) {
            return Ok(());
        }
        let first = self
            .finals
            .entry((host, phone, seen.transaction()))
            .or_insert_with(|| Final {
                status: seen.status,
                to_tag: seen.to_tag.to_vec(),
            });
        let same = first.status == seen.status && first.to_tag == seen.to_tag;
        let overloaded =
            facts.hosts[host].bounds.servers < AMPLE && (seen.status == 503 || first.status == 503);
        // Section 16.7: a 2xx passes whatever went before, of each callee of a fork.
        // A challenge keeps no state: whoever repeats a request may be challenged anew, or refused for another reason.
        let challenged = [first.status, seen.status]
            .iter()
            .any(|status| matches!(status, 401 | 407));
        if same || seen.is_acceptance() || overloaded || challenged {
            return Ok(());
        }
        let method = String::from_utf8_lossy(seen.method.as_bytes()).into_owned();
        let tags = (
            String::from_utf8_lossy(&first.to_tag),
            String::from_utf8_lossy(seen.to_tag),
        );
        let what = format!(
            "phone{phone} was sent two final responses to one {method}: {} with tag {}, then {} with tag {}",
            first.status, tags.0, seen.status, tags.1
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}

/// A REGISTER may be judged anew whenever it comes, and a CANCEL finds nothing to cancel once its INVITE is over.
fn has_one_answer(seen: &Seen<'_>) -> bool {
    !matches!(seen.method, Method::Register | Method::Cancel)
}
