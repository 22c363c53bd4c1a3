//! What a call holds: its places in the limits and on its gateway. They are given back when they are dropped, so no path forgets them.
//!
//! Before the 2xx they belong to the response context, then to the dialog. Without a dialog (`record_route` is off, or another node has
//! the call), they end with the response context.
//!
//! A call counts once, until the last of its dialogs has ended. If a gateway answers late, after another one has, its dialog shares the
//! place on the other one.

use super::diversions::Diverter;
use sip_dialog::{Dialog, Held, Party, Text};
use sip_routing::limit::{Call, EXEMPT, Limits, Permits};
use sip_routing::{Policy, gateway};
use std::any::Any;
use std::sync::Arc;

/// The places of a call.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "the places are given back when they are dropped")]
pub(super) struct Places {
    limits: Option<Permits>,
    gateway: Option<gateway::Place>,
    /// The places of those who diverted the call, each in its own limits.
    diverters: Vec<Diverter>,
    /// What the first dialog of the call holds, if this is for another one.
    of_first: Option<Arc<dyn Held>>,
}

impl Held for Places {}

impl Places {
    /// `None` if there is nothing to hold.
    pub(super) fn new(limits: Option<Permits>, gateway: Option<gateway::Place>) -> Option<Self> {
        (limits.is_some() || gateway.is_some()).then_some(Self {
            limits,
            gateway,
            diverters: Vec::new(),
            of_first: None,
        })
    }

    /// The same, with the places of those who diverted the call.
    pub(super) fn with_diverters(self, diverters: Vec<Diverter>) -> Self {
        Self { diverters, ..self }
    }

    /// Lets the dialog hold them, besides what it shares with the first dialog of its INVITE.
    pub(super) fn pass_to(mut self, dialog: &mut Dialog) {
        self.of_first = dialog.held().cloned();
        dialog.hold(Arc::new(self));
    }

    /// The places of a dialog that was restored after a restart, or that began before there were limits. It gets them even if there are too
    /// many calls.
    pub(super) fn restored(policy: &Policy, dialog: &Dialog) -> Option<Self> {
        let gateway = name(dialog, Text::Gateway).and_then(|name| policy.gateways.gateway(name));
        let diverters = Diverter::restored(&policy.limits, dialog.text(Text::Diverters));
        let is_limited = !policy.limits.is_unlimited() && !is_exempt(dialog);
        let limits = is_limited.then_some(&policy.limits);
        let permits = limits.map(|limits| limits.restore(&call(limits, dialog)));
        let places = Self::new(permits, gateway.map(|gateway| gateway.occupy()));
        let places = places.or_else(|| (!diverters.is_empty()).then(Self::default))?;
        Some(places.with_diverters(diverters))
    }

    /// Moves the places of a dialog in limits to those that apply now. Places that two dialogs share, because two callees have accepted one
    /// INVITE, stay as they are.
    pub(super) fn recount(policy: &Policy, dialog: &mut Dialog) {
        let Some(mut held) = dialog.take_held() else {
            if let Some(places) = Self::restored(policy, dialog) {
                places.pass_to(dialog);
            }
            return;
        };
        let places = Arc::get_mut(&mut held).map(|held| held as &mut dyn Any);
        if let Some(places) = places.and_then(<dyn Any>::downcast_mut::<Self>) {
            for diverter in &mut places.diverters {
                diverter.recount(&policy.limits);
            }
            if is_exempt(dialog) {
                dialog.hold(held);
                return;
            }
            let call = call(&policy.limits, dialog);
            let limits = places.limits.get_or_insert_default();
            policy.limits.recount(limits, &call);
        }
        dialog.hold(held);
    }
}

fn name(dialog: &Dialog, text: Text) -> Option<&str> {
    std::str::from_utf8(dialog.text(text)).ok()
}

/// Whether the rule of the call has exempted it from limits.
fn is_exempt(dialog: &Dialog) -> bool {
    name(dialog, Text::Limit) == Some(EXEMPT)
}

/// What decides which limits apply to the call of a dialog.
fn call<'c>(limits: &'c Limits, dialog: &'c Dialog) -> Call<'c> {
    let rule = name(dialog, Text::Limit).and_then(|name| limits.of_rule(name));
    Call {
        source: dialog.leg(Party::Caller).flow.remote.ip(),
        subscriber: Some(dialog.text(Text::Identity)).filter(|name| !name.is_empty()),
        rule,
    }
}
