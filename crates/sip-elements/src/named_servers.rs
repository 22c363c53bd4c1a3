//! The servers that rules forward to without a transaction, if they are given by name. A request without a transaction cannot wait for the
//! address of its next hop, so the addresses are asked for ahead, and again from time to time.

use crate::owner::{BranchId, ContextId};
use crate::worker::Worker;
use crate::{NameServersFailed, Question, Settings};
use sip_routing::Policy;
use sip_routing::rule::{Decision, Rule};
use sip_transport::selection::{Candidate, Destination};
use sip_transport::{SlabId, Time};
use std::time::Duration;

/// How often the addresses are asked for.
const REFRESH: Duration = Duration::from_secs(30);

/// The servers, and where they are.
#[derive(Debug, Default)]
pub(crate) struct NamedServers {
    servers: Vec<NamedServer>,
    /// Counts configurations. An answer for an earlier one is ignored.
    generation: u32,
    /// When to ask next, if ever.
    next: Option<Time>,
}

#[derive(Debug)]
struct NamedServer {
    destination: Destination,
    /// The best address. `None`: there is none, or there is no answer yet. While the name servers fail, the last one stays.
    address: Option<Candidate>,
}

impl NamedServers {
    /// Follows the rules of these settings. Addresses that are known stay.
    pub(crate) fn configure(&mut self, settings: &Settings, now: Time) {
        let known = std::mem::take(&mut self.servers);
        let policy = &settings.policy;
        for destination in policy
            .rules
            .iter()
            .flat_map(|rule| servers_of(policy, rule))
        {
            if destination.literal().is_none() && self.position(destination).is_none() {
                let before = known.iter().find(|it| it.destination == *destination);
                self.servers.push(NamedServer {
                    destination: destination.clone(),
                    address: before.and_then(|it| it.address),
                });
            }
        }
        self.generation = self.generation.wrapping_add(1);
        self.next = (!self.servers.is_empty()).then_some(now);
    }

    /// When to call [`expire`] next.
    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// Where a server is, if that is known.
    pub(crate) fn find(&self, destination: &Destination) -> Option<Candidate> {
        self.servers.get(self.position(destination)?)?.address
    }

    fn position(&self, destination: &Destination) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|it| it.destination == *destination)
    }
}

/// The servers that a rule forwards to without a transaction.
fn servers_of<'p>(policy: &'p Policy, rule: &'p Rule) -> impl Iterator<Item = &'p Destination> {
    let (server, group) = match rule.decision() {
        Decision::Stateless(destination) => (Some(destination), None),
        Decision::Balance(reference) => (None, policy.gateways.group(&reference.name)),
        _ => (None, None),
    };
    let members = group.into_iter().flat_map(|group| group.members());
    let members = members.map(|(gateway, _, _)| gateway.destination());
    server.into_iter().chain(members)
}

/// Whether a question was about the address of such a server.
pub(crate) const fn is_of_server(ticket: BranchId) -> bool {
    ticket.place == BranchId::SERVER
}

/// Asks for the addresses if it is time.
pub(crate) fn expire(worker: &mut Worker<'_, '_>) {
    let (servers, parts) = (&mut *worker.servers, &mut worker.parts);
    if servers.next.is_none_or(|next| next > parts.now) {
        return;
    }
    servers.next = Some(parts.now + REFRESH);
    for (server, index) in servers.servers.iter().zip(0..) {
        let destination = server.destination.clone();
        // All workers and all requests use the same server, so that a retransmission goes where the request went.
        let seed = parts
            .shared
            .hasher
            .hash(&[b"server", destination.host.as_bytes()]);
        let generation = servers.generation;
        parts.output.ask(Question::Resolve {
            ticket: BranchId {
                context: ContextId(SlabId { index, generation }),
                place: BranchId::SERVER,
            },
            destination,
            seed,
        });
        parts.metrics.questions.increment();
    }
}

/// Keeps the best address. With an empty answer there is no address.
pub(crate) fn resolved(
    servers: &mut NamedServers,
    ticket: BranchId,
    result: Result<Vec<Candidate>, NameServersFailed>,
) {
    let SlabId { index, generation } = ticket.context.0;
    if generation == servers.generation
        && let Some(server) = servers.servers.get_mut(index as usize)
        && let Ok(candidates) = result
    {
        server.address = candidates.first().copied();
    }
}
