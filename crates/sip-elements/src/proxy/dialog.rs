//! How a request and its responses change the dialog that they belong to: a 2xx makes new remote targets known
//! (RFC 3261 section 12.2), and a BYE ends the dialog.

use super::context::{Context, ContextScope};
use crate::WorkerParts;
use crate::routing::proof;
use crate::routing::refreshed::Refresh;
use crate::routing::route::{Routing, tags};
use sip_message::{HeaderName, Message, Method};

/// The dialog of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InDialog {
    /// Keyed hash of the remote target that the request goes to; 0 if the request is in no dialog of ours.
    target: u64,
    /// Keyed hash of the sender's Contact; 0 if the request refreshes no target.
    contact: u64,
    /// Keys of both targets in the table of refreshed targets. They use the tags of the request, because the sender of
    /// a response chooses the tags in it.
    of_sender: u64,
    of_receiver: u64,
    /// The dialog ends when this request has been answered.
    ends: bool,
    /// The proof expires soon, so targets are recorded even if they have not changed.
    expires_soon: bool,
}

impl InDialog {
    pub(super) fn new(request: &Message<'_>, routing: &Routing, parts: &WorkerParts<'_>) -> Self {
        let Some(proven) = routing.dialog else {
            return Self::default();
        };
        let refreshes = matches!(
            request.method(),
            Method::Invite | Method::Update | Method::Subscribe | Method::Notify | Method::Refer
        ) && request.header(HeaderName::Contact).is_some();
        let hasher = &parts.shared.hasher;
        let contact = || proof::contact_hash(request, hasher);
        let call_id = request.call_id().unwrap_or_default();
        let (from_tag, to_tag) = tags(request).unwrap_or_default();
        Self {
            of_sender: proof::target_key(call_id, from_tag, to_tag, hasher),
            of_receiver: proof::target_key(call_id, to_tag, from_tag, hasher),
            target: proven.target,
            contact: if refreshes { contact() } else { 0 },
            ends: request.method() == Method::Bye,
            expires_soon: proven.expires_soon,
        }
    }
}

impl Context {
    /// Notes the Contact of a forwarded provisional response that may have created an early dialog. The Contact of the
    /// 2xx may differ from it, and not every caller then uses the route set of the 2xx.
    pub(super) fn note_early_target(&mut self, place: u8, contact: Option<u64>) {
        let branch = self.branches.get_mut(usize::from(place));
        if let (Some(branch), Some(contact)) = (branch, contact) {
            branch.early_target = contact;
        }
    }

    /// Updates the dialog after a final response was forwarded. `contact` is the keyed hash of its Contact, if known.
    pub(super) fn note_dialog(
        &self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        response: &Message<'_>,
        contact: Option<u64>,
    ) {
        let hasher = &scope.parts.shared.hasher;
        let is_success = matches!(response.status(), 200..300);
        if self.dialog.ends {
            if !scope.refreshed.is_empty() && (is_success || matches!(response.status(), 408 | 481))
            {
                scope.refreshed.forget(self.dialog.of_sender);
                scope.refreshed.forget(self.dialog.of_receiver);
            }
            return;
        }
        if !is_success {
            return;
        }
        let early = self.branches.get(usize::from(place));
        let early = early.map_or(0, |branch| branch.early_target);
        if self.dialog.target == 0 {
            if let Some(contact) = contact.filter(|contact| early != 0 && early != *contact)
                && let (Some((from_tag, to_tag)), Some(call_id)) =
                    (tags(response), response.call_id())
            {
                let key = proof::target_key(call_id, to_tag, from_tag, hasher);
                self.record(scope, key, contact);
            }
        } else if self.dialog.contact != 0 {
            self.record(scope, self.dialog.of_sender, self.dialog.contact);
            if response.header(HeaderName::Contact).is_some() {
                let contact = contact.unwrap_or_else(|| proof::contact_hash(response, hasher));
                if contact != self.dialog.target || self.dialog.expires_soon {
                    self.record(scope, self.dialog.of_receiver, contact);
                }
            }
        }
    }

    fn record(&self, scope: &mut ContextScope<'_, '_>, key: u64, target: u64) {
        let settings = scope.parts.settings;
        let source = self.source.remote.ip();
        let refresh = Refresh {
            key,
            target,
            source,
            is_trusted: settings.proxy.trusted_peers.contains(source),
        };
        scope.refreshed.record(
            refresh,
            scope.parts.now,
            settings.proxy.dialog_lifetime,
            settings.limits.refreshed_targets,
        );
    }
}
