//! Probes of gateways: plain OPTIONS requests (RFC 3261 section 11) that one worker sends for all workers.
//!
//! A probe leaves from the listener that reaches the gateway. Its Call-ID has its home on this worker, so its responses arrive here.

use crate::own_request::{Leaving, Located, Remote, best, call_id, locate};
use crate::own_response::hex;
use crate::owner::{BranchId, ContextId, Owner, ProbeId};
use crate::worker::Worker;
use crate::{NameServersFailed, Settings, WorkerParts};
use rand_chacha::rand_core::Rng;
use sip_message::{HeaderName, Message, Method, RequestWriter};
use sip_routing::gateway::{Gateway, Outcome};
use sip_transaction::{ClientId, TimerId, TimerWheel};
use sip_transport::selection::{Candidate, Destination};
use sip_transport::{Slab, Tenant, Time};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How often to look for probes that are due. An operator may enable a gateway at any time.
const LOOK: Duration = Duration::from_secs(1);

/// The probes that are under way.
#[derive(Debug)]
pub(crate) struct Probes {
    slots: Slab<Probe>,
    /// How long each waits for its response.
    wheel: TimerWheel<ProbeId>,
    /// When to look next; `None` if this worker sends no probes.
    next: Option<Time>,
}

#[derive(Debug)]
struct Probe {
    generation: u32,
    gateway: Arc<Gateway>,
    /// `None` while its name is being resolved.
    client: Option<ClientId>,
    deadline: Option<TimerId>,
}

impl Tenant for Probe {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl Probes {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            slots: Slab::new(0),
            wheel: TimerWheel::new(now),
            next: None,
        }
    }

    /// Begins or ends to send probes, as the settings of this worker say.
    pub(crate) fn configure(&mut self, worker: u16, settings: &Settings, now: Time) {
        let is_sender = worker == 0 && !settings.policy.gateways.gateways().is_empty();
        self.next = is_sender.then_some(now);
    }

    /// When to call [`expire`] next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.next, self.wheel.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Ends a probe, and says how.
    fn end(&mut self, parts: &mut WorkerParts<'_>, id: ProbeId, outcome: Outcome) {
        let Some(probe) = self.slots.remove(id.0) else {
            return;
        };
        if let Some(deadline) = probe.deadline {
            self.wheel.cancel(deadline);
        }
        if let Some(client) = probe.client
            && !matches!(outcome, Outcome::Response { .. })
        {
            parts.transactions.abandon_client(client);
        }
        probe.gateway.probed(outcome, parts.now);
    }
}

/// Whether a question was about the address of a probe.
pub(crate) const fn is_of_probe(ticket: BranchId) -> bool {
    ticket.place == BranchId::PROBE
}

/// Gives up probes without a response, and sends those that are due.
pub(crate) fn expire(worker: &mut Worker<'_, '_>) {
    let now = worker.parts.now;
    while let Some(id) = worker.probes.wheel.pop_due(now) {
        if let Some(probe) = worker.probes.slots.get_mut(id.0) {
            probe.deadline = None;
        }
        worker.probes.end(&mut worker.parts, id, Outcome::Timeout);
    }
    if worker.probes.next.is_none_or(|next| next > now) {
        return;
    }
    let mut due = Vec::new();
    let gateways = &worker.parts.settings.policy.gateways;
    let next = gateways.due_probes(now, |gateway| due.push(Arc::clone(gateway)));
    let soon = now + LOOK;
    worker.probes.next = Some(next.map_or(soon, |next| next.min(soon)));
    for gateway in due {
        begin(worker, gateway);
    }
}

/// Begins a probe: sends it, or asks for the address of the gateway.
fn begin(worker: &mut Worker<'_, '_>, gateway: Arc<Gateway>) {
    let now = worker.parts.now;
    let destination = gateway.destination().clone();
    let seed = worker
        .parts
        .shared
        .hasher
        .hash(&[b"probe", gateway.name().as_bytes()]);
    let timeout = gateway.description().health.timeout;
    let id = ProbeId(worker.probes.slots.insert(|id| Probe {
        generation: id.generation,
        gateway,
        client: None,
        deadline: None,
    }));
    let deadline = worker.probes.wheel.arm(now + timeout, id);
    if let Some(probe) = worker.probes.slots.get_mut(id.0) {
        probe.deadline = Some(deadline);
    }
    let ticket = BranchId {
        context: ContextId(id.0),
        place: BranchId::PROBE,
    };
    match locate(&mut worker.parts, &destination, ticket, seed) {
        Some(Located::At(remote)) => send(worker, id, remote),
        Some(Located::Asked) => {}
        None => worker
            .probes
            .end(&mut worker.parts, id, Outcome::TransportError),
    }
}

