//! The dialogs of calls: one for each INVITE that this server record-routes, from its first copy until a BYE, a refusal or a deadline
//! ends it. What a dialog holds is charged to the account of its INVITE.

use super::Inbound;
use super::adoption::Missing;
use super::call_events::{is_end_wanted, remove, report, report_end, save};
use super::call_policy::Holding;
use super::hang_up::{HungUp, hang_up};
use super::identity_headers::Trust;
use super::keys::Keys;
use super::places::Places;
use crate::metrics::Takeover;
use crate::routing::flow_token::is_reached_by_flow_only;
use crate::routing::proof;
use crate::routing::record_route::Recorded;
use crate::routing::route::{Routing, tags};
use crate::{View, WorkerParts};
use rand_chacha::rand_core::Rng;
use sip_dialog::{
    Agreed, Answer, Change, Dialog, DialogId, DialogStats, Dialogs, Ended, Invitation, Leg, Party,
    Text,
};
use sip_message::{HeaderName, KeyHasher, Message, Method, NameAddr};
use sip_routing::Policy;
use sip_transaction::{Account, Full, ServerId, Table};
use sip_transport::{Flow, Protocol, Time};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A BYE that has had its final response, or none in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredBye {
    pub(super) keys: Keys,
    /// Keyed hash of the remote target that the BYE went to ([`proof::target_hash`]).
    pub(super) target: u64,
    /// When the BYE arrived.
    pub(super) received: Time,
    /// The status of the response; 408 if there was none.
    pub(super) status: u16,
}

/// The Reason of the BYE that ends a dialog whose life is over.
const EXPIRED: &[u8] = b"SIP;cause=408;text=\"Session expired\"";
/// The Reason of the BYE to a party that has not accepted the BYE of the other one.
const REFUSED: &[u8] = b"SIP;cause=487;text=\"The other party has hung up\"";

/// A 2xx to an INVITE, and how its callee was reached.
pub(super) struct Accepted<'a, 'm> {
    pub(super) response: &'a Message<'m>,
    /// The flow that the INVITE left on.
    pub(super) flow: Option<Flow>,
    pub(super) recorded: Option<Recorded>,
    /// The places of the call, if it has any and no dialog holds them yet.
    pub(super) held: Option<Holding<'a>>,
}

/// The dialogs of one worker.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) dialogs: Dialogs,
    pub(super) missing: Missing,
}

impl Calls {
    pub(super) fn new(now: Time) -> Self {
        Self {
            dialogs: Dialogs::new(now),
            missing: Missing::default(),
        }
    }

    /// Begins the dialog that an INVITE will create; [`DialogId::NONE`] if the request creates none, or none that this server sees.
    ///
    /// # Errors
    /// The table is full, or the share of the source is used up.
    pub(super) fn begin(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        (server, account): (ServerId, Account),
        routing: &Routing,
    ) -> Result<DialogId, Full> {
        let request = inbound.request;
        if request.method() != Method::Invite || !parts.settings.proxy.record_route {
            return Ok(DialogId::NONE);
        }
        let (from, to) = (request.from(), request.to());
        let to_tag = to.and_then(|to| to.tag()).unwrap_or_default();
        if routing.in_our_dialog() || !to_tag.is_empty() {
            return Ok(DialogId::NONE);
        }
        self.enter(parts, account)?;
        let route = joined(request.values(HeaderName::RecordRoute));
        let texts = [
            (Text::CallId, request.call_id().unwrap_or_default()),
            (
                Text::CallerTag,
                from.and_then(|from| from.tag()).unwrap_or_default(),
            ),
            (Text::CallerTarget, contact(request)),
            (Text::CallerRoute, &route),
            (Text::From, from.map_or(b"", |from| from.uri_bytes)),
            (Text::To, to.map_or(b"", |to| to.uri_bytes)),
            (Text::RequestUri, request.request_uri()),
            (Text::Identity, inbound.subscriber),
        ];
        let incoming = parts
            .settings
            .listeners
            .get(usize::from(inbound.source.listener.0));
        let is_by_flow = incoming
            .is_some_and(|incoming| is_reached_by_flow_only(request, inbound.source, incoming));
        let id = self.dialogs.begin(&Invitation {
            id: new_id(parts, number_of(parts, inbound, server)),
            account,
            source: leg(parts, inbound.source, is_by_flow),
            cseq: request.cseq().map_or(0, |cseq| cseq.number),
            received: parts.arrived,
            texts: &texts,
        });
        parts.metrics.dialogs_created.increment();
        self.hold(parts, id, 0);
        Ok(id)
    }

