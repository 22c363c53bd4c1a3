//! Sessions (RFC 4028): no dialog outlives the session interval or the longest life of a dialog, and a machine hangs up only then, or when a
//! phone did and its BYE was rejected. A call
//! whose phones refresh it in time goes on. The BYEs of the machine are in order with the requests of the phones.
use crate::observe::{
    Facts, Invariant, Observation, Party, SavedDialog, Seen, Violation, dialog, hash, violation,
};
use sip_dialog::{CallEvent, Change, Ended};
use sip_message::{HeaderName, Method, SessionInterval};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The shortest session interval (section 4).
const SHORTEST: Duration = Duration::from_secs(90);

/// A confirmed dialog.
#[derive(Debug)]
struct Dialog {
    key: u64,
    call_id: Box<[u8]>,
    /// When it ends, counted from the first 2xx that refreshed it, and from the last one of its retransmissions.
    earliest: Time,
    latest: Time,
}

/// The rule.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By machine and id.
    live: BTreeMap<(usize, u128), Dialog>,
    /// Dialogs that have ended, until they have left the disk.
    ended: BTreeMap<(usize, u128), Dialog>,
    /// The 2xx of each machine to INVITE and UPDATE.
    answers: BTreeSet<(usize, u64)>,
    /// The BYEs of each machine. Their retransmissions come after the end of the dialog.
    byes: BTreeSet<(usize, u64)>,
    /// The BYEs of phones, by machine and dialog of the sender. The machine may repeat one that was rejected.
    asked: BTreeSet<(usize, u64)>,
    /// The deadlines of the dialogs that are confirmed in this round, by machine and dialog of the caller.
    agreed: BTreeMap<(usize, u64), Time>,
    /// The machines that have crashed and not started again.
    down: BTreeSet<usize>,
}

impl Invariant for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
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
            } => self.sent(facts, now, host, seen),
            Observation::Delivered {
                to: Party::Host(_),
                seen: Some(seen),
                ..
            } if seen.method == Method::Bye && seen.status == 500 && !seen.is_forwarded() => {
                let what = "a BYE of a machine was out of order".to_owned();
                Err(violation(self.name(), what, Some(seen.call_id)))
            }
            Observation::Delivered {
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if seen.method == Method::Bye && seen.is_request() => {
                self.asked.insert((host, seen.dialog()));
                Ok(())
            }
            Observation::Call { host, event } => self.changed(facts, now, host, event),
            Observation::Ran { .. } => {
                self.agreed.clear();
                Ok(())
            }
            Observation::Crashed { host } => {
                self.down.insert(host);
                Ok(())
            }
            Observation::Booted { host, .. } => {
                self.down.remove(&host);
                self.live
                    .retain(|(other, _), dialog| *other != host || dialog.latest > now);
                Ok(())
            }
            Observation::SavedDialogs { host, saved } if self.down.contains(&host) => {
                self.lose_unsaved(host, saved);
                Ok(())
            }
            Observation::SavedDialogs { host, saved } => {
                self.ended
                    .retain(|(other, id), _| *other != host || is_saved(saved, *id));
                self.none_is_over(facts, now, host)
            }
            _ => Ok(()),
        }
    }
}

impl Sessions {
    fn sent(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        if seen.is_request() && seen.method == Method::Bye && !seen.is_forwarded() {
            let is_new = self.byes.insert((host, seen.transaction()));
            return if is_new {
                self.hangs_up(now, host, seen)
            } else {
                Ok(())
            };
        }
        let is_refresh = matches!(seen.method, Method::Invite | Method::Update);
        let answer = (
            host,
            hash(&[&seen.transaction().to_le_bytes(), seen.to_tag]),
        );
        if is_refresh && seen.status / 100 == 2 {
            let is_first = self.answers.insert(answer);
            let deadline = now + lifetime(facts, host, seen);
            let keys = [seen.dialog(), seen.dialog_of_receiver()];
            for ((other, _), dialog) in &mut self.live {
                if *other == host && keys.contains(&dialog.key) {
                    dialog.refresh(deadline, is_first);
                }
            }
            self.agreed.insert((host, seen.dialog()), deadline);
        }
        Ok(())
    }

