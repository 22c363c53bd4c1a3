//! How a request and its responses change the dialog that they belong to: a 2xx makes new remote targets known
//! (RFC 3261 section 12.2), and a BYE ends the dialog.

use super::Proxy;
use super::calls::{AnsweredBye, Calls};
use super::context::{Context, ContextScope};
use super::identity_headers::Trust;
use super::keys::Keys;
use crate::WorkerParts;
use crate::routing::proof;
use crate::routing::record_route;
use crate::routing::refreshed::Refresh;
use crate::routing::route::{Routing, tags};
use sip_dialog::DialogId;
use sip_message::{HeaderName, Message, Method};

/// How a request relates to dialogs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relation {
    /// It is an INVITE that will create this dialog; or it creates none ([`DialogId::NONE`]).
    Creates(DialogId),
    /// It is in a dialog that this server record-routed.
    Inside(InDialog),
}

impl Relation {
    /// The dialog that the request will create.
    pub(super) const fn call(&self) -> DialogId {
        match self {
            Self::Creates(call) => *call,
            Self::Inside(_) => DialogId::NONE,
        }
    }

    /// The keys of its targets, for a request inside a dialog.
    pub(super) const fn keys(&self) -> Option<Keys> {
        match self {
            Self::Creates(_) => None,
            Self::Inside(dialog) => Some(dialog.keys),
        }
    }

    /// Who of the parties is trusted as a gateway is, for a request inside a dialog.
    pub(super) const fn trust(&self) -> Option<Trust> {
        match self {
            Self::Creates(_) => None,
            Self::Inside(dialog) => Some(dialog.trust),
        }
    }

    fn inside(&self) -> InDialog {
        match self {
            Self::Creates(_) => InDialog::default(),
            Self::Inside(dialog) => *dialog,
        }
    }
}

/// The dialog of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InDialog {
    /// Keyed hash of the remote target that the request goes to; 0 if the request is in no dialog of ours.
    target: u64,
    /// Keyed hash of the sender's Contact; 0 if the request refreshes no target.
    contact: u64,
    /// Keys of both targets in the table of refreshed targets. They use the tags of the request, because the sender of
    /// a response chooses the tags in it.
    keys: Keys,
    /// The dialog ends when this request has been answered.
    ends: bool,
    /// The proof expires soon, so targets are recorded even if they have not changed.
    expires_soon: bool,
    trust: Trust,
}

impl InDialog {
    pub(super) fn new(
        request: &Message<'_>,
        routing: &Routing,
        parts: &mut WorkerParts<'_>,
        calls: &mut Calls,
    ) -> Option<Self> {
        let proven = routing.dialog?;
        let refreshes = matches!(
            request.method(),
            Method::Invite | Method::Update | Method::Subscribe | Method::Notify | Method::Refer
        ) && request.header(HeaderName::Contact).is_some();
        let hasher = &parts.shared.hasher;
        let contact = || proof::contact_hash(request, hasher);
        let keys = Keys::of(request, proven.call, hasher);
        let contact = if refreshes { contact() } else { 0 };
        if proven.is_call {
            calls.look_for(parts, (keys, proven.call), request);
        }
        calls.requested(parts, keys, request);
        Some(Self {
            keys,
            target: proven.target,
            contact,
            ends: request.method() == Method::Bye,
            expires_soon: proven.expires_soon,
            trust: calls.trust(keys, &parts.settings.policy),
        })
    }
}

impl Proxy {
    /// Updates the dialog of a request whose context is gone after a response to it was forwarded. The response has proven which request it
    /// answers, with its `CSeq` number and both tags. Only a request that the dialog has not seen yet counts: the sender of a response could
    /// otherwise prolong a call for ever by repeating one.
    pub(super) fn note_unknown(&mut self, parts: &mut WorkerParts<'_>, response: &Message<'_>) {
        let method = response.method();
        let Some(call) = record_route::call_of(response, parts.view()) else {
            return;
        };
        if method == Method::Invite && matches!(response.status(), 200..300) {
            let keys = Keys::of(response, call, &parts.shared.hasher);
            if self.calls.is_news(keys, response) {
                self.calls.refreshed(parts, keys, None, response);
            }
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
        let dialog = self.dialog.inside();
        if dialog.ends {
            if !scope.refreshed.is_empty() && (is_success || matches!(response.status(), 408 | 481))
            {
                scope.refreshed.forget(dialog.keys.of_sender);
                scope.refreshed.forget(dialog.keys.of_receiver);
            }
            return;
        }
        if !is_success {
            return;
        }
        let early = self.branches.get(usize::from(place));
        let early = early.map_or(0, |branch| branch.early_target);
        if dialog.target == 0 {
            if let Some(contact) = contact.filter(|contact| early != 0 && early != *contact)
                && let (Some((from_tag, to_tag)), Some(call_id)) =
                    (tags(response), response.call_id())
            {
                let key = proof::target_key(self.routes.call, call_id, (to_tag, from_tag), hasher);
                self.record(scope, key, contact);
            }
        } else if dialog.contact != 0 {
            let request = self.request.as_deref();
            let request = request.and_then(|bytes| Message::parse(bytes).ok());
            scope
                .calls
                .refreshed(scope.parts, dialog.keys, request.as_ref(), response);
            self.record(scope, dialog.keys.of_sender, dialog.contact);
            if response.header(HeaderName::Contact).is_some() {
                let contact = contact.unwrap_or_else(|| proof::contact_hash(response, hasher));
                if contact != dialog.target || dialog.expires_soon {
                    self.record(scope, dialog.keys.of_receiver, contact);
                }
            }
        }
    }

    /// Ends the dialog of a BYE with its final response, and the one that an INVITE was to create with its failure. A BYE that is challenged
    /// ends nothing, because its sender repeats it.
    pub(super) fn end_dialog(&self, scope: &mut ContextScope<'_, '_>, status: u16) {
        let dialog = self.dialog.inside();
        if dialog.ends && !matches!(status, 401 | 407) {
            let bye = AnsweredBye {
                keys: dialog.keys,
                target: dialog.target,
                received: self.received,
                status,
            };
            scope.calls.hung_up(scope.parts, bye);
        }
        if status >= 300 {
            let call = self.dialog.call();
            scope
                .calls
                .failed(scope.parts, call, status, self.cancelled_by);
        }
    }

    fn record(&self, scope: &mut ContextScope<'_, '_>, key: u64, target: u64) {
        let settings = scope.parts.settings;
        let source = self.client;
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