    /// Notes that a copy of the INVITE was sent.
    pub(super) fn attempted(&mut self, parts: &mut WorkerParts<'_>, id: DialogId, flow: Flow) {
        let leg = leg(parts, flow, false);
        if let Some(dialog) = self.dialogs.get_mut(id)
            && dialog.attempt(leg)
        {
            report(parts, dialog, Change::Started);
        }
    }

    /// Notes that a provisional response was forwarded.
    pub(super) fn ringing(&mut self, parts: &mut WorkerParts<'_>, id: DialogId) {
        if let Some(dialog) = self.dialogs.get_mut(id)
            && dialog.ring(parts.now)
        {
            report(parts, dialog, Change::Ringing);
        }
    }

    /// Confirms a dialog when a 2xx was forwarded. Another To tag than before makes another dialog (section 13.2.2.4).
    pub(super) fn answered(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        accepted: Accepted<'_, '_>,
    ) {
        let response = accepted.response;
        let Some(dialog) = self.dialogs.get(id) else {
            return;
        };
        let (from_tag, to_tag) = tags(response).unwrap_or_default();
        let is_known = dialog.is_confirmed();
        let call_id = response.call_id().unwrap_or_default();
        let tags = (to_tag, from_tag);
        let key = proof::target_key(dialog.number(), call_id, tags, &parts.shared.hasher);
        if is_known && dialog.key() == key {
            return;
        }
        if self.dialogs.find(key).is_some() {
            // Another process had confirmed it, and its state came here.
            if !is_known {
                self.leave_to_another(parts, id);
            }
            return;
        }
        let id = if is_known {
            self.fork(parts, id, key)
        } else {
            Some(id)
        };
        if let Some(id) = id {
            self.confirm(parts, id, (key, to_tag), accepted);
        }
    }

    /// Begins the dialog of another callee that has accepted the same INVITE; `None` if it is known, or there is no room.
    fn fork(&mut self, parts: &mut WorkerParts<'_>, first: DialogId, key: u64) -> Option<DialogId> {
        if self.dialogs.has_forked(first, key) {
            return None;
        }
        let account = self.dialogs.get(first)?.account();
        self.enter(parts, account).ok()?;
        let Some(id) = self.dialogs.fork(first, key, new_id(parts, 0)) else {
            let ledger = parts.transactions.ledger();
            ledger.leave(Table::Dialogs, account);
            parts.metrics.dialogs_refused.increment();
            return None;
        };
        parts.metrics.dialogs_created.increment();
        self.hold(parts, id, 0);
        Some(id)
    }

    fn confirm(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        (key, to_tag): (u64, &[u8]),
        accepted: Accepted<'_, '_>,
    ) {
        let Accepted {
            response,
            flow,
            recorded,
            held,
        } = accepted;
        let Some(dialog) = self.dialogs.get(id) else {
            return;
        };
        let before = dialog.bytes();
        let is_by_flow = recorded.is_some_and(|recorded| recorded.is_by_flow);
        let destination = flow.map_or_else(
            || dialog.leg(Party::Callee),
            |flow| leg(parts, flow, is_by_flow),
        );
        let above = recorded.map_or(0, |recorded| recorded.above);
        let values: SmallVec<[&[u8]; 8]> = response
            .values(HeaderName::RecordRoute)
            .take(above)
            .collect();
        let route = joined(values.iter().rev().copied());
        let (gateway, limit) = held.as_ref().map_or(("", ""), |it| (it.gateway, it.limit));
        let diverters = held.as_ref().map_or(&b""[..], |it| &it.diverters);
        let texts = [
            (Text::CalleeTag, to_tag),
            (Text::CalleeTarget, contact(response)),
            (Text::CalleeRoute, &route[..]),
            (Text::Gateway, gateway.as_bytes()),
            (Text::Limit, limit.as_bytes()),
            (Text::Diverters, diverters),
        ];
        let added = texts.iter().map(|(_, text)| text.len()).sum();
        let answer = Answer {
            key,
            destination,
            status: response.status(),
            now: parts.now,
            lifetime: lifetime(parts, response),
            patience: parts.settings.timers.t1 * 64,
            texts: &texts,
        };
        let fits = self.has_room(parts, dialog.account(), added);
        if self.dialogs.confirm(id, &answer, fits) {
            self.hold(parts, id, before);
            if let (Some(held), Some(dialog)) = (held, self.dialogs.get_mut(id)) {
                held.places.pass_to(dialog);
            }
            if let Some(dialog) = self.dialogs.get(id) {
                report(parts, dialog, Change::Answered);
                save(parts, dialog);
            }
        }
    }

