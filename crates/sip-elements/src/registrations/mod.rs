//! Outbound registrations: this server registers at gateways that require it (RFC 3261 section 10.2). One worker does so for all.
//!
//! ```text
//!            due                      2xx: refreshed before it expires
//! Waiting ───────────▶ Asking ──┬─────────────────────────────────────▶ Waiting
//!                      ▲   │    └── refused, or silent: after a back-off ──▶ Waiting
//!                      └───┘ 401, 407, 423: again at once
//! ```
//! Each registration has a Call-ID whose home is this worker, so its responses arrive here. When the server drains, or the configuration does
//! not name a registration any more, its binding is removed.

mod attempt;
mod outcome;

pub use outcome::{RegistrationChange, RegistrationNotice};

use crate::own_request::call_id;
use crate::own_response::hex;
use crate::owner::{BranchId, RegistrationId};
use crate::worker::Worker;
use crate::{Settings, WorkerParts};
pub(crate) use attempt::{answered, failed, resolved};
use rand_chacha::rand_core::Rng;
use sip_message::digest::Wallet;
use sip_routing::gateway::{Gateway, RegistrationDescription};
use sip_transaction::{ClientId, TimerId, TimerWheel};
use sip_transport::{Slab, Tenant, Time};
use std::sync::Arc;
use std::time::Duration;

/// Within this time, all registrations of a new configuration begin.
const SPREAD: Duration = Duration::from_secs(1);

/// The registrations of this worker.
#[derive(Debug)]
pub(crate) struct Registrations {
    slots: Slab<Registration>,
    wheel: TimerWheel<RegistrationId>,
    /// When to compare them with the settings.
    changed: Option<Time>,
    is_draining: bool,
}

#[derive(Debug)]
struct Registration {
    generation: u32,
    gateway: Arc<Gateway>,
    call_id: [u8; 16],
    /// The tag in From.
    tag: [u8; 16],
    cseq: u32,
    wallet: Wallet,
    /// The lifetime to ask for, in seconds. A 423 raises it.
    expires: u32,
    /// Our Contact in the last request.
    contact: Box<[u8]>,
    /// Where the last request went.
    remote: Option<crate::own_request::Remote>,
    /// The transaction of the request that waits for its response.
    client: Option<ClientId>,
    /// When the next attempt begins, or the present one is given up.
    timer: Option<TimerId>,
    is_asking: bool,
    /// Responses of the present attempt that another request has followed.
    answers: u8,
    /// Attempts since the last success.
    failures: u8,
    has_binding: bool,
    /// Its binding is being removed.
    is_leaving: bool,
}

impl Tenant for Registration {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl Registrations {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            slots: Slab::new(0),
            wheel: TimerWheel::new(now),
            changed: None,
            is_draining: false,
        }
    }

    /// Follows new settings at the next [`expire`].
    pub(crate) fn configure(&mut self, worker: u16, settings: &Settings, now: Time) {
        let gateways = settings.policy.gateways.gateways();
        let are_wanted = gateways.iter().any(|it| is_wanted(it));
        if worker == 0 && (are_wanted || !self.slots.is_empty()) {
            self.changed = Some(now);
        }
    }

    /// When to call [`expire`] next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.changed, self.wheel.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Number of bindings that are being removed.
    pub(crate) fn leaving(&self) -> usize {
        self.slots.iter().filter(|it| it.is_leaving).count()
    }

    fn ids(&self, fits: impl Fn(&Registration) -> bool) -> Vec<RegistrationId> {
        let all = self.slots.range(0..self.slots.slots());
        let fitting = all.filter(|(_, registration)| fits(registration));
        fitting.map(|(id, _)| RegistrationId(id)).collect()
    }

    /// Sets the timer of a registration.
    fn arm(&mut self, id: RegistrationId, at: Time) {
        if let Some(registration) = self.slots.get_mut(id.0) {
            let timer = registration.timer.take();
            registration.timer = Some(match timer {
                Some(timer) => self.wheel.rearm(timer, at, id),
                None => self.wheel.arm(at, id),
            });
        }
    }

    fn remove(&mut self, parts: &mut WorkerParts<'_>, id: RegistrationId) {
        if let Some(registration) = self.slots.remove(id.0) {
            if let Some(timer) = registration.timer {
                self.wheel.cancel(timer);
            }
            if let Some(client) = registration.client {
                parts.transactions.abandon_client(client);
            }
        }
    }
}

