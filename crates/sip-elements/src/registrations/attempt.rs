//! One attempt to register, from the REGISTER to its final response.

use super::Registration;
use super::outcome::{
    RegistrationChange, RegistrationNotice, back_off, granted, minimum, refresh_after,
};
use crate::bans::Notice;
use crate::own_request::{Leaving, Located, Remote, best, locate};
use crate::owner::{BranchId, ContextId, Owner, RegistrationId};
use crate::worker::Worker;
use crate::{NameServersFailed, Record, WorkerParts};
use rand_chacha::rand_core::Rng;
use sip_message::digest::{Line, Wallet};
use sip_message::{HeaderName, Message, Method, RequestWriter};
use sip_routing::gateway::Gateway;
use sip_transaction::ClientId;
use sip_transport::selection::Candidate;
use sip_transport::{Listener, Protocol};
use std::time::Duration;

/// How many challenges and 423 responses an attempt follows.
const MOST: u8 = 3;
/// How long to wait for the response when a binding is removed.
const LEAVE: Duration = Duration::from_secs(5);

/// Begins an attempt: sends a REGISTER, or asks for the address of the registrar.
pub(super) fn begin(worker: &mut Worker<'_, '_>, id: RegistrationId) {
    let patience = worker.parts.settings.timers.t1 * 64;
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    (registration.is_asking, registration.answers) = (true, 0);
    let destination = registration.gateway.destination().clone();
    let seed = [&b"registration"[..], registration.gateway.name().as_bytes()];
    let seed = worker.parts.shared.hasher.hash(&seed);
    let at = worker.parts.now + patience;
    worker.registrations.arm(id, at);
    let ticket = BranchId {
        context: ContextId(id.0),
        place: BranchId::REGISTRATION,
    };
    match locate(&mut worker.parts, &destination, ticket, seed) {
        Some(Located::At(remote)) => send(worker, id, remote),
        Some(Located::Asked) => {}
        None => give_up(worker, id, None),
    }
}

/// Continues an attempt whose registrar was resolved. The best candidate is asked.
pub(crate) fn resolved(
    worker: &mut Worker<'_, '_>,
    ticket: BranchId,
    result: Result<Vec<Candidate>, NameServersFailed>,
) {
    let id = RegistrationId(ticket.context.0);
    let is_waiting = |it: &Registration| it.is_asking && it.client.is_none();
    if !worker.registrations.slots.get(id.0).is_some_and(is_waiting) {
        return;
    }
    match result.ok().as_deref().and_then(best) {
        Some(remote) => send(worker, id, remote),
        None => give_up(worker, id, None),
    }
}

/// Removes the binding, if there is one.
pub(super) fn leave(worker: &mut Worker<'_, '_>, id: RegistrationId) {
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    registration.gateway.unregistered();
    if let Some(client) = registration.client.take() {
        // It may create a binding.
        registration.has_binding = true;
        worker.parts.transactions.abandon_client(client);
    }
    let (true, Some(remote)) = (registration.has_binding, registration.remote) else {
        return worker.registrations.remove(&mut worker.parts, id);
    };
    (registration.is_leaving, registration.is_asking) = (true, true);
    registration.answers = 0;
    note(
        &mut worker.parts,
        &registration.gateway,
        RegistrationChange::Leaving,
    );
    worker.registrations.leaving += 1;
    let at = worker.parts.now + LEAVE;
    worker.registrations.arm(id, at);
    send(worker, id, remote);
}

fn send(worker: &mut Worker<'_, '_>, id: RegistrationId, remote: Remote) {
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    registration.remote = Some(remote);
    registration.client = start(&mut worker.parts, registration, id, remote);
    if registration.client.is_none() {
        give_up(worker, id, None);
    }
}

/// Sends the REGISTER. `None`: there is no way, or our own table is full.
fn start(
    parts: &mut WorkerParts<'_>,
    registration: &mut Registration,
    id: RegistrationId,
    remote: Remote,
) -> Option<ClientId> {
    let leaving = Leaving::to(&parts.settings.listeners, remote)?;
    let gateway = &registration.gateway;
    let wanted = gateway.description().registration.as_ref()?;
    let client = parts.transactions.reserve_client(Owner::Registration(id));
    let client = client.ok()?;
    registration.cseq += 1;
    registration.contact = contact(wanted.contact_user(), leaving.listener);
    let call_id = &registration.call_id;
    let branch = parts.transactions.branch(client, call_id, 0);
    let options = leaving.options(gateway.destination());
    let uri = wanted.registrar().as_bytes();
    let credentials = gateway.credential().map(std::slice::from_ref);
    let cnonce = parts.random.next_u64();
    let wallet = &mut registration.wallet;
    let asked = (&b"REGISTER"[..], uri);
    let lines: Vec<Line> = wallet.authorize(credentials.unwrap_or_default(), asked, cnonce);
    let us = ["<", wanted.address(), ">"].concat();
    let cseq = format!("{} REGISTER", registration.cseq);
    let expires = registration.asks_for().to_string();
    parts
        .transactions
        .start_client(parts.now, client, &options, parts.output, |into| {
            let mut request = RequestWriter::begin(into, Method::Register, uri)
                .header_with(HeaderName::Via, |into| leaving.write_via(branch, into))
                .header(HeaderName::MaxForwards, b"70")
                .header_with(HeaderName::From, |into| {
                    into.extend_from_slice(us.as_bytes());
                    into.extend_from_slice(b";tag=");
                    into.extend_from_slice(&registration.tag);
                })
                .header(HeaderName::To, us.as_bytes())
                .header(HeaderName::CallId, call_id)
                .header(HeaderName::CSeq, cseq.as_bytes())
                .header(HeaderName::Contact, &registration.contact)
                .header(HeaderName::Expires, expires.as_bytes());
            for (name, value) in &lines {
                request = request.header(*name, value);
            }
            request.finish();
        });
    Some(client)
}