    /// Notes that the ACK of a 2xx was received.
    pub(super) fn acknowledged(&mut self, keys: Keys) {
        let id = self.dialogs.find(keys.of_receiver);
        if let Some(dialog) = id.and_then(|id| self.dialogs.get_mut(id)) {
            dialog.acknowledge();
        }
    }

    /// Notes a request inside a dialog: its `CSeq` number, and why a BYE ends the call.
    pub(super) fn requested(
        &mut self,
        parts: &mut WorkerParts<'_>,
        keys: Keys,
        request: &Message<'_>,
    ) {
        let Some((id, sender)) = self.find(keys) else {
            return;
        };
        let cseq = request.cseq().map_or(0, |cseq| cseq.number);
        if let Some(dialog) = self.dialogs.get_mut(id) {
            dialog.note_request(sender, cseq);
        }
        if request.method() == Method::Bye {
            self.note_reason(parts, id, request);
        }
    }

    /// Keeps the Reason of a request that ends the call, for its record.
    pub(super) fn note_reason(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        request: &Message<'_>,
    ) {
        if is_end_wanted(parts) && request.header(HeaderName::Reason).is_some() {
            let reason = super::reason::of_request(request);
            self.set_text(parts, id, (Text::Reason, &reason));
        }
    }

    /// Notes the `CSeq` number in the response to a request whose context is gone. Returns whether the dialog has not seen that request.
    pub(super) fn is_news(&mut self, keys: Keys, response: &Message<'_>) -> bool {
        let Some((id, sender)) = self.find(keys) else {
            return false;
        };
        let cseq = response.cseq().map_or(0, |cseq| cseq.number);
        self.dialogs.get_mut(id).is_some_and(|dialog| {
            let is_news = cseq > dialog.last_cseq(sender);
            dialog.note_request(sender, cseq);
            is_news
        })
    }

    /// Notes that a request has refreshed its dialog (section 12.2): both targets, and how long it lives.
    pub(super) fn refreshed(
        &mut self,
        parts: &mut WorkerParts<'_>,
        keys: Keys,
        request: Option<&Message<'_>>,
        response: &Message<'_>,
    ) {
        let Some((id, sender)) = self.find(keys) else {
            return;
        };
        let targets = [
            (sender, request.map_or(&b""[..], contact)),
            (sender.other(), contact(response)),
        ];
        for (party, target) in targets {
            if !target.is_empty() {
                self.set_text(parts, id, (Text::target_of(party), target));
            }
        }
        if matches!(response.method(), Method::Invite | Method::Update) {
            let expires = parts.now + lifetime(parts, response);
            self.dialogs.refresh(id, expires);
        }
        if let Some(dialog) = self.dialogs.get(id) {
            save(parts, dialog);
        }
    }

