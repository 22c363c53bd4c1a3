//! Counts live calls towards the limits of new settings. A limit that a reload has added, or whose networks it has changed, would otherwise
//! not know the calls that are up.
//!
//! A worker walks through its tables in parts, so that no reload delays it: first the response contexts, then the dialogs. A call only
//! moves from the former to the latter, so none is missed. Calls that begin meanwhile count as always.
//!
//! What is known of a call decides: its source, its subscriber, and the name of the limit of its rule. Calls do not remember their rules:
//! a limit that a rule names for the first time counts the calls that begin after that.

use super::Proxy;
use super::call_policy::Onward;
use super::context::Context;
use super::dialog::Relation;
use super::places::Places;
use crate::{Settings, WorkerParts};
use sip_dialog::{Dialog, DialogId, Dialogs, Text};
use sip_routing::limit::{Call, Permits};
use sip_transport::Time;
use std::net::IpAddr;

/// Slots that are looked at in one step.
const STEP: u32 = 1_024;

/// How far the worker has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recount {
    /// When the settings changed. The next step is always due.
    pub(super) since: Time,
    /// The next slot.
    slot: u32,
    table: Table,
}

#[derive(Clone, Copy, Debug)]
enum Table {
    Contexts,
    Dialogs,
}

impl Recount {
    /// Begins, unless nothing is limited.
    pub(super) fn begin(settings: &Settings, now: Time) -> Option<Self> {
        let is_limited = !settings.policy.limits.is_unlimited();
        is_limited.then_some(Self {
            since: now,
            slot: 0,
            table: Table::Contexts,
        })
    }

    /// After a step through a table with this many slots; `None` at the end.
    fn after(self, slots: u32) -> Option<Self> {
        let slot = self.slot.saturating_add(STEP);
        if slot < slots {
            return Some(Self { slot, ..self });
        }
        match self.table {
            Table::Contexts => Some(Self {
                slot: 0,
                table: Table::Dialogs,
                ..self
            }),
            Table::Dialogs => None,
        }
    }
}

impl Proxy {
    /// Begins to count the live calls again.
    pub(crate) fn follow_limits(&mut self, settings: &Settings, now: Time) {
        self.recount = Recount::begin(settings, now);
    }

    /// Takes the next step.
    pub(super) fn recount(&mut self, parts: &WorkerParts<'_>) {
        let Some(recount) = self.recount else {
            return;
        };
        let step = recount.slot..recount.slot.saturating_add(STEP);
        let slots = match recount.table {
            Table::Contexts => {
                for slot in step {
                    if let Some(context) = self.contexts.at_mut(slot) {
                        context.recount(parts, &self.calls.dialogs);
                    }
                }
                self.contexts.slots()
            }
            Table::Dialogs => {
                let dialogs = &mut self.calls.dialogs;
                for slot in step {
                    let dialog = dialogs.at_mut(slot);
                    if let Some(dialog) = dialog.filter(|dialog| dialog.is_confirmed()) {
                        Places::recount(&parts.settings.policy, dialog);
                    }
                }
                dialogs.slots()
            }
        };
        self.recount = recount.after(slots);
    }
}

impl Context {
    /// Counts a call that has not been answered.
    fn recount(&mut self, parts: &WorkerParts<'_>, dialogs: &Dialogs) {
        let Relation::Creates(id) = self.dialog else {
            return;
        };
        if !self.is_invite || self.is_concluded {
            return;
        }
        let dialog = (id != DialogId::NONE).then(|| dialogs.get(id)).flatten();
        let subscriber = dialog.map_or(&b""[..], |dialog| Dialog::text(dialog, Text::Identity));
        let mut onward = Onward {
            targets: Vec::new(),
            policy: self.policy.take(),
        };
        onward.recount(parts, self.client, subscriber);
        self.policy = onward.policy;
    }
}

impl Onward {
    /// Counts a new call from this source, of this subscriber, or empty.
    pub(crate) fn recount(&mut self, parts: &WorkerParts<'_>, source: IpAddr, subscriber: &[u8]) {
        let limits = &parts.settings.policy.limits;
        if limits.is_unlimited() || self.is_stateless() {
            return;
        }
        let policy = self.policy.get_or_insert_default();
        if let Some(diversions) = &mut policy.diversions {
            diversions.recount(limits);
        }
        if policy.is_exempt() {
            return;
        }
        let mut permits = policy.permits.take();
        let call = Call {
            source,
            subscriber: Some(subscriber).filter(|name| !name.is_empty()),
            rule: limits.of_rule(policy.limit()),
        };
        limits.recount(permits.get_or_insert_with(Permits::default), &call);
        policy.permits = permits;
    }
}
