//! One call: each callee sees one INVITE transaction, however often the caller retransmits its INVITE, and none after a rejection. The
//! sender of a request sees one final response, however often it retransmits, in addition to the 2xx of the phones that accept the call.
//! Requests of unproven senders are rejected without state, and their retransmissions are new requests.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::{Host, Method};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Machines with smaller tables may reject a request statelessly and accept its retransmission. The sender then sees a 503 and another
/// response.
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
    /// By machine and upstream transaction: where the INVITE was forwarded to (address, Request-URI), with which branch.
    forwarded: BTreeMap<(usize, u64), Targets>,
    /// By machine and transaction: the first final response that was sent.
    finals: BTreeMap<(usize, u64), Final>,
    /// Machine and transaction of the requests that the machine received since its start. It may also relay a 2xx of an earlier request.
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
            // A crash loses all state.
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

/// Whether the sender of an INVITE is unproven for a machine. The INVITE is then rejected without state, and a retransmission is a new
/// request.
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
        // A request that was rejected before it was forwarded may be rejected for another reason when it is retransmitted.
        let nowhere = first.status >= 300
            && (!self.forwarded.contains_key(&key) || is_stranger(facts, host, seen));
        // Section 16.7: every 2xx of every callee of a fork passes, whatever was sent before.
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

/// Whether the server transaction that sent this response still exists (timer J or H).
fn is_remembered(facts: &Facts, host: usize, given: &Final, now: Time) -> bool {
    let kept = (facts.hosts[host].bounds.t1 * 64).saturating_sub(facts.lateness);
    now.saturating_since(given.at) < kept
}

/// Whether retransmissions must get the same response. A REGISTER may be processed again at any time, and a CANCEL finds nothing to cancel
/// after its INVITE has ended.
fn has_one_answer(seen: &Seen<'_>) -> bool {
    !matches!(seen.method, Method::Register | Method::Cancel)
}

/// A challenge keeps no state, so a retransmission of the challenged request is a new request.
const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}