    /// Ends the dialog of a BYE. Its sender has left the call when it sent the BYE (section 15.1.1), whatever the response is. If the other
    /// party did not confirm that the call is over, it gets a BYE that it can accept: a sender could otherwise end the record of a call
    /// with a BYE that the other party refuses or does not get. If it cannot get one, the dialog stays.
    pub(super) fn hung_up(&mut self, parts: &mut WorkerParts<'_>, bye: AnsweredBye) {
        let Some((id, sender)) = self.find(bye.keys) else {
            if parts.settings.dialogs.adopts && self.missing.keep(bye, parts.now) {
                parts.metrics.took_over(Takeover::ByeForgotten);
            }
            return;
        };
        let Some(dialog) = self.dialogs.get(id) else {
            return;
        };
        let ended = match sender {
            Party::Caller => Ended::ByCaller,
            Party::Callee if dialog.is_acknowledged() => Ended::ByCallee,
            Party::Callee => Ended::NoAck,
        };
        let hasher = &parts.shared.hasher;
        let is_current = !dialog.is_whole()
            || proof::target_hash(dialog.target(sender.other()), hasher) == bye.target;
        let is_confirmed = matches!(bye.status, 200..300 | 481) && is_current;
        if !is_confirmed
            && hang_up(parts, id, dialog, &[sender.other()], REFUSED) == HungUp::default()
        {
            return;
        }
        self.end(parts, id, ended, bye.received);
    }

    /// Ends an early dialog: its INVITE has failed with this status, or was cancelled.
    pub(super) fn failed(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        status: u16,
        cancelled_by: Option<Ended>,
    ) {
        let early = self.dialogs.get_mut(id);
        let Some(dialog) = early.filter(|dialog| !dialog.is_confirmed()) else {
            return;
        };
        dialog.fail(status);
        let ended = match status {
            408 => Ended::NoAnswer,
            _ => Ended::Refused,
        };
        self.end(parts, id, cancelled_by.unwrap_or(ended), parts.now);
    }

    /// The name of the gateway that a request of the caller goes to, if it does.
    pub(super) fn gateway_of(&self, keys: Keys) -> Option<&str> {
        let (id, sender) = self.find(keys)?;
        let name = self.dialogs.get(id)?.text(Text::Gateway);
        let name = std::str::from_utf8(name).ok()?;
        (sender == Party::Caller && !name.is_empty()).then_some(name)
    }

    /// Whether this is the keyed hash of the remote target of a request in a live dialog.
    pub(super) fn knows_target(&self, keys: Keys, target: u64, view: View<'_>) -> bool {
        let found = self.find(keys);
        let found = found.and_then(|(id, sender)| Some((self.dialogs.get(id)?, sender)));
        found.is_some_and(|(dialog, sender)| {
            let known = proof::target_hash(dialog.target(sender.other()), &view.shared.hasher);
            dialog.expires() > view.now && known == target
        })
    }

    /// Who of the parties of a dialog is trusted as a gateway is, for a request in it. A call that an INVITE made went to its gateway, so
    /// the gateway is the callee.
    pub(super) fn trust(&self, keys: Keys, policy: &Policy) -> Trust {
        let found = Some(keys).filter(|_| policy.gateways.has_trusted());
        let Some((id, sender)) = found.and_then(|keys| self.find(keys)) else {
            return Trust::default();
        };
        let name = self.dialogs.get(id).map(|it| it.text(Text::Gateway));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let gateway = name.and_then(|name| policy.gateways.gateway(name));
        let is_trusted = gateway.is_some_and(|gateway| gateway.is_trusted());
        Trust {
            sender: is_trusted && sender == Party::Callee,
            receiver: is_trusted && sender == Party::Caller,
        }
    }

    /// Restores a dialog that was recorded, if `is_home` accepts its Call-ID. If its life is over, it ends at once.
    pub(super) fn restore(
        &mut self,
        parts: &mut WorkerParts<'_>,
        state: &[u8],
        is_home: impl FnOnce(&[u8]) -> bool,
    ) -> Option<DialogId> {
        let hasher = &parts.shared.hasher;
        let key_of = |dialog: &Dialog| key_of(dialog, hasher);
        let latest = parts.now + parts.settings.proxy.dialog_lifetime;
        let accepts = |dialog: &mut Dialog| {
            // The clock may have been set back meanwhile.
            dialog.expire_by(latest);
            is_home(dialog.text(Text::CallId))
        };
        let id = self.dialogs.restore(state, accepts, key_of)?;
        parts.metrics.dialogs_created.increment();
        self.hold(parts, id, 0);
        if let Some(dialog) = self.dialogs.get_mut(id)
            && let Some(places) = Places::restored(&parts.settings.policy, dialog)
        {
            places.pass_to(dialog);
        }
        Some(id)
    }

