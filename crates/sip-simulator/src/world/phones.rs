//! The phones of a world: passes actions to them, sends their output, and records accepted credentials.
use super::{Event, World};
use crate::host::Machine;
use crate::observe::{Observation, Party, Seen};
use crate::phone::{Action, Mischief, Phone, PhoneEvent, PhoneOutput};
use sip_transport::Time;
use std::rc::Rc;

impl<M: Machine> World<M> {
    pub(super) fn act(&mut self, phone: usize, action: Action) {
        let now = self.now();
        let action = match action {
            Action::Mischief(Mischief::Replay(bytes)) if bytes.is_empty() => {
                match &self.overheard {
                    Some(overheard) => Action::Mischief(Mischief::Replay(Rc::clone(overheard))),
                    None => return,
                }
            }
            other => other,
        };
        self.trace
            .note(now, Party::Phone(phone), format!("{action:?}"));
        let before = self.phones[phone].address();
        self.with_phone(phone, |phone, output| phone.perform(now, action, output));
        let after = self.phones[phone].address();
        if before != after {
            self.directory.remove(&before);
            self.directory.insert(after, Party::Phone(phone));
        }
    }

    pub(super) fn wake_phone(&mut self, phone: usize, at: Time) {
        if self.wakes[phone] == Some(at) {
            self.wakes[phone] = None;
            let now = self.now();
            self.with_phone(phone, |phone, output| phone.wake(now, output));
        }
    }

    pub(super) fn with_phone(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Phone, &mut PhoneOutput),
    ) {
        let mut output = PhoneOutput::default();
        act(&mut self.phones[index], &mut output);
        let now = self.now();
        for event in &output.events {
            self.statistics.phone_event(event);
            self.trace
                .note(now, Party::Phone(index), format!("{event:?}"));
            self.observe(&Observation::Phone {
                phone: index,
                event,
            });
        }
        if output.events.contains(&PhoneEvent::Vanished) {
            self.wakes[index] = None;
        }
        let source = self.phones[index].address();
        for (destination, bytes) in &output.messages {
            if self.facts.phones[index].honest && is_authorized(bytes) {
                // Inside a dialog the Record-Route is the proof, not the credentials.
                let outside = Seen::read(bytes).filter(|seen| seen.to_tag.is_empty());
                if let Some(seen) = outside {
                    self.authorized
                        .insert(index, (seen.transaction(), Rc::clone(bytes)));
                }
            }
            self.send(Party::Phone(index), source, *destination, bytes);
        }
        if let Some(deadline) = self.phones[index].next_deadline() {
            let at = deadline.max(now);
            if self.wakes[index].is_none_or(|planned| at < planned) {
                self.wakes[index] = Some(at);
                self.clock.plan(at, Event::WakePhone { phone: index, at });
            }
        }
    }
}

fn is_authorized(bytes: &[u8]) -> bool {
    let marker = b"uthorization: Digest";
    bytes.windows(marker.len()).any(|window| window == marker)
}
