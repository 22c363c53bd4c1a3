//! Counts what happened, so that a test can show that something did.
use crate::phone::PhoneEvent;
use sip_dialog::{CallEvent, Change, Ended};
use std::collections::BTreeMap;

/// Counters of one world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Questions to control planes.
    pub questions: u64,
    /// REGISTERs confirmed.
    pub registered: u64,
    /// Callers that received a 2xx.
    pub answered: u64,
    /// Callers that did not, by status code.
    pub failed: BTreeMap<u16, u64>,
    /// Callees that received the ACK.
    pub acknowledged: u64,
    /// Callees that did not.
    pub unacknowledged: u64,
    /// Calls ended.
    pub ended: u64,
    /// Requests of phones, by their final status code.
    pub finals: BTreeMap<u16, u64>,
    /// Requests of phones without a response.
    pub timed_out: u64,
    /// Sessions that a phone refreshed.
    pub refreshed: u64,
    /// Records of calls, by who or what ended the call.
    pub records: BTreeMap<&'static str, u64>,
    /// Dialogs that a machine knew again after a crash.
    pub restored: u64,
}

impl Statistics {
    pub(crate) fn phone_event(&mut self, event: &PhoneEvent) {
        match event {
            PhoneEvent::Registered { .. } => self.registered += 1,
            PhoneEvent::Final {
                timed_out: true, ..
            } => self.timed_out += 1,
            PhoneEvent::Final { status, .. } => *self.finals.entry(*status).or_default() += 1,
            PhoneEvent::CallAnswered => self.answered += 1,
            PhoneEvent::CallFailed(status) => *self.failed.entry(*status).or_default() += 1,
            PhoneEvent::CallAcknowledged => self.acknowledged += 1,
            PhoneEvent::CallUnacknowledged => self.unacknowledged += 1,
            PhoneEvent::CallEnded => self.ended += 1,
            PhoneEvent::SessionRefreshed => self.refreshed += 1,
            PhoneEvent::RegistrationUncertain
            | PhoneEvent::Unregistered { .. }
            | PhoneEvent::RegistrationFailed(_)
            | PhoneEvent::Vanished => {}
        }
    }

    pub(crate) fn call_event(&mut self, event: &CallEvent) {
        if let Change::Ended(ended) = event.change {
            let label = Ended::LABELS[ended as usize];
            *self.records.entry(label).or_default() += 1;
        }
    }

    /// Adds the counters of another world.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.questions += other.questions;
        self.registered += other.registered;
        self.answered += other.answered;
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.ended += other.ended;
        self.timed_out += other.timed_out;
        self.refreshed += other.refreshed;
        self.restored += other.restored;
        for (label, count) in &other.records {
            *self.records.entry(label).or_default() += count;
        }
        for (status, count) in &other.failed {
            *self.failed.entry(*status).or_default() += count;
        }
        for (status, count) in &other.finals {
            *self.finals.entry(*status).or_default() += count;
        }
    }
}