fn is_wanted(gateway: &Gateway) -> bool {
    gateway.description().registration.is_some()
}

/// Whether a question was about the address of a registrar.
pub(crate) const fn is_of_registration(ticket: BranchId) -> bool {
    ticket.place == BranchId::REGISTRATION
}

/// Follows new settings, begins attempts that are due, and gives up those without a response.
pub(crate) fn expire(worker: &mut Worker<'_, '_>) {
    let now = worker.parts.now;
    if worker.registrations.changed.is_some_and(|at| at <= now) {
        worker.registrations.changed = None;
        follow_settings(worker);
    }
    while let Some(id) = worker.registrations.wheel.pop_due(now) {
        let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
            continue;
        };
        registration.timer = None;
        if registration.is_asking {
            attempt::give_up(worker, id, None);
        } else {
            attempt::begin(worker, id);
        }
    }
}

/// Begins the registrations that the settings name, and ends the others.
fn follow_settings(worker: &mut Worker<'_, '_>) {
    let gateways = &worker.parts.settings.policy.gateways;
    for id in worker.registrations.ids(|it| !it.is_leaving) {
        let Some(registration) = worker.registrations.slots.get_mut(id.0) else {
            continue;
        };
        let old = &registration.gateway;
        let new = gateways.gateway(old.name()).filter(|it| is_wanted(it));
        match new {
            Some(new) if is_same(old, new) => registration.gateway = Arc::clone(new),
            // The new registration replaces the binding. To remove it at the same time would be a race.
            Some(new) if address(old) == address(new) => {
                worker.registrations.remove(&mut worker.parts, id);
            }
            _ => attempt::leave(worker, id),
        }
    }
    if worker.registrations.is_draining {
        return;
    }
    for gateway in gateways.gateways().iter().filter(|it| is_wanted(it)) {
        let is_known = |it: &Registration| !it.is_leaving && it.gateway.name() == gateway.name();
        if worker.registrations.ids(is_known).is_empty() {
            add(worker, Arc::clone(gateway));
        }
    }
}

fn is_same(old: &Gateway, new: &Gateway) -> bool {
    let (old, new) = (old.description(), new.description());
    old.registration == new.registration
        && old.credential == new.credential
        && old.destination == new.destination
}

fn address(gateway: &Gateway) -> Option<&str> {
    let registration = gateway.description().registration.as_ref();
    registration.map(RegistrationDescription::address)
}

fn add(worker: &mut Worker<'_, '_>, gateway: Arc<Gateway>) {
    let call_id = call_id(worker);
    let random = &mut *worker.parts.random;
    let tag = hex(random.next_u64());
    let spread = Duration::from_micros(random.next_u64() % SPREAD.as_micros() as u64);
    let expires = gateway.description().registration.as_ref();
    let expires = expires.map_or(0, |it| it.expires().as_secs());
    let slot = worker.registrations.slots.insert(|id| Registration {
        generation: id.generation,
        gateway,
        call_id,
        tag,
        cseq: 0,
        wallet: Wallet::default(),
        expires: u32::try_from(expires).unwrap_or(u32::MAX),
        contact: Box::default(),
        remote: None,
        client: None,
        timer: None,
        is_asking: false,
        answers: 0,
        failures: 0,
        has_binding: false,
        is_leaving: false,
    });
    let at = worker.parts.now + spread;
    worker.registrations.arm(RegistrationId(slot), at);
}

/// Removes all bindings before a shutdown, or registers again.
pub(crate) fn drain(worker: &mut Worker<'_, '_>, drain: bool) {
    worker.registrations.is_draining = drain;
    if drain {
        for id in worker.registrations.ids(|it| !it.is_leaving) {
            attempt::leave(worker, id);
        }
    } else if worker.index == 0 {
        worker.registrations.changed = Some(worker.parts.now);
    }
}
