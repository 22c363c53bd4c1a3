//! Credentials towards gateways that challenge (RFC 3261 section 22.3, RFC 7616): the request goes to the same gateway again, with
//! credentials. The challenge does not reach the caller, who would otherwise answer it with the digest of a password of his own.
//!
//! The copy keeps its `CSeq` number, because the dialog is between the caller and the far end.

use super::call_policy::CallPolicy;
use super::calls::Calls;
use super::context::{BranchState, Context, ContextScope, Retry};
use crate::WorkerParts;
use crate::own_response::hex;
use crate::routing::failure::Failure;
use crate::routing::target::Target;
use rand_chacha::rand_core::Rng;
use sip_message::digest::{Line, Wallet};
use sip_message::{Credentials, HeaderName, Message};
use sip_routing::gateway::{Gateway, KnownNonce};
use std::sync::Arc;

/// How many challenges of one gateway a request answers. The second one may follow because the nonce of the first is stale, or from another
/// realm.
const MOST: u8 = 2;

/// How a request authenticates to the gateway that it goes to.
#[derive(Debug)]
pub(crate) struct Authorization {
    gateway: Arc<Gateway>,
    /// Where the request goes.
    target: Target,
    wallet: Wallet,
    /// The nonce of earlier requests that the last copy used.
    known: Option<Arc<KnownNonce>>,
    /// Whether the request may use the nonce of earlier ones. Requests inside dialogs go to the remote target, which need not be the
    /// gateway, so they only answer challenges.
    is_at_gateway: bool,
    /// How many challenges have been answered.
    answered: u8,
    /// Another response has shown that the gateway accepts the nonce.
    is_proven: bool,
    /// The header fields of the next copy.
    lines: Vec<Line>,
}

impl Authorization {
    /// `None` if the gateway has no credentials.
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        target: &Target,
        is_at_gateway: bool,
    ) -> Option<Box<Self>> {
        gateway.credential()?;
        Some(Box::new(Self {
            gateway: Arc::clone(gateway),
            target: target.clone(),
            wallet: Wallet::default(),
            known: None,
            is_at_gateway,
            answered: 0,
            is_proven: false,
            lines: Vec::new(),
        }))
    }

    /// The header fields of the copy that is being sent.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Whether the credentials of the copy replace these of the caller.
    pub(super) fn replaces(&self, name: HeaderName, credentials: &Credentials<'_>) -> bool {
        self.lines.iter().any(|(other, value)| {
            let is_same = |ours: Credentials<'_>| ours.realm == credentials.realm;
            *other == name && Credentials::parse(value).is_some_and(is_same)
        })
    }

    /// Computes the header fields of the next copy, which has this method and Request-URI.
    fn prepare(&mut self, parts: &mut WorkerParts<'_>, asked: (&[u8], &[u8])) {
        self.lines.clear();
        self.known = None;
        let Some(credential) = self.gateway.credential() else {
            return;
        };
        if !is_quotable(asked.1) {
            return;
        }
        let cnonce = parts.random.next_u64();
        if !self.wallet.is_empty() {
            let credentials = std::slice::from_ref(credential);
            self.lines = self.wallet.authorize(credentials, asked, cnonce);
        } else if self.is_at_gateway
            && let Some(known) = self.gateway.known_nonce()
        {
            let line = known.authorize(credential, asked, &hex(cnonce));
            self.lines.push(line);
            self.known = Some(known);
        }
    }

    /// Takes the challenge of a 401 or 407. Returns whether the request can answer it.
    fn take(&mut self, response: &Message<'_>) -> bool {
        if let Some(known) = self.known.take() {
            self.gateway.forget_nonce(&known);
        }
        let credentials = self.gateway.credential().map(std::slice::from_ref);
        let is_answered = self.answered < MOST
            && is_quotable(&self.target.uri)
            && self.wallet.take(response, credentials.unwrap_or_default());
        self.answered = self.answered.saturating_add(1);
        self.gateway.challenged(is_answered);
        is_answered
    }

    /// Notes that the gateway has accepted the credentials.
    fn accepted(&mut self) {
        if !self.is_proven
            && let Some((name, nonce)) = self.wallet.only()
        {
            self.is_proven = true;
            self.gateway.keep_nonce(name, nonce);
        }
    }
}

/// Whether a URI can be a quoted parameter. Its user may contain what a phone should have escaped.
fn is_quotable(uri: &[u8]) -> bool {
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\') && !byte.is_ascii_control();
    uri.iter().all(is_plain)
}

/// Computes the credentials of the copy that is sent next, which has this method and Request-URI.
pub(super) fn prepare(
    policy: Option<&mut CallPolicy>,
    parts: &mut WorkerParts<'_>,
    asked: (&[u8], &[u8]),
) {
    if let Some(authorization) = policy.and_then(|it| it.authorization.as_deref_mut()) {
        authorization.prepare(parts, asked);
    }
}

impl Context {
    /// How the request authenticates to its gateway.
    pub(super) fn authorization(&self) -> Option<&Authorization> {
        self.policy.as_ref()?.authorization.as_deref()
    }

    fn authorization_mut(&mut self) -> Option<&mut Authorization> {
        self.policy.as_mut()?.authorization.as_deref_mut()
    }

    /// Prepares a request in a dialog with a gateway for its challenge.
    pub(super) fn expect_challenge(&mut self, parts: &WorkerParts<'_>, calls: &Calls) {
        let gateways = &parts.settings.policy.gateways;
        if !gateways.have_credentials() {
            return;
        }
        let gateway = self.dialog.keys().and_then(|keys| calls.gateway_of(keys));
        let gateway = gateway.and_then(|name| gateways.gateway(name));
        let (Some(gateway), [target]) = (gateway, &*self.targets) else {
            return;
        };
        if let Some(authorization) = Authorization::new(gateway, target, false) {
            self.policy.get_or_insert_default().authorization = Some(authorization);
        }
    }

    /// Handles a 401 or 407 of a gateway that we have credentials for: the request goes there again, or the gateway has failed.
    pub(super) fn receive_challenge(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        response: &Message<'_>,
    ) {
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        let (state, breadth, cursor) = (branch.state, branch.breadth, branch.cursor.take());
        let is_cancelled = matches!(state, BranchState::Cancelling { .. });
        let may_answer = !is_cancelled && self.cancelled_by.is_none();
        let authorization = self.authorization_mut().filter(|_| may_answer);
        let answer = |it: &mut Authorization| it.take(response).then(|| it.target.clone());
        if let Some(target) = authorization.and_then(answer) {
            self.end_branch(scope, place);
            self.retry = Some(match cursor {
                Some(cursor) => Retry::SameCandidate(cursor),
                None => Retry::SameTarget(Box::new(target), breadth),
            });
            return;
        }
        let failure = match state {
            BranchState::Cancelling { late: true } => Failure::Timeout,
            _ => Failure::Unauthorized,
        };
        self.fail_branch(scope, place, failure);
    }

    /// Notes that a gateway has accepted our credentials: it has sent another response than a challenge or a 403.
    pub(super) fn note_accepted(&mut self, status: u16) {
        if !matches!(status, 0..=100 | 401 | 403 | 407)
            && let Some(authorization) = self.authorization_mut()
        {
            authorization.accepted();
        }
    }
}
