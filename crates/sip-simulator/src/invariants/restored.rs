//! Restored: a confirmed dialog is on the disk of its machine, and one that has ended is not, except for the changes of the last
//! moments. After a crash the machine knows exactly the dialogs on its disk. A dialog ends with its BYE, before a crash and after it.
use crate::observe::{
    Facts, Invariant, Observation, Party, SavedDialog, Seen, Violation, dialog, violation,
};
use sip_dialog::{CallEvent, CallRecord, Change};
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A confirmed dialog.
#[derive(Clone, Debug)]
struct Dialog {
    /// Its Call-ID and tags.
    key: u64,
    call_id: Box<[u8]>,
    /// When it was confirmed or ended, or when its machine crashed.
    since: Time,
    /// When it ends, as far as the disk knows. Known only after a crash.
    expires: Option<Time>,
}

/// No machine of a world has so many client transactions at a time.
const PLENTY: u64 = 1_000;

/// Machine and dialog.
type Key = (usize, u128);

/// The rule.
#[derive(Debug, Default)]
pub struct Restored {
    live: BTreeMap<Key, Dialog>,
    /// Dialogs that have ended, until they have left the disk.
    ended: BTreeMap<Key, Dialog>,
    /// The machines that have crashed and not started again.
    down: BTreeSet<usize>,
    /// The BYEs that each machine has forwarded, by their transaction upstream.
    byes: BTreeSet<(usize, u64)>,
    /// The dialogs whose BYE was answered in this round.
    closing: Vec<u64>,
}

impl Invariant for Restored {
    fn name(&self) -> &'static str {
        "restored"
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
                to,
                seen: Some(seen),
                ..
            } if seen.method == Method::Bye && to != Party::Host(host) => {
                self.bye(facts, host, seen);
            }
            Observation::Call { host, event } => self.changed(now, host, event),
            Observation::Ran { host, .. } => return self.closed(host),
            Observation::SavedDialogs { host, saved } => {
                self.check_disk(facts, now, host, saved)?;
                if self.down.contains(&host) {
                    self.lose_unsaved(now, host, saved);
                }
            }
            Observation::Crashed { host } => {
                self.down.insert(host);
                self.byes.retain(|(other, _)| *other != host);
            }
            Observation::Booted { host, dialogs, .. } => return self.booted(now, host, dialogs),
            _ => {}
        }
        Ok(())
    }
}

impl Restored {
    /// A forwarded BYE ends its dialog with its final response, unless its sender repeats it with credentials. If the other party has refused
    /// it, the machine hangs up on that party itself; without room for that, the dialog goes on until its life is over.
    fn bye(&mut self, facts: &Facts, host: usize, seen: &Seen<'_>) {
        if seen.is_request() && seen.is_forwarded() {
            self.byes.insert((host, seen.upstream_transaction()));
        } else if seen.is_final() && !matches!(seen.status, 401 | 407) {
            // The same response again ends nothing.
            let is_forwarded = self.byes.remove(&(host, seen.transaction()));
            let has_room = || {
                let facts = facts.hosts.get(host);
                facts.is_some_and(|facts| facts.bounds.clients >= PLENTY)
            };
            if is_forwarded && (matches!(seen.status, 200..300 | 481) || has_room()) {
                self.closing
                    .extend([seen.dialog(), seen.dialog_of_receiver()]);
            }
        }
    }

    fn closed(&mut self, host: usize) -> Result<(), Violation> {
        let closing = std::mem::take(&mut self.closing);
        if closing.is_empty() {
            return Ok(());
        }
        let mut live = of_host(&self.live, host);
        match live.find(|(_, dialog)| closing.contains(&dialog.key)) {
            Some((_, dialog)) => {
                let what = format!("host{host} answered the BYE of a dialog that goes on");
                Err(violation(self.name(), what, Some(&dialog.call_id)))
            }
            None => Ok(()),
        }
    }

    fn changed(&mut self, now: Time, host: usize, event: &CallEvent) {
        let key = (host, event.call.id);
        match event.change {
            Change::Answered => {
                self.live.insert(key, Dialog::new(&event.call, now));
            }
            Change::Ended(_) => {
                if self.live.remove(&key).is_some() {
                    self.ended.insert(key, Dialog::new(&event.call, now));
                }
            }
            Change::Started | Change::Ringing => {}
        }
    }

    fn check_disk(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        saved: &[SavedDialog],
    ) -> Result<(), Violation> {
        let window = facts.hosts[host].bounds.save_window;
        let is_saved = |id: u128| saved.iter().any(|saved| saved.id == id);
        self.ended
            .retain(|(other, id), _| *other != host || is_saved(*id));
        let old = |dialog: &Dialog| now > dialog.since + window;
        let mut live = of_host(&self.live, host);
        let lost = live.find(|(id, dialog)| old(dialog) && !is_saved(**id));
        let mut ended = of_host(&self.ended, host);
        let kept = ended.find(|(_, dialog)| old(dialog));
        let is_known = |id: u128| {
            let key = (host, id);
            self.live.contains_key(&key) || self.ended.contains_key(&key)
        };
        let found = match (lost, kept) {
            (Some((_, dialog)), _) => ("a live dialog is not on the disk", Some(dialog)),
            (_, Some((_, dialog))) => ("a dialog that has ended is on the disk", Some(dialog)),
            _ if saved.iter().all(|saved| is_known(saved.id)) => return Ok(()),
            _ => ("a dialog that never was is on the disk", None),
        };
        let (what, dialog) = found;
        let call_id = dialog.map(|dialog| &*dialog.call_id);
        let what = format!("{what} of host{host}");
        Err(violation(self.name(), what, call_id))
    }

    /// The machine has crashed. Only what is on the disk lives on, or lives again.
    fn lose_unsaved(&mut self, now: Time, host: usize, saved: &[SavedDialog]) {
        let is_saved = |id: u128| saved.iter().any(|saved| saved.id == id);
        self.live
            .retain(|(other, id), _| *other != host || is_saved(*id));
        let (again, others) = std::mem::take(&mut self.ended)
            .into_iter()
            .partition(|((other, _), _)| *other == host);
        self.ended = others;
        self.live.extend::<BTreeMap<_, _>>(again);
        for saved in saved {
            if let Some(dialog) = self.live.get_mut(&(host, saved.id)) {
                dialog.since = now;
                dialog.expires = Some(saved.expires);
            }
        }
    }

    fn booted(&mut self, now: Time, host: usize, dialogs: u64) -> Result<(), Violation> {
        self.down.remove(&host);
        self.live.retain(|(other, _), dialog| {
            *other != host || dialog.expires.is_none_or(|expires| expires > now)
        });
        let expected = of_host(&self.live, host).count() as u64;
        if dialogs == expected {
            return Ok(());
        }
        let what =
            format!("host{host} started with {dialogs} dialogs, and its disk has {expected}");
        Err(violation(self.name(), what, None))
    }
}

impl Dialog {
    fn new(call: &CallRecord, since: Time) -> Self {
        Self {
            key: dialog(&call.call_id, &call.from_tag, &call.to_tag),
            call_id: call.call_id.clone(),
            since,
            expires: None,
        }
    }
}

/// The dialogs of a machine.
fn of_host(dialogs: &BTreeMap<Key, Dialog>, host: usize) -> impl Iterator<Item = (&u128, &Dialog)> {
    let dialogs = dialogs.range((host, 0)..=(host, u128::MAX));
    dialogs.map(|((_, id), dialog)| (id, dialog))
}
