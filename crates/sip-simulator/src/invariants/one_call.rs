//! One call: however often a caller repeats its INVITE, a callee sees one INVITE transaction for it; and however often
//! a request is repeated, its sender sees one final response, of a fork's 2xx one for each callee.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
use sip_message::Method;
use sip_transport::Time;
use std::collections::BTreeMap;

/// Tables below this size may refuse a request statelessly and take its repetition: then 503 comes beside the answer.
const AMPLE: u64 = 1000;

#[derive(Debug)]
struct Final {
    status: u16,
    to_tag: Vec<u8>,
    /// How often the answering machine had started.
    lives: u32,
}

/// The rule.
#[derive(Debug, Default)]
pub struct OneCall {
    /// Phone, machine, its lives, and call, From tag, `CSeq` and Request-URI of an INVITE: the branch it came with.
    branches: BTreeMap<(usize, usize, u32, u64), Vec<u8>>,
    /// Phone and transaction: the first final response.
    finals: BTreeMap<(usize, u64), Final>,
    lives: BTreeMap<usize, u32>,
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
            Observation::Booted { host } => {
                *self.lives.entry(host).or_default() += 1;
                Ok(())
            }
            Observation::Delivered {
                from: Party::Host(host),
                to: Party::Phone(phone),
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() && seen.method == Method::Invite {
                    self.invite(host, phone, seen)
                } else if seen.is_final() {
                    self.response(facts, host, phone, seen)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}

impl OneCall {
    fn invite(&mut self, host: usize, phone: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        let lives = self.lives.get(&host).copied().unwrap_or(0);
        let call = hash(&[
            seen.call_id,
            seen.from_tag,
            &seen.cseq.to_le_bytes(),
            seen.message.request_uri(),
        ]);
        let first = self
            .branches
            .entry((phone, host, lives, call))
            .or_insert_with(|| seen.branch.to_vec());
        if first == seen.branch {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let what = format!(
            "phone{phone} got one INVITE as two transactions, {} and {}",
            text(first),
            text(seen.branch)
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }

    fn response(
        &mut self,
        facts: &Facts,
        host: usize,
        phone: usize,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let lives = self.lives.get(&host).copied().unwrap_or(0);
        let first = self
            .finals
            .entry((phone, seen.transaction()))
            .or_insert_with(|| Final {
                status: seen.status,
                to_tag: seen.to_tag.to_vec(),
                lives,
            });
        let forked = seen.is_acceptance() && first.status / 100 == 2;
        let same = first.status == seen.status && first.to_tag == seen.to_tag;
        let overloaded =
            facts.hosts[host].bounds.servers < AMPLE && (seen.status == 503 || first.status == 503);
        if same || forked || first.lives != lives || overloaded {
            return Ok(());
        }
        let method = String::from_utf8_lossy(seen.method.as_bytes()).into_owned();
        let tags = (
            String::from_utf8_lossy(&first.to_tag),
            String::from_utf8_lossy(seen.to_tag),
        );
        let what = format!(
            "phone{phone} got two final responses to one {method}: {} with tag {}, then {} with tag {}",
            first.status, tags.0, seen.status, tags.1
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}
