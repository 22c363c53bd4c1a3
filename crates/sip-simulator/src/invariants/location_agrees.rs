//! The registrar and the phones agree: the registrar has what a 200 confirmed until it expires, does not have what a 200 removed, and has
//! no contact of another phone.
use crate::observe::{
    BoundContact, Facts, Invariant, Observation, Party, Seen, Violation, violation,
};
use crate::phone::PhoneEvent;
use sip_message::Method;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Belief {
    /// The contact is registered until this second.
    Bound(String, u64),
    /// The contact is not registered.
    Gone(String),
    /// A REGISTER got no response, or a crash may have undone its effect.
    Unknown,
}

#[derive(Clone, Debug)]
struct Phone {
    belief: Belief,
    confirmed_at: Time,
    /// A REGISTER is in progress.
    open: bool,
    /// The registrar crashed during the REGISTER: the effect of its response may not have been saved.
    doubtful: bool,
    /// The registrar has restarted: a refresh that moved the end only a little may not have been saved.
    restored: bool,
}

/// The rule.
#[derive(Debug, Default)]
pub struct LocationAgrees {
    phones: BTreeMap<usize, Phone>,
    /// The highest `CSeq` of each phone's REGISTERs that its registrar received.
    latest: BTreeMap<usize, (u64, u32)>,
    /// Phones whose registrar received a REGISTER after a later one. It compares the REGISTER only with existing bindings (section 10.3),
    /// so a straggler restores a removed contact.
    straggled: BTreeSet<usize>,
}

impl Invariant for LocationAgrees {
    fn name(&self) -> &'static str {
        "location_agrees"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Phone { phone, event } => self.learn(facts, now, phone, event),
            Observation::Delivered {
                from: Party::Phone(phone),
                to: Party::Host(_),
                seen: Some(seen),
                ..
            } => {
                if seen.is_request() && seen.method == Method::Register {
                    self.note_order(phone, seen);
                }
                Ok(())
            }
            Observation::Crashed { host } => {
                self.forget_unsaved(facts, now, host);
                Ok(())
            }
            Observation::Calm { bindings } | Observation::Quiet { bindings } => {
                self.compare(facts, now, bindings)
            }
            _ => Ok(()),
        }
    }
}

impl LocationAgrees {
    fn learn(
        &mut self,
        facts: &Facts,
        now: Time,
        phone: usize,
        event: &PhoneEvent,
    ) -> Result<(), Violation> {
        if !facts.phones[phone].honest {
            return Ok(());
        }
        let unknown = Phone {
            belief: Belief::Unknown,
            confirmed_at: now,
            open: false,
            doubtful: false,
            restored: false,
        };
        let known = self.phones.entry(phone).or_insert(unknown);
        match event {
            PhoneEvent::Registered { .. } | PhoneEvent::Unregistered { .. } if known.doubtful => {
                known.belief = Belief::Unknown;
                (known.open, known.doubtful) = (false, false);
            }
            PhoneEvent::RegistrationUncertain => known.open = true,
            PhoneEvent::Registered {
                contact,
                expires_at,
            } => {
                self.straggled.remove(&phone);
                *known = Phone {
                    belief: Belief::Bound(contact.clone(), *expires_at),
                    confirmed_at: now,
                    open: false,
                    doubtful: false,
                    restored: false,
                };
            }
            PhoneEvent::Unregistered { contact } => {
                *known = Phone {
                    belief: Belief::Gone(contact.clone()),
                    confirmed_at: now,
                    open: false,
                    doubtful: false,
                    restored: false,
                };
            }
            PhoneEvent::RegistrationFailed(299) => {
                let what = format!("phone{phone} got a 200 whose Contacts contradict its REGISTER");
                return Err(violation(self.name(), what, None));
            }
            // The response was lost, and the retransmission may have failed although the request itself did not.
            PhoneEvent::RegistrationFailed(408 | 500..) | PhoneEvent::Vanished => {
                known.belief = Belief::Unknown;
                (known.open, known.doubtful) = (false, false);
            }
            PhoneEvent::RegistrationFailed(_) => (known.open, known.doubtful) = (false, false),
            _ => {}
        }
        Ok(())
    }

    fn note_order(&mut self, phone: usize, seen: &Seen<'_>) {
        let latest = self.latest.entry(phone).or_default();
        if latest.0 == seen.call() && seen.cseq < latest.1 {
            self.straggled.insert(phone);
        } else {
            *latest = (seen.call(), seen.cseq);
        }
    }

    /// Forgets confirmations just before a crash, because they may not have reached the disk.
    fn forget_unsaved(&mut self, facts: &Facts, now: Time, host: usize) {
        // Two rounds of housekeeping: one to notice the change, one to write it.
        let window = facts.hosts[host].bounds.write_behind + Duration::from_secs(1);
        for (phone, known) in &mut self.phones {
            if facts.phones[*phone].home != host {
                continue;
            }
            known.restored = true;
            if known.open || now.saturating_since(known.confirmed_at) <= window {
                known.belief = Belief::Unknown;
                known.doubtful = known.open;
            }
        }
    }

    fn compare(
        &self,
        facts: &Facts,
        now: Time,
        bindings: &[Vec<BoundContact>],
    ) -> Result<(), Violation> {
        for (phone, known) in &self.phones {
            let facts_of = &facts.phones[*phone];
            let view = &bindings[facts_of.home];
            let listed = |contact: &String| {
                view.iter().find(|bound| {
                    bound.address == facts_of.address_of_record && bound.contact == *contact
                })
            };
            // A phone counts from the arrival of the 200, which a transaction may have repeated as long as it lives. A refresh that moves
            // the end by less than an eighth of the lifetime need not be saved.
            let lifetime = match &known.belief {
                Belief::Bound(_, until) if known.restored => {
                    until.saturating_sub(known.confirmed_at.unix_seconds())
                }
                _ => 0,
            };
            let early = facts.lateness.as_secs() + 34 + lifetime / 8;
            let late = facts.lateness.as_secs() + 2;
            let differs = |bound: &BoundContact, until: u64| {
                bound.expires_at + early < until || bound.expires_at > until + late
            };
            let complaint = match &known.belief {
                _ if known.open => None,
                Belief::Bound(contact, until) => match listed(contact) {
                    Some(bound) if differs(bound, *until) => Some(format!(
                        "the registrar keeps {contact} until {}, phone{phone} was told {until}",
                        bound.expires_at
                    )),
                    None if *until > now.unix_seconds() + early => Some(format!(
                        "the registrar has lost {contact}, phone{phone} was told {until}"
                    )),
                    _ => None,
                },
                Belief::Gone(_) if self.straggled.contains(phone) => None,
                Belief::Gone(contact) => listed(contact).map(|_| {
                    format!("the registrar still has {contact}, phone{phone} was told it is gone")
                }),
                Belief::Unknown => None,
            };
            if let Some(what) = complaint {
                return Err(violation(self.name(), what, None));
            }
        }
        no_stranger_bound(bindings).map_or(Ok(()), |what| Err(violation(self.name(), what, None)))
    }
}

/// Each contact contains the name of its phone. A contact with another name was registered by another phone.
fn no_stranger_bound(bindings: &[Vec<BoundContact>]) -> Option<String> {
    bindings.iter().flatten().find_map(|bound| {
        let user = bound.address.split('@').next().unwrap_or_default();
        let own = bound
            .contact
            .strip_prefix("sip:")
            .and_then(|rest| rest.split('@').next());
        (own != Some(user)).then(|| format!("{} is bound to {}", bound.address, bound.contact))
    })
}