    /// Whether a 2xx has confirmed this dialog.
    pub(super) fn is_confirmed(&self, id: DialogId) -> bool {
        self.dialogs.get(id).is_some_and(Dialog::is_confirmed)
    }

    /// Ends the dialogs whose time is over.
    pub(super) fn expire(&mut self, parts: &mut WorkerParts<'_>) {
        while let Some((id, ended)) = self.dialogs.pop_due(parts.now) {
            let Some(dialog) = self.dialogs.get(id) else {
                continue;
            };
            let at = dialog.expires().min(parts.now);
            // After a long absence of this server, the addresses may have other users.
            let is_recent = parts.now < at + parts.settings.timers.t1 * 64;
            if ended == Ended::Expired && parts.settings.dialogs.bye_at_end && is_recent {
                hang_up(parts, id, dialog, &Party::ALL, EXPIRED);
            }
            self.end(parts, id, ended, at);
        }
    }

    /// When to call `expire` next.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.dialogs.next_deadline()
    }

    pub(super) fn stats(&self) -> DialogStats {
        self.dialogs.stats()
    }

    /// The bytes of the texts of all dialogs, counted one by one.
    pub(super) fn count_bytes(&self) -> usize {
        self.dialogs.iter().map(Dialog::bytes).sum()
    }

    /// The distinct places that dialogs hold.
    pub(super) fn count_places(&self) -> usize {
        let held = self.dialogs.iter().filter_map(Dialog::held);
        let held: BTreeSet<_> = held.map(|held| Arc::as_ptr(held).cast::<()>()).collect();
        held.len()
    }

    /// The number of a call in its proofs; 0 if there is no dialog.
    pub(super) fn number(&self, id: DialogId) -> u32 {
        self.dialogs.get(id).map_or(0, Dialog::number)
    }

    /// The dialog of a request, and which party has sent it.
    pub(super) fn find(&self, keys: Keys) -> Option<(DialogId, Party)> {
        let from_caller = self.dialogs.find(keys.of_receiver);
        let from_caller = from_caller.map(|id| (id, Party::Caller));
        from_caller.or_else(|| Some((self.dialogs.find(keys.of_sender)?, Party::Callee)))
    }

    /// Whether dialogs may hold this many bytes more. Dialogs last for hours and messages for seconds, so the texts of dialogs may use half
    /// of the bytes, and a quarter if the caller is unproven.
    fn has_room(&self, parts: &mut WorkerParts<'_>, account: Account, bytes: usize) -> bool {
        let share = if account.is_stranger() { 4 } else { 2 };
        let most = parts.settings.limits.held_bytes / share;
        let held = self.dialogs.stats().bytes;
        held + bytes as u64 <= most as u64 && parts.transactions.ledger().has_room(bytes)
    }

    /// Enters a dialog into the ledger.
    pub(super) fn enter(&self, parts: &mut WorkerParts<'_>, account: Account) -> Result<(), Full> {
        if !self.has_room(parts, account, 0) {
            parts.metrics.dialogs_refused.increment();
            return Err(Full);
        }
        let (live, limit) = (self.dialogs.len(), parts.settings.limits.dialogs);
        let ledger = parts.transactions.ledger();
        let entered = ledger.join(Table::Dialogs, account, live, limit);
        entered.inspect_err(|_| parts.metrics.dialogs_refused.increment())
    }

    /// Removes a dialog without a record.
    pub(super) fn discard(&mut self, parts: &mut WorkerParts<'_>, id: DialogId) -> Option<Dialog> {
        let dialog = self.dialogs.end(id)?;
        let ledger = parts.transactions.ledger();
        ledger.hold(dialog.account(), dialog.bytes(), 0);
        ledger.leave(Table::Dialogs, dialog.account());
        Some(dialog)
    }

    /// Ends a dialog. `at` is when the call ended.
    pub(super) fn end(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        ended: Ended,
        at: Time,
    ) {
        let Some(dialog) = self.discard(parts, id) else {
            return;
        };
        if let Some(counter) = parts.metrics.dialogs_ended.get(ended as usize) {
            counter.increment();
        }
        report_end(parts, &dialog, ended, at);
        remove(parts, &dialog);
    }

    pub(super) fn set_text(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        text: (Text, &[u8]),
    ) {
        let Some(dialog) = self.dialogs.get(id) else {
            return;
        };
        let before = dialog.bytes();
        let fits = self.has_room(parts, dialog.account(), text.1.len());
        self.dialogs.set_text(id, text, fits);
        self.hold(parts, id, before);
    }

    /// Counts the bytes of a dialog that had `before` bytes.
    fn hold(&self, parts: &mut WorkerParts<'_>, id: DialogId, before: usize) {
        if let Some(dialog) = self.dialogs.get(id) {
            let ledger = parts.transactions.ledger();
            ledger.hold(dialog.account(), before, dialog.bytes());
        }
    }
}

