//! No foreign identity: a phone registers and calls only as its own subscriber, and no call of a subscriber passes
//! without credentials.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, hash, violation};
use sip_message::{HeaderName, Method, Scheme};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The rule.
#[derive(Debug, Default)]
pub struct NoForeignIdentity {
    /// The address of record that a request outside dialogs speaks for, by machine, source address and transaction.
    speakers: BTreeMap<(usize, SocketAddr, u64), String>,
    /// The calling phone, by call and From tag.
    origins: BTreeMap<u64, usize>,
    /// Requests that came with credentials: machine, and a hash of call and From tag.
    authorized: BTreeSet<(usize, u64)>,
}

impl Invariant for NoForeignIdentity {
    fn name(&self) -> &'static str {
        "no_foreign_identity"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Sent {
                from: Party::Phone(phone),
                seen: Some(seen),
                ..
            } if opens(seen) => {
                self.origins.entry(side(seen)).or_insert(phone);
                Ok(())
            }
            Observation::Delivered {
                source,
                to: Party::Host(host),
                seen: Some(seen),
                ..
            } if opens(seen) => {
                self.arrived(host, source, seen);
                Ok(())
            }
            Observation::Sent {
                from: Party::Host(host),
                to,
                destination,
                seen: Some(seen),
                ..
            } => {
                if opens(seen) {
                    self.forwarded(facts, host, seen)
                } else {
                    self.answered(facts, host, (to, destination), seen)
                }
            }
            _ => Ok(()),
        }
    }
}

impl NoForeignIdentity {
    fn arrived(&mut self, host: usize, source: SocketAddr, seen: &Seen<'_>) {
        if let Some(speaker) = speaker(seen) {
            self.speakers
                .insert((host, source, seen.transaction()), speaker);
        }
        let authorized = seen
            .message
            .header(HeaderName::ProxyAuthorization)
            .is_some();
        if authorized || seen.message.header(HeaderName::Authorization).is_some() {
            self.authorized.insert((host, side(seen)));
        }
    }

    /// Checks a request outside dialogs that a machine forwards.
    fn forwarded(&self, facts: &Facts, host: usize, seen: &Seen<'_>) -> Result<(), Violation> {
        let Some(speaker) = speaker(seen).filter(|speaker| must_prove(facts, host, speaker, seen))
        else {
            return Ok(());
        };
        let owner = self
            .origins
            .get(&side(seen))
            .and_then(|phone| facts.phones.get(*phone));
        if owner.is_none_or(|owner| owner.address_of_record != speaker) {
            let what = format!(
                "host{host} forwarded a request in the name of {speaker} that was {owner:?}'s"
            );
            return Err(violation(self.name(), what, Some(seen.call_id)));
        }
        if !self.authorized.contains(&(host, side(seen))) {
            let what = format!(
                "host{host} forwarded a request of {speaker} that never came with credentials"
            );
            return Err(violation(self.name(), what, Some(seen.call_id)));
        }
        Ok(())
    }

    /// Checks a response of a machine: anything but a rejection accepts the identity.
    fn answered(
        &self,
        facts: &Facts,
        host: usize,
        (to, destination): (Party, SocketAddr),
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let Party::Phone(phone) = to else {
            return Ok(());
        };
        if !(101..300).contains(&seen.status) {
            return Ok(());
        }
        let speaker = self.speakers.get(&(host, destination, seen.transaction()));
        let Some(speaker) = speaker.filter(|speaker| must_prove(facts, host, speaker, seen)) else {
            return Ok(());
        };
        let owner = &facts.phones[phone].address_of_record;
        if owner == speaker {
            return Ok(());
        }
        let what = format!(
            "host{host} let {owner} speak for {speaker}: {}",
            seen.status
        );
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}

/// Whether the message is a request outside dialogs.
fn opens(seen: &Seen<'_>) -> bool {
    seen.is_request()
        && seen.to_tag.is_empty()
        && !matches!(seen.method, Method::Ack | Method::Cancel)
}

/// Identifies the caller's side of a call.
fn side(seen: &Seen<'_>) -> u64 {
    hash(&[seen.call_id, seen.from_tag])
}

/// The address of record that a request speaks for.
fn speaker(seen: &Seen<'_>) -> Option<String> {
    let party = if seen.method == Method::Register {
        seen.message.to()
    } else {
        seen.message.from()
    };
    // URIs of other schemes name no subscriber of a SIP domain.
    let uri = party?
        .uri()
        .filter(|uri| matches!(uri.scheme, Scheme::Sip | Scheme::Sips))?;
    let mut address = Vec::new();
    uri.write_address_of_record(&mut address);
    String::from_utf8(address).ok()
}

/// Whether a machine must challenge this identity.
fn must_prove(facts: &Facts, host: usize, speaker: &str, seen: &Seen<'_>) -> bool {
    let own = &facts.hosts[host];
    let challenged = own
        .challenged
        .iter()
        .any(|method| method.as_bytes() == seen.method.as_bytes());
    let local = speaker
        .rsplit_once('@')
        .is_some_and(|(_, domain)| domain == own.domain);
    challenged && local
}
