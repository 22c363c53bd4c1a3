//! Dialogs that another node had, or has now: a request tells which dialog is missing here, its state arrives from a store while the node runs,
//! and a dialog that another node has taken is dropped without a record.

use super::calls::{AnsweredBye, Calls};
use super::keys::Keys;
use crate::metrics::Takeover;
use crate::record::MissedDialog;
use crate::{Record, WorkerParts};
use sip_dialog::DialogId;
use sip_message::Message;
use sip_transport::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How many dialogs are remembered as reported. Another one takes the place of one of them, which may then be reported again too early.
const REPORTED: usize = 1_024;
/// A dialog is reported again after this time at the earliest.
const PAUSE: Duration = Duration::from_secs(5);
/// How many BYEs wait for the state of their dialog at most.
const MOST_BYES: usize = 1_024;
/// How long a BYE waits.
const PATIENCE: Duration = Duration::from_secs(32);

/// What is known about dialogs that are not here.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// When each dialog was reported, at the place that its keys name. Empty until the first one is missed.
    reported: Vec<Option<(Keys, Time)>>,
    /// BYEs that have had their final response, oldest first.
    byes: VecDeque<(Time, AnsweredBye)>,
}

impl Missing {
    /// Whether a dialog must be reported now. It then counts as reported.
    fn report(&mut self, keys: Keys, now: Time) -> bool {
        if self.reported.is_empty() {
            self.reported = vec![None; REPORTED];
        }
        // The same place for requests of both parties.
        let place = (keys.of_sender ^ keys.of_receiver) as usize % REPORTED;
        let Some(place) = self.reported.get_mut(place) else {
            return false;
        };
        let is_recent = place.is_some_and(|(reported, at)| {
            reported.has(keys.of_sender) && now.saturating_since(at) < PAUSE
        });
        if !is_recent {
            *place = Some((keys, now));
        }
        !is_recent
    }

    /// Lets the dialog with this key be reported at once when a request misses it again.
    fn forget_report(&mut self, key: u64) {
        let is_of =
            |place: &&mut Option<(Keys, Time)>| place.is_some_and(|(keys, _)| keys.has(key));
        if let Some(place) = self.reported.iter_mut().find(is_of) {
            *place = None;
        }
    }

    /// Remembers a BYE whose dialog is not here. Returns whether another one was forgotten for it.
    pub(super) fn keep(&mut self, bye: AnsweredBye, now: Time) -> bool {
        let is_old = |(at, _): &(Time, AnsweredBye)| now.saturating_since(*at) > PATIENCE;
        while self.byes.front().is_some_and(is_old) {
            self.byes.pop_front();
        }
        let is_full = self.byes.len() >= MOST_BYES;
        if is_full {
            self.byes.pop_front();
        }
        self.byes.push_back((now, bye));
        is_full
    }

    /// Takes out the BYE that has ended the dialog with this key.
    fn take(&mut self, key: u64, now: Time) -> Option<AnsweredBye> {
        let is_of = |(_, bye): &(Time, AnsweredBye)| bye.keys.has(key);
        let place = self.byes.iter().position(is_of)?;
        let (at, bye) = self.byes.remove(place)?;
        (now.saturating_since(at) <= PATIENCE).then_some(bye)
    }
}

impl Calls {
    /// Reports the dialog of a request if it is not here. The request has proven that there was one. Returns whether it was reported now.
    pub(super) fn look_for(
        &mut self,
        parts: &mut WorkerParts<'_>,
        (keys, call): (Keys, u32),
        request: &Message<'_>,
    ) -> bool {
        if !parts.settings.dialogs.adopts || self.find(keys).is_some() {
            return false;
        }
        let call_id = request.call_id().unwrap_or_default();
        let is_due = self.missing.report(keys, parts.now);
        if is_due {
            parts.metrics.took_over(Takeover::DialogMissed);
            parts.output.record(Record::Missed(MissedDialog {
                keys: [keys.of_receiver, keys.of_sender],
                call,
                call_id: call_id.into(),
            }));
        }
        is_due
    }

    /// Installs a dialog that another node has recorded, unless it is here already. A BYE that came before the state ends it now. Returns
    /// whether this worker has the dialog, or had it until that BYE.
    pub(super) fn adopt(
        &mut self,
        parts: &mut WorkerParts<'_>,
        state: &[u8],
        is_home: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        if self.enter(parts, sip_transaction::Account::KNOWN).is_err() {
            return false;
        }
        let Some(id) = self.restore(parts, state, is_home) else {
            return false;
        };
        parts.metrics.took_over(Takeover::DialogAdopted);
        let key = self.dialogs.get(id).map_or(0, sip_dialog::Dialog::key);
        if let Some(bye) = self.missing.take(key, parts.now) {
            self.hung_up(parts, bye);
        }
        true
    }

    /// Drops a dialog without a record: another one stands for it.
    pub(super) fn leave_to_another(&mut self, parts: &mut WorkerParts<'_>, id: DialogId) {
        if self.discard(parts, id).is_some() {
            parts.metrics.took_over(Takeover::DialogDisowned);
        }
    }

    /// Drops a dialog that another node has adopted: its record is for that node to write.
    pub(super) fn disown(&mut self, parts: &mut WorkerParts<'_>, id: u128, key: u64) -> bool {
        let found = self.dialogs.find(key);
        let is_it = |place: &DialogId| self.dialogs.get(*place).is_some_and(|it| it.id() == id);
        let Some(place) = found.filter(is_it) else {
            return false;
        };
        self.leave_to_another(parts, place);
        // It may have to come back soon, because the other node dies.
        self.missing.forget_report(key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: u64) -> Keys {
        Keys {
            of_sender: key,
            of_receiver: key + 1,
        }
    }

    fn bye(key: u64) -> AnsweredBye {
        AnsweredBye {
            keys: keys(key),
            target: 0,
            received: Time::default(),
            status: 200,
        }
    }

    #[test]
    fn a_dialog_is_reported_once_in_a_while() {
        let mut missing = Missing::default();
        let now = Time::from_unix_seconds(1_000);
        let (one, other) = (keys(8), keys(8 + 4 * REPORTED as u64));
        let from_callee = Keys {
            of_sender: one.of_receiver,
            of_receiver: one.of_sender,
        };
        assert!(missing.report(one, now));
        assert!(!missing.report(from_callee, now + PAUSE / 2));
        assert!(missing.report(other, now), "the place is taken");
        assert!(missing.report(one, now + PAUSE / 2));
        assert!(missing.report(one, now + PAUSE * 2));
        missing.forget_report(one.of_receiver);
        assert!(missing.report(one, now + PAUSE * 2));
    }

    #[test]
    fn byes_are_bounded_in_number_and_time() {
        let mut missing = Missing::default();
        let now = Time::from_unix_seconds(1_000);
        for key in 0..MOST_BYES as u64 {
            assert!(!missing.keep(bye(key * 2), now));
        }
        assert!(
            missing.keep(bye(100_000), now),
            "the first one is forgotten"
        );
        assert!(missing.take(0, now).is_none());
        assert!(missing.take(3, now).is_some(), "of either party");
        assert!(missing.take(2, now).is_none(), "it is taken out");
        assert!(missing.take(100_000, now + PATIENCE * 2).is_none());
        missing.keep(bye(1), now + PATIENCE * 2);
        assert_eq!(missing.byes.len(), 1);
    }
}
