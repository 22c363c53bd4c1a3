//! Records: every INVITE that a machine record-routes and forwards has exactly one record, and so has every further callee that accepts
//! it. The record is lost only with the machine. Its times are in order, and it names the party that ended the call.
use crate::observe::{
    Facts, Invariant, Observation, Party, SavedDialog, Seen, Violation, dialog, hash, violation,
};
use sip_dialog::{CallEvent, CallRecord, Change, Ended};
use sip_message::{HeaderName, Host, Method, NameAddr, Uri};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Machine and record.
type Key = (usize, u128);

/// How far a call is, as its events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Started,
    Ringing,
    Answered,
}

/// The INVITEs of one caller with the same Call-ID, at one machine.
#[derive(Debug, Default)]
struct Attempts {
    /// The INVITEs that the machine has forwarded since it started, by their transaction upstream.
    invites: BTreeSet<u64>,
    /// Those of them, and of its earlier lives, that are not cancelled.
    wanted: BTreeSet<u64>,
    /// The INVITEs whose CANCEL was accepted.
    cancelled: BTreeSet<u64>,
    /// The 2xx that went upstream, by transaction and tag.
    accepted: BTreeSet<(u64, u64)>,
    /// The statuses of the rejections that went upstream.
    refused: BTreeSet<u16>,
    rang: bool,
    /// Events of each kind.
    started: usize,
    answered: usize,
}

/// The rule.
#[derive(Debug, Default)]
pub struct Records {
    /// By machine, Call-ID and From tag.
    attempts: BTreeMap<(usize, u64), Attempts>,
    /// Calls without a record, with their Call-ID.
    open: BTreeMap<Key, (Stage, Box<[u8]>)>,
    /// Calls with a record.
    closed: BTreeMap<Key, Box<[u8]>>,
    /// ACKs and BYEs that have arrived, by machine and dialog of the sender.
    acks: BTreeMap<(usize, u64), Time>,
    byes: BTreeSet<(usize, u64)>,
    /// Calls that a machine knew again after a crash. They count as acknowledged.
    restored: BTreeSet<Key>,
    /// The machines that have crashed and not started again, with the dialogs on their disks.
    down: BTreeMap<usize, Vec<SavedDialog>>,
    /// The attempts that changed in this round.
    touched: BTreeSet<(usize, u64)>,
}

impl Invariant for Records {
    fn name(&self) -> &'static str {
        "records"
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
                seen: Some(seen),
                ..
            } => self.sent(&facts.hosts[host].listeners, host, seen),
            Observation::Delivered {
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if seen.is_request() => self.arrived(now, host, seen),
            Observation::Call { host, event } => {
                let complaint = self.changed(facts, now, host, event);
                return complaint.map_or(Ok(()), |what| {
                    let (change, call_id) = (event.change, &event.call.call_id);
                    let what = format!("{what}: {change:?} at host{host}");
                    Err(violation(self.name(), what, Some(call_id)))
                });
            }
            Observation::Ran { .. } => return self.all_have_begun(),
            Observation::Crashed { host } => self.crashed(host),
            Observation::SavedDialogs { host, saved } if self.down.contains_key(&host) => {
                self.lose_unsaved(host, saved);
                self.down.insert(host, saved.to_vec());
            }
            Observation::Booted { host, .. } => {
                let saved = self.down.remove(&host).unwrap_or_default();
                for over in saved.iter().filter(|saved| saved.expires <= now) {
                    self.open.remove(&(host, over.id));
                }
            }
            Observation::Quiet { .. } => return self.all_have_ended(),
            _ => {}
        }
        Ok(())
    }
}

