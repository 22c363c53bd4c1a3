//! No open relay: a machine sends a request only to a contact registered there, a party of a dialog established through
//! it, or its configured next hop. Machines that relay for every sender are exempt.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::{HeaderName, Host, Method, NameAddr};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The rule.
#[derive(Debug, Default)]
pub struct NoOpenRelay {
    /// Machine and contact address, with the time after which no request may go there.
    contacts: BTreeMap<(usize, SocketAddr), Time>,
    /// Call and address of a party.
    parties: BTreeSet<(u64, SocketAddr)>,
}

impl Invariant for NoOpenRelay {
    fn name(&self) -> &'static str {
        "no_open_relay"
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
                if seen.is_request() {
                    self.check(facts, now, host, destination, seen)?;
                    self.learn_parties(seen);
                } else if seen.method == Method::Register && seen.status / 100 == 2 {
                    self.learn_contacts(facts, now, host, destination, seen);
                }
                Ok(())
            }
            Observation::Delivered {
                to: Party::Host(_),
                seen: Some(seen),
                ..
            } if seen.is_acceptance() => {
                self.learn_parties(seen);
                Ok(())
            }
            // A caller whose source address differs from its contact, for example behind a NAT, is reached at its
            // source.
            Observation::Delivered {
                source,
                to: Party::Host(_),
                seen: Some(seen),
                ..
            } if seen.is_request() && seen.method == Method::Invite => {
                self.parties.insert((seen.call(), source));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl NoOpenRelay {
    fn learn_contacts(
        &mut self,
        facts: &Facts,
        now: Time,
        host: usize,
        phone: SocketAddr,
        seen: &Seen<'_>,
    ) {
        let grace = facts.hosts[host].bounds.invite_answered + facts.lateness;
        for contact in seen
            .message
            .values(HeaderName::Contact)
            .filter_map(NameAddr::parse)
        {
            let seconds = contact.expires().flatten().unwrap_or(0);
            let until = now + Duration::from_secs(u64::from(seconds)) + grace;
            // A phone behind a NAT is reached where its REGISTER came from.
            for address in [address_of(&contact), Some(phone)].into_iter().flatten() {
                let known = self.contacts.entry((host, address)).or_insert(until);
                *known = until.max(*known);
            }
        }
    }

    fn learn_parties(&mut self, seen: &Seen<'_>) {
        if seen.method != Method::Invite {
            return;
        }
        let contacts = seen.message.values(HeaderName::Contact);
        let proxies = seen.message.values(HeaderName::RecordRoute);
        let contacts = contacts.chain(proxies).filter_map(NameAddr::parse);
        for address in contacts.filter_map(|contact| address_of(&contact)) {
            self.parties.insert((seen.call(), address));
        }
    }

    fn check(
        &self,
        facts: &Facts,
        now: Time,
        host: usize,
        destination: SocketAddr,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let own = &facts.hosts[host];
        let registered = self
            .contacts
            .get(&(host, destination))
            .is_some_and(|until| now <= *until);
        let party = self.parties.contains(&(seen.call(), destination));
        let next_hop = own.outbound == Some(destination) && is_from(seen, &own.domain);
        if own.relays || registered || party || next_hop {
            return Ok(());
        }
        let method = String::from_utf8_lossy(seen.method.as_bytes());
        let what =
            format!("host{host} forwarded {method} to {destination}, which is nobody's contact");
        Err(violation(self.name(), what, Some(seen.call_id)))
    }
}

fn is_from(seen: &Seen<'_>, domain: &str) -> bool {
    let from = seen.message.from().and_then(|from| from.uri());
    from.is_some_and(|uri| uri.host_bytes == domain.as_bytes())
}

fn address_of(contact: &NameAddr<'_>) -> Option<SocketAddr> {
    let uri = contact.uri()?;
    match uri.host {
        Host::Address(ip) => Some(SocketAddr::new(ip, uri.port.unwrap_or(5060))),
        Host::Name(_) => None,
    }
}