    fn hangs_up(&self, now: Time, host: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        let keys = [seen.dialog(), seen.dialog_of_receiver()];
        let mut live = self.live.iter();
        let is_over = live.any(|((other, _), dialog)| {
            *other == host && keys.contains(&dialog.key) && dialog.earliest <= now
        });
        if is_over || self.asked.contains(&(host, seen.dialog())) {
            return Ok(());
        }
        let what = format!("host{host} hung up a call whose session is not over");
        Err(violation(self.name(), what, Some(seen.call_id)))
    }

    fn changed(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        event: &CallEvent,
    ) -> Result<(), Violation> {
        let call = &event.call;
        let place = (host, call.id);
        let key = dialog(&call.call_id, &call.from_tag, &call.to_tag);
        match event.change {
            Change::Answered => {
                let agreed = self.agreed.get(&(host, key)).copied();
                let longest = facts.hosts[host].bounds.dialog_lifetime;
                let deadline = agreed.unwrap_or(now + longest);
                let call_id = call.call_id.clone();
                let dialog = Dialog {
                    key,
                    call_id,
                    earliest: deadline,
                    latest: deadline,
                };
                self.live.insert(place, dialog);
            }
            Change::Ended(ended) => {
                let dialog = self.live.remove(&place);
                let is_early = (dialog.as_ref()).is_some_and(|dialog| dialog.earliest > now);
                self.ended.extend(dialog.map(|dialog| (place, dialog)));
                if ended == Ended::Expired && is_early {
                    let what = format!("host{host} ended a call whose session is not over");
                    return Err(violation(self.name(), what, Some(&call.call_id)));
                }
            }
            Change::Started | Change::Ringing => {}
        }
        Ok(())
    }

    fn none_is_over(&self, facts: &Facts, now: Time, host: usize) -> Result<(), Violation> {
        let of_host = self.live.range((host, 0)..=(host, u128::MAX));
        let mut over = of_host.filter(|(_, dialog)| dialog.latest + facts.lateness < now);
        match over.next() {
            Some((_, dialog)) => {
                let what = format!("a call of host{host} has outlived its session");
                Err(violation(self.name(), what, Some(&dialog.call_id)))
            }
            None => Ok(()),
        }
    }

    /// The machine has crashed. What is not on its disk has ended, and what is there lives again. A refresh that is not there does not
    /// count.
    fn lose_unsaved(&mut self, host: usize, saved: &[SavedDialog]) {
        for saved in saved {
            let place = (host, saved.id);
            self.live
                .extend(self.ended.remove(&place).map(|dialog| (place, dialog)));
        }
        self.live.retain(|(other, id), dialog| {
            let saved = saved.iter().find(|saved| saved.id == *id);
            if let Some(saved) = saved.filter(|_| *other == host) {
                (dialog.earliest, dialog.latest) = (saved.expires, saved.expires);
            }
            *other != host || saved.is_some()
        });
    }
}

impl Dialog {
    fn refresh(&mut self, deadline: Time, is_first: bool) {
        if is_first {
            self.earliest = deadline;
            self.latest = deadline;
        } else {
            self.latest = self.latest.max(deadline);
        }
    }
}

fn is_saved(saved: &[SavedDialog], id: u128) -> bool {
    saved.iter().any(|saved| saved.id == id)
}

/// How long a dialog lives after this 2xx, as its sender sees it.
fn lifetime(facts: &Facts, host: usize, seen: &Seen<'_>) -> Duration {
    let facts = &facts.hosts[host];
    let stated = seen.message.header(HeaderName::SessionExpires);
    let stated = stated.and_then(SessionInterval::parse);
    let agreed = stated.filter(|_| facts.session_timers);
    let longest = facts.bounds.dialog_lifetime;
    agreed.map_or(longest, |agreed| {
        let interval = Duration::from_secs(agreed.seconds.into());
        interval.max(SHORTEST).min(longest)
    })
}