/// Our Contact: the address of the listener that the request leaves from.
fn contact(user: &str, listener: &Listener) -> Box<[u8]> {
    let transport = match listener.protocol {
        Protocol::Udp => "",
        Protocol::Tcp => ";transport=tcp",
        Protocol::Tls => ";transport=tls",
        Protocol::Ws => ";transport=ws",
        Protocol::Wss => ";transport=wss",
    };
    format!("<sip:{user}@{}{transport}>", listener.advertised)
        .into_bytes()
        .into()
}

impl Registration {
    /// The lifetime of the next request, in seconds.
    const fn asks_for(&self) -> u32 {
        if self.is_leaving { 0 } else { self.expires }
    }
}

/// Handles a response to a REGISTER.
pub(crate) fn answered(
    worker: &mut Worker<'_, '_>,
    id: RegistrationId,
    client: ClientId,
    response: &Message<'_>,
) {
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    let status = response.status();
    if status < 200 || registration.client != Some(client) {
        return;
    }
    registration.client = None;
    if status < 300 {
        return accepted(worker, id, response);
    }
    let may_follow = registration.answers < MOST;
    registration.answers = registration.answers.saturating_add(1);
    let follows = match status {
        401 | 407 => {
            let credentials = registration.gateway.credential().map(std::slice::from_ref);
            let wallet = &mut registration.wallet;
            let takes = may_follow && wallet.take(response, credentials.unwrap_or_default());
            registration.gateway.challenged(takes);
            takes
        }
        423 if may_follow => {
            let minimum = minimum(response, registration.expires);
            registration.expires = minimum.unwrap_or(registration.expires);
            minimum.is_some()
        }
        _ => false,
    };
    match registration.remote {
        Some(remote) if follows => send(worker, id, remote),
        _ => give_up(worker, id, Some(response)),
    }
}

/// Handles a REGISTER that was not delivered.
pub(crate) fn failed(worker: &mut Worker<'_, '_>, id: RegistrationId) {
    give_up(worker, id, None);
}

fn accepted(worker: &mut Worker<'_, '_>, id: RegistrationId, response: &Message<'_>) {
    let now = worker.parts.now;
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    registration.wallet.accepted();
    if registration.is_leaving {
        return worker.registrations.remove(&mut worker.parts, id);
    }
    let granted = granted(response, &registration.contact, registration.expires);
    if granted.is_zero() {
        return give_up(worker, id, Some(response));
    }
    let is_new = !registration.has_binding || registration.failures > 0;
    (registration.has_binding, registration.failures) = (true, 0);
    registration.is_asking = false;
    let next = now + refresh_after(granted);
    let gateway = &registration.gateway;
    gateway.registered(response.status(), now + granted, next);
    if is_new {
        let change = RegistrationChange::Registered(granted);
        note(&mut worker.parts, gateway, change);
    }
    worker.registrations.arm(id, next);
}

/// Ends an attempt without success. The next one follows after a while.
pub(super) fn give_up(
    worker: &mut Worker<'_, '_>,
    id: RegistrationId,
    response: Option<&Message<'_>>,
) {
    let now = worker.parts.now;
    let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
        return;
    };
    if registration.is_leaving {
        return worker.registrations.remove(&mut worker.parts, id);
    }
    if let Some(client) = registration.client.take() {
        worker.parts.transactions.abandon_client(client);
    }
    registration.is_asking = false;
    registration.wallet = Wallet::default();
    registration.failures = registration.failures.saturating_add(1);
    let retry_after = response.and_then(crate::proxy::retry_after);
    let random = worker.parts.random.next_u64();
    let again_in = back_off(registration.failures, retry_after, random);
    let status = response.map(Message::status);
    let gateway = &registration.gateway;
    gateway.registration_failed(status, now + again_in);
    let change = RegistrationChange::Failed { status, again_in };
    note(&mut worker.parts, gateway, change);
    worker.registrations.arm(id, now + again_in);
}

fn note(parts: &mut WorkerParts<'_>, gateway: &Gateway, change: RegistrationChange) {
    let notice = RegistrationNotice {
        gateway: gateway.name().into(),
        change,
    };
    let notice = Notice::Registration(notice);
    parts.output.record(Record::Notice(notice));
}