impl Records {
    fn sent(&mut self, listeners: &[SocketAddr], host: usize, seen: &Seen<'_>) {
        if seen.method != Method::Invite {
            if seen.method == Method::Cancel && seen.status == 200 {
                let invite = seen.invite_transaction();
                let attempts = self.of(host, seen);
                attempts.cancelled.insert(invite);
                attempts.wanted.remove(&invite);
            }
            return;
        }
        let transaction = seen.transaction();
        let tag = hash(&[seen.to_tag]);
        match seen.status {
            0 if seen.to_tag.is_empty() && is_recorded(listeners, seen) => {
                let upstream = seen.upstream_transaction();
                let attempts = self.of(host, seen);
                attempts.invites.insert(upstream);
                if !attempts.cancelled.contains(&upstream) {
                    attempts.wanted.insert(upstream);
                }
                self.touched.insert(key_of(host, seen));
            }
            101..200 => self.of(host, seen).rang = true,
            200..300 => drop(self.of(host, seen).accepted.insert((transaction, tag))),
            300.. => drop(self.of(host, seen).refused.insert(seen.status)),
            _ => {}
        }
    }

    fn arrived(&mut self, now: Time, host: usize, seen: &Seen<'_>) {
        let place = (host, seen.dialog());
        if seen.method == Method::Ack {
            self.acks.entry(place).or_insert(now);
        } else if seen.method == Method::Bye {
            self.byes.insert(place);
        }
    }

    fn of(&mut self, host: usize, seen: &Seen<'_>) -> &mut Attempts {
        self.attempts.entry(key_of(host, seen)).or_default()
    }

