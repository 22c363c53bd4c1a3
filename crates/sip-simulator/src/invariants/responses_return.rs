//! Responses return: a response goes to the address that its request came from, whatever its Via says, and to no
//! address that sent no request.
use crate::observe::{Facts, Invariant, Observation, Party, Violation, violation};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The rule.
#[derive(Debug, Default)]
pub struct ResponsesReturn {
    /// Machine, source and transaction of each request.
    asked: BTreeSet<(usize, SocketAddr, u64)>,
    /// The sources that have sent to a machine, and whether each follows the protocol.
    sources: BTreeMap<(usize, IpAddr), bool>,
}

impl Invariant for ResponsesReturn {
    fn name(&self) -> &'static str {
        "responses_return"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Delivered {
                from,
                source,
                to: Party::Host(host),
                seen,
            } => {
                let honest = match from {
                    Party::Phone(phone) => facts.phones[phone].honest,
                    Party::Host(_) => true,
                    Party::Nobody => false,
                };
                self.sources.insert((host, source.ip()), honest);
                if let Some(seen) = seen.filter(|seen| seen.is_request()) {
                    self.asked.insert((host, source, seen.transaction()));
                }
                Ok(())
            }
            Observation::Sent {
                from: Party::Host(host),
                destination,
                seen: Some(seen),
                ..
            } if !seen.is_request() => {
                // The response does not always identify the broken request it belongs to, but its destination
                // identifies the sender.
                let source = self.sources.get(&(host, destination.ip()));
                let asked = self
                    .asked
                    .contains(&(host, destination, seen.transaction()));
                if asked || source == Some(&false) {
                    return Ok(());
                }
                let what = format!(
                    "host{host} sent a {} to {destination}, which had not asked",
                    seen.status
                );
                Err(violation(self.name(), what, Some(seen.call_id)))
            }
            _ => Ok(()),
        }
    }
}