/// Continues a probe whose name was resolved. The best candidate is probed.
pub(crate) fn resolved(
    worker: &mut Worker<'_, '_>,
    ticket: BranchId,
    result: Result<Vec<Candidate>, NameServersFailed>,
) {
    let id = ProbeId(ticket.context.0);
    let is_waiting = |probe: &Probe| probe.client.is_none();
    if !worker.probes.slots.get(id.0).is_some_and(is_waiting) {
        return;
    }
    match result.ok().as_deref().and_then(best) {
        Some(remote) => send(worker, id, remote),
        None => worker
            .probes
            .end(&mut worker.parts, id, Outcome::TransportError),
    }
}

fn send(worker: &mut Worker<'_, '_>, id: ProbeId, remote: Remote) {
    match start(worker, id, remote) {
        Ok(client) => {
            if let Some(probe) = worker.probes.slots.get_mut(id.0) {
                probe.client = Some(client);
            }
        }
        Err(outcome) => worker.probes.end(&mut worker.parts, id, outcome),
    }
}

/// Sends the OPTIONS.
fn start(worker: &mut Worker<'_, '_>, id: ProbeId, remote: Remote) -> Result<ClientId, Outcome> {
    let settings = worker.parts.settings;
    let leaving = Leaving::to(&settings.listeners, remote).ok_or(Outcome::TransportError)?;
    let probe = worker.probes.slots.get(id.0).ok_or(Outcome::Abandoned)?;
    let gateway = Arc::clone(&probe.gateway);
    let destination = gateway.destination();
    let call_id = call_id(worker);
    let parts = &mut worker.parts;
    let client = parts.transactions.reserve_client(Owner::Probe(id));
    // Our own table is full.
    let client = client.map_err(|_| Outcome::Abandoned)?;
    let branch = parts.transactions.branch(client, &call_id, 0);
    let tag = hex(parts.random.next_u64());
    let options = leaving.options(destination);
    let uri = uri_of(destination);
    let us = ["<sip:", &leaving.listener.advertised, ">"].concat();
    parts
        .transactions
        .start_client(parts.now, client, &options, parts.output, |into| {
            RequestWriter::begin(into, Method::Options, &uri)
                .header_with(HeaderName::Via, |into| leaving.write_via(branch, into))
                .header(HeaderName::MaxForwards, b"70")
                .header(HeaderName::From, &[us.as_bytes(), b";tag=", &tag].concat())
                .header(HeaderName::To, &[b"<", &uri[..], b">"].concat())
                .header(HeaderName::CallId, &call_id)
                .header(HeaderName::CSeq, b"1 OPTIONS")
                .header(HeaderName::Contact, us.as_bytes())
                .header(HeaderName::Accept, b"application/sdp")
                .finish();
        });
    Ok(client)
}

fn uri_of(destination: &Destination) -> Vec<u8> {
    let mut uri = Vec::from(&b"sip:"[..]);
    uri.extend_from_slice(destination.host.as_bytes());
    if let Some(port) = destination.port {
        // Writing to a vector cannot fail.
        let _ = write!(uri, ":{port}");
    }
    uri
}

/// Handles a response to a probe.
pub(crate) fn answered(worker: &mut Worker<'_, '_>, id: ProbeId, response: &Message<'_>) {
    if response.status() >= 200 {
        let outcome = Outcome::Response {
            status: response.status(),
            retry_after: crate::proxy::retry_after(response),
        };
        worker.probes.end(&mut worker.parts, id, outcome);
    }
}

/// Handles a probe that was not delivered, or whose transaction has timed out.
pub(crate) fn failed(worker: &mut Worker<'_, '_>, id: ProbeId, outcome: Outcome) {
    worker.probes.end(&mut worker.parts, id, outcome);
}