    /// Takes an event of a call. Returns what is wrong with it.
    fn changed(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        event: &CallEvent,
    ) -> Option<&'static str> {
        let call = &*event.call;
        if !is_in_order(now, call) {
            return Some("the times of a call are not in order");
        }
        let key = (host, call.id);
        let stage = self.open.get(&key).map(|(stage, _)| *stage);
        let place = (host, hash(&[&call.call_id, &call.from_tag]));
        let attempts = self.attempts.entry(place).or_default();
        let (next, is_due) = match event.change {
            Change::Started => {
                attempts.started += 1;
                self.touched.insert(place);
                (Stage::Started, stage.is_none())
            }
            Change::Ringing => {
                let is_due = stage == Some(Stage::Started) && attempts.rang;
                (Stage::Ringing, is_due)
            }
            Change::Answered => {
                attempts.answered += 1;
                let is_accepted = attempts.answered <= attempts.accepted.len();
                (
                    Stage::Answered,
                    stage < Some(Stage::Answered) && is_accepted,
                )
            }
            Change::Ended(ended) => return self.ended(facts, now, (key, stage), (call, ended)),
        };
        self.open.insert(key, (next, call.call_id.clone()));
        let is_due = is_due && !self.closed.contains_key(&key);
        (!is_due).then_some("an event of a call came twice, too early or too late")
    }

    fn ended(
        &mut self,
        facts: &Facts,
        now: Time,
        (key, stage): (Key, Option<Stage>),
        (call, ended): (&CallRecord, Ended),
    ) -> Option<&'static str> {
        // The INVITE of a call with no next hop was not forwarded.
        let is_begun = stage.is_some() || (call.attempts == 0 && call.answered.is_none());
        self.open.remove(&key);
        let before = self.closed.insert(key, call.call_id.clone());
        if !is_begun || before.is_some() {
            return Some("a call has a record too many");
        }
        if call.ended.is_none() || (call.answered.is_some()) != (stage == Some(Stage::Answered)) {
            return Some("a record does not say what its events say");
        }
        let is_right = match call.answered {
            Some(answered) => {
                self.is_right_after_answer(facts, now, key.0, (call, answered, ended))
            }
            None => self.is_right_before_answer(key.0, call, ended),
        };
        (!is_right).then_some("a record does not say who ended the call")
    }

    fn is_right_before_answer(&self, host: usize, call: &CallRecord, ended: Ended) -> bool {
        let place = (host, hash(&[&call.call_id, &call.from_tag]));
        let Some(attempts) = self.attempts.get(&place) else {
            return false;
        };
        // A stranger may have sent the INVITE of another phone again.
        let is_wanted = call.attempts == 0 || !attempts.wanted.is_empty();
        let is_sent = attempts.refused.contains(&call.status);
        match ended {
            Ended::ByCaller => !attempts.cancelled.is_empty(),
            Ended::NoAnswer => is_wanted && is_sent && call.status == 408,
            Ended::Refused => is_wanted && is_sent && call.status != 408,
            Ended::ByCallee | Ended::NoAck | Ended::Expired | Ended::ByOperator => false,
        }
    }

    fn is_right_after_answer(
        &self,
        facts: &Facts,
        now: Time,
        host: usize,
        (call, answered, ended): (&CallRecord, Time, Ended),
    ) -> bool {
        let bounds = &facts.hosts[host].bounds;
        let caller = dialog_of(call);
        let callee = dialog(&call.call_id, &call.to_tag, &call.from_tag);
        let has_bye = |party| self.byes.contains(&(host, party));
        let acknowledged = self.acks.get(&(host, caller));
        let patience = (bounds.t1 * 64).min(bounds.dialog_lifetime);
        match ended {
            Ended::ByCaller => has_bye(caller),
            Ended::ByCallee => {
                let is_restored = self.restored.contains(&(host, call.id));
                has_bye(callee) && (acknowledged.is_some() || is_restored)
            }
            // The ACK may be on its way to another worker.
            Ended::NoAck => {
                let is_late = |at: &Time| *at + facts.lateness >= now;
                let is_over = has_bye(callee) || now >= answered + patience;
                acknowledged.is_none_or(is_late) && is_over
            }
            // `sessions` checks when.
            Ended::Expired => true,
            Ended::Refused | Ended::NoAnswer | Ended::ByOperator => false,
        }
    }

    /// Every forwarded INVITE has begun a call.
    fn all_have_begun(&mut self) -> Result<(), Violation> {
        for place in std::mem::take(&mut self.touched) {
            let Some(attempts) = self.attempts.get(&place) else {
                continue;
            };
            let (calls, invites) = (attempts.started, attempts.invites.len());
            if calls != invites {
                let what = format!(
                    "{invites} forwarded INVITEs of host{} have begun {calls} calls",
                    place.0
                );
                return Err(violation(self.name(), what, None));
            }
        }
        Ok(())
    }

    /// An INVITE that is sent again to the next life of the machine begins another call.
    fn crashed(&mut self, host: usize) {
        self.down.insert(host, Vec::new());
        for ((other, _), attempts) in &mut self.attempts {
            if *other == host {
                attempts.invites.clear();
                attempts.started = 0;
            }
        }
    }

    /// Calls that were not saved have no record. Calls whose end was not saved get their record again.
    fn lose_unsaved(&mut self, host: usize, saved: &[SavedDialog]) {
        let is_saved = |id: u128| saved.iter().any(|saved| saved.id == id);
        self.open
            .retain(|(other, id), _| *other != host || is_saved(*id));
        for saved in saved {
            let key = (host, saved.id);
            self.restored.insert(key);
            if let Some(call_id) = self.closed.remove(&key) {
                self.open.insert(key, (Stage::Answered, call_id));
            }
        }
    }

    fn all_have_ended(&self) -> Result<(), Violation> {
        match self.open.iter().next() {
            Some(((host, _), (_, call_id))) => {
                let what = format!("a call of host{host} has no record");
                Err(violation(self.name(), what, Some(call_id)))
            }
            None => Ok(()),
        }
    }
}

fn key_of(host: usize, seen: &Seen<'_>) -> (usize, u64) {
    (host, hash(&[seen.call_id, seen.from_tag]))
}

/// The dialog of the caller.
fn dialog_of(call: &CallRecord) -> u64 {
    dialog(&call.call_id, &call.from_tag, &call.to_tag)
}

fn is_in_order(now: Time, call: &CallRecord) -> bool {
    let times = [
        Some(call.started),
        call.ringing,
        call.answered,
        call.ended,
        Some(now),
    ];
    times.iter().flatten().is_sorted()
}

/// Whether the topmost Record-Route is the machine's own.
fn is_recorded(listeners: &[SocketAddr], seen: &Seen<'_>) -> bool {
    let topmost = seen.message.values(HeaderName::RecordRoute).next();
    let topmost = topmost.and_then(NameAddr::parse);
    let uri = topmost.and_then(|topmost| Uri::parse(topmost.uri_bytes));
    uri.is_some_and(|uri| match uri.host {
        Host::Address(ip) => listeners.contains(&SocketAddr::new(ip, uri.port.unwrap_or(5060))),
        Host::Name(_) => false,
    })
}
