//! What a call holds: its places in the limits and on its gateway. They are given back when they are dropped, so no path forgets them.
//!
//! Before the 2xx they belong to the response context, then to the dialog. Without a dialog (`record_route` is off, or another node has
//! the call), they end with the response context.
//!
//! A call counts once, until the last of its dialogs has ended. If a gateway answers late, after another one has, its dialog shares the
//! place on the other one.

use super::diversions::Diverter;
use sip_dialog::{Dialog, Held, Text};
use sip_routing::limit::{Call, Permits};
use sip_routing::{Policy, gateway};
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

    /// The places of a dialog that was restored after a restart. It gets them even if there are too many calls.
    pub(super) fn restored(policy: &Policy, dialog: &Dialog) -> Option<Self> {
        let name = |text| std::str::from_utf8(dialog.text(text)).ok();
        let gateway = name(Text::Gateway).and_then(|name| policy.gateways.gateway(name));
        let limits = Some(&policy.limits).filter(|limits| !limits.is_unlimited());
        let permits = limits.map(|limits| {
            let rule = name(Text::Limit).and_then(|name| limits.named(name));
            limits.restore(&Call {
                source: dialog.leg(sip_dialog::Party::Caller).flow.remote.ip(),
                subscriber: Some(dialog.text(Text::Identity)).filter(|name| !name.is_empty()),
                rule: rule.map(AsRef::as_ref),
            })
        });
        let diverters =
            limits.map(|limits| Diverter::restored(limits, dialog.text(Text::Diverters)));
        let places = Self::new(permits, gateway.map(|gateway| gateway.occupy()))?;
        Some(places.with_diverters(diverters.unwrap_or_default()))
    }
}
