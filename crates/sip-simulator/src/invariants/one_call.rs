//! One call: however often a caller repeats its INVITE, each callee sees one INVITE transaction for it, and none after it
//! has been refused; and however often a request is repeated, its sender sees one final response, beside the 2xx of
//! whoever accepts the call. Senders that prove nothing are refused without state, and what they repeat is judged anew.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::{Host, Method};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Tables below this size may refuse a request statelessly and take its repetition: then 503 comes beside the answer.
const AMPLE: u64 = 1000;

#[derive(Debug)]
struct Final {
    at: Time,
    status: u16,
    to_tag: Vec<u8>,
}

/// Branches by address and Request-URI.
type Targets = BTreeMap<(SocketAddr, Vec<u8>), Vec<u8>>;

/// The rule.
#[derive(Debug, Default)]
pub struct OneCall {
    /// Machine and transaction at the caller: where it was forwarded to (address, Request-URI), and the branch it went with.
    forwarded: BTreeMap<(usize, u64), Targets>,
    /// Machine and transaction: the first final response that was sent.
    finals: BTreeMap<(usize, u64), Final>,
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
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Sent {
                from: Party::Host(host),
                destination,
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() && seen.method == Method::Invite {
                    self.invite_left(facts, now, host, destination, seen)
                } else if seen.is_request() {
                    self.forwarded
                        .entry((host, seen.upstream_transaction()))
                        .or_default();
                    Ok(())
                } else if seen.is_final() && has_one_answer(seen) {
                    self.final_left(facts, now, host, seen)
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
                self.forwarded.retain(|(other, _), _| *other != host);
                self.finals.retain(|(other, _), _| *other != host);
                self.asked.retain(|(other, _)| *other != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether the sender of an INVITE proves nothing to a machine. Such a one is refused without state: what comes again is judged anew.
fn is_stranger(facts: &Facts, host: usize, seen: &Seen<'_>) -> bool {
    let host = &facts.hosts[host];
    let is_local = seen.message.from_uri().is_some_and(|uri| match uri.host {
        Host::Name(name) => name.eq_ignore_ascii_case(host.domain.as_bytes()),
        Host::Address(_) => false,
    });
    !is_local || !host.challenged.iter().any(|method| method == "INVITE")
}

impl OneCall {
    fn invite_left(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        destination: SocketAddr,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let key = (host, seen.upstream_transaction());
        let refused = self.finals.get(&key).filter(|before| {
            let overloaded = before.status == 503 && facts.hosts[host].bounds.servers < AMPLE;
            before.status >= 300
                && !is_challenge(before.status)
                && !overloaded
                && !is_stranger(facts, host, seen)
                && is_remembered(facts, host, before, now)
        });
        let fresh = !self.forwarded.contains_key(&key);
        if let Some(refused) = refused.filter(|_| fresh) {
            let what = format!(
                "host{host} forwarded an INVITE after it had been answered with {}",
                refused.status
            );
            return Err(violation(self.name(), what, Some(seen.call_id)));
        }
        let targets = self.forwarded.entry(key).or_default();
        let uri = seen.message.request_uri().to_vec();
        let first = targets
            .entry((destination, uri))
            .or_insert_with(|| seen.branch.to_vec());
        if first == seen.branch {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (uri, one, other) = (
            text(seen.message.request_uri()),
            text(first),
            text(seen.branch),
        );
        let what = format!(
            "host{host} forwarded one INVITE to {uri} as two transactions, {one} and {other}"
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }

    fn final_left(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let key = (host, seen.transaction());
        if !self.asked.contains(&key) {
            return Ok(());
        }
        let first = self.finals.entry(key).or_insert_with(|| Final {
            at: now,
            status: seen.status,
            to_tag: seen.to_tag.to_vec(),
        });
        if !is_remembered(facts, host, first, now) {
            return Ok(());
        }
        let same = first.status == seen.status && first.to_tag == seen.to_tag;
        let overloaded =
            facts.hosts[host].bounds.servers < AMPLE && (seen.status == 503 || first.status == 503);
        // What was refused here, before it went anywhere, may be refused for another reason when it is judged anew.
        let nowhere = first.status >= 300
            && (!self.forwarded.contains_key(&key) || is_stranger(facts, host, seen));
        // Section 16.7: a 2xx passes whatever went before, of each callee of a fork.
        if same || seen.is_acceptance() || overloaded || nowhere {
            return Ok(());
        }
        let method = String::from_utf8_lossy(seen.method.as_bytes()).into_owned();
        let tags = (
            String::from_utf8_lossy(&first.to_tag),
            String::from_utf8_lossy(seen.to_tag),
        );
        let what = format!(
            "host{host} sent two final responses to one {method}: {} with tag {}, then {} with tag {}",
            first.status, tags.0, seen.status, tags.1
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}

/// Whether the server transaction that gave this response is still there: timer J, or H.
fn is_remembered(facts: &Facts, host: usize, given: &Final, now: Time) -> bool {
    let kept = (facts.hosts[host].bounds.t1 * 64).saturating_sub(facts.lateness);
    now.saturating_since(given.at) < kept
}

/// A REGISTER may be judged anew whenever it comes, and a CANCEL finds nothing to cancel once its INVITE is over.
fn has_one_answer(seen: &Seen<'_>) -> bool {
    !matches!(seen.method, Method::Register | Method::Cancel)
}

/// A challenge keeps no state: the repetition of a challenged request is judged anew.
const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}