/// The key of a confirmed dialog ([`proof::target_key`]).
pub(crate) fn key_of(dialog: &Dialog, hasher: &KeyHasher) -> u64 {
    let (caller, callee) = (dialog.text(Text::CallerTag), dialog.text(Text::CalleeTag));
    let call_id = dialog.text(Text::CallId);
    proof::target_key(dialog.number(), call_id, (callee, caller), hasher)
}

/// How long a dialog lives after this 2xx, unless it is refreshed: the session interval that both parties have agreed on (RFC 4028), but not
/// longer than `dialog_lifetime`.
fn lifetime(parts: &WorkerParts<'_>, response: &Message<'_>) -> Duration {
    let longest = parts.settings.proxy.dialog_lifetime;
    let agreed = parts
        .settings
        .session_timers
        .and_then(|_| Agreed::of(response));
    agreed.map_or(longest, |agreed| agreed.interval().min(longest))
}

/// A new id: the time in milliseconds, 48 random bits, and the number of the call. So databases write new calls side by side.
fn new_id(parts: &mut WorkerParts<'_>, number: u32) -> u128 {
    let milliseconds = parts.now.as_micros() / 1_000;
    let (high, low) = (parts.random.next_u32(), parts.random.next_u32());
    let random = u128::from(high & 0xffff) << 32 | u128::from(low);
    u128::from(milliseconds) << 80 | random << 32 | u128::from(number)
}

/// The number of the call that an INVITE begins. It is in our Record-Route value, which a retransmission that another node gets must repeat. So
/// it is a keyed hash of all that decides which call this is. The parties choose all of that, but a call of the same number is the same call:
/// it has the same caller, at the same address, in the same transaction, to the same callee.
fn number_of(parts: &WorkerParts<'_>, inbound: Inbound<'_, '_>, server: ServerId) -> u32 {
    let request = inbound.request;
    let server = parts.transactions.server_key(server);
    let server = server.map_or(0, |key| key.0);
    let source = match inbound.source.remote.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let hash = parts.shared.hasher.hash(&[
        b"call",
        &server.to_be_bytes(),
        request.call_id().unwrap_or_default(),
        request.request_uri(),
        request.header(HeaderName::From).unwrap_or_default(),
        request.header(HeaderName::To).unwrap_or_default(),
        request.header(HeaderName::CSeq).unwrap_or_default(),
        contact(request),
        inbound.subscriber,
        &source,
    ]);
    // 0 stands for no call.
    (hash as u32).max(1)
}

fn leg(parts: &WorkerParts<'_>, flow: Flow, is_by_flow: bool) -> Leg {
    let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
    Leg {
        flow,
        protocol: listener.map_or(Protocol::Udp, |listener| listener.protocol),
        is_by_flow,
    }
}

/// The URI in the first Contact; empty without a Contact.
fn contact<'m>(message: &Message<'m>) -> &'m [u8] {
    let contact = message.values(HeaderName::Contact).next();
    contact
        .and_then(NameAddr::parse)
        .map_or(b"", |contact| contact.uri_bytes)
}

/// Values of a header field, separated by commas.
fn joined<'v>(values: impl Iterator<Item = &'v [u8]>) -> SmallVec<[u8; 256]> {
    let mut joined = SmallVec::new();
    for value in values {
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(value);
    }
    joined
}
