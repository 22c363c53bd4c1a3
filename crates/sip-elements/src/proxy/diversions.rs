//! Diversions of a call: what happens when the phones of its callee do not take it. The callee forwards calls (always, busy, no answer,
//! not registered), or one of its phones redirects the call and this server recurses (RFC 3261 section 16.7 step 4).
//!
//! A diversion begins when nothing else is left to try, as the choice of the next gateway does. Its targets replace those of the callee,
//! and may have a callee of their own. A CANCEL, a 2xx and a 6xx end all diversions.

use super::context::{BranchState, Context, ContextScope};
use super::timer::Deadline;
use crate::metrics::DiversionCause as Cause;
use crate::phase::diversion;
use crate::routing::failure::Failure;
use crate::services::CallForwarding;
use crate::settings::Redirects;
use crate::{Settings, WorkerParts};
use sip_message::{HeaderName, Message, Method, NameAddr};
use sip_routing::limit::{Limits, Permits};
use sip_transaction::TimerId;
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of contacts of a redirection that are tried.
const MOST_CONTACTS: usize = 5;
/// Longer contacts are not tried, in bytes.
const LONGEST_CONTACT: usize = 512;

/// The subscriber that a call is for, if it may divert the call.
#[derive(Debug)]
pub(crate) struct Callee {
    /// Its address of record (`user@domain`).
    address: Box<[u8]>,
    /// `None`: it forwards no calls, but its phones may redirect them.
    forwarding: Option<Arc<CallForwarding>>,
}

impl Callee {
    /// The callee at an address of record; `None` if it cannot divert the request.
    pub(crate) fn of(parts: &WorkerParts<'_>, address: &[u8], method: Method<'_>) -> Option<Self> {
        let forwardings = &parts.shared.services.forwardings;
        let recurses = parts.settings.proxy.diversions.redirects == Redirects::Recurse;
        if method != Method::Invite || (forwardings.is_empty() && !recurses) {
            return None;
        }
        let forwarding = forwardings.find(address);
        (forwarding.is_some() || recurses).then(|| Self {
            address: address.into(),
            forwarding,
        })
    }

    /// Whether its phones get no calls.
    pub(crate) fn forwards_always(&self) -> bool {
        let forwarding = self.forwarding.as_deref();
        forwarding.is_some_and(|it| it.always.is_some())
    }

    /// Whether it takes calls while no phone is registered.
    pub(crate) fn takes_unregistered(&self) -> bool {
        let forwarding = self.forwarding.as_deref();
        forwarding.is_some_and(CallForwarding::takes_unregistered)
    }
}

/// One diversion.
#[derive(Clone, Debug)]
pub(super) struct Diversion {
    /// The address of record of the subscriber that diverts the call.
    pub(super) by: Box<[u8]>,
    pub(super) cause: Cause,
    /// The URI that it diverts the call to.
    pub(super) target: Box<[u8]>,
}

/// A subscriber that has diverted a call, and its places in the limits. A reload may add the limits later.
#[derive(Debug)]
pub(super) struct Diverter {
    /// Its address of record.
    by: Box<[u8]>,
    /// The name of the limit of its rule, or empty.
    limit: Box<str>,
    permits: Permits,
}

impl Diverter {
    /// What a restart needs to restore them: a line each, the subscriber, a tab, and the name of its limit.
    pub(super) fn text_of(diverters: &[Self]) -> Vec<u8> {
        let mut text = Vec::new();
        for diverter in diverters {
            for part in [&*diverter.by, b"\t", diverter.limit.as_bytes(), b"\n"] {
                text.extend_from_slice(part);
            }
        }
        text
    }

    /// Moves its places to the limits that apply now.
    pub(super) fn recount(&mut self, limits: &Limits) {
        self.permits = limits.restore_diverted(&self.by, limits.of_rule(&self.limit));
    }

    /// Those in [`Diverter::text_of`], with places for them even if there are too many calls.
    pub(super) fn restored(limits: &Limits, text: &[u8]) -> Vec<Self> {
        let lines = text.split(|byte| *byte == b'\n');
        let restored = lines.filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (by, name) = line.split_at(tab);
            let name = std::str::from_utf8(name.get(1..)?).ok()?;
            Some(Self {
                by: by.into(),
                limit: name.into(),
                permits: limits.restore_diverted(by, limits.of_rule(name)),
            })
        });
        restored.collect()
    }
}

/// How the call has ended at the phones of the present callee.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something else of the phones"
)]
struct Outcome {
    has_rung: bool,
    is_busy: bool,
    /// A phone has refused the call for a reason that no other target changes.
    is_refused: bool,
    /// They have rung for as long as the callee wants.
    is_unanswered: bool,
}

impl Outcome {
    fn note_status(&mut self, status: u16) {
        match status {
            486 => self.is_busy = true,
            408 | 480 | 487 | 503 => {}
            _ => self.is_refused = true,
        }
    }

    /// Which forwarding applies. Any busy phone counts, because the call has ended at all others. A phone that has not answered either
    /// rang, or could not be reached.
    const fn cause(self) -> Option<Cause> {
        if self.is_unanswered {
            Some(Cause::NoAnswer)
        } else if self.is_busy {
            Some(Cause::Busy)
        } else if self.is_refused {
            None
        } else if self.has_rung {
            Some(Cause::NoAnswer)
        } else {
            Some(Cause::NotRegistered)
        }
    }
}

/// Who a call is for, and who has diverted it so far.
#[derive(Debug)]
pub(crate) struct Diversions {
    /// The subscriber that the present targets belong to; `None` if it cannot divert the call.
    callee: Option<Callee>,
    /// The first branch to the present targets.
    first_branch: u8,
    outcome: Outcome,
    /// When the phones have rung long enough.
    timer: Option<TimerId>,
    /// The diversions that led to the present targets, the first one first.
    path: SmallVec<[Diversion; 1]>,
    /// Diversions that are tried when the present targets have failed, the next one last, and the length of their path.
    waiting: Vec<(usize, Diversion)>,
    /// How often the call was diverted.
    count: usize,
    /// For each diversion of the path, who holds places in the limits for it; `None` if its rule exempts it from limits.
    diverters: Vec<Option<Diverter>>,
    is_closed: bool,
}

impl Diversions {
    pub(super) fn new(callee: Callee) -> Self {
        Self {
            callee: Some(callee),
            first_branch: 0,
            outcome: Outcome::default(),
            timer: None,
            path: SmallVec::new(),
            waiting: Vec::new(),
            count: 0,
            diverters: Vec::new(),
            is_closed: false,
        }
    }

    /// The diversions that led to the present targets, the first one first.
    pub(super) fn path(&self) -> &[Diversion] {
        &self.path
    }

    /// Handles a 2xx in this branch. Returns those who diverted the call to it.
    pub(super) fn answered(&mut self, branch: u8) -> Vec<Diverter> {
        let diverters = std::mem::take(&mut self.diverters);
        let is_present = self.first_branch <= branch;
        diverters
            .into_iter()
            .flatten()
            .filter(|_| is_present)
            .collect()
    }

    fn forwarding(&self) -> Option<&CallForwarding> {
        let callee = self.callee.as_ref()?;
        callee.forwarding.as_deref().filter(|_| !self.is_closed)
    }

    /// Moves the places of those who have diverted the call to the limits that apply now.
    pub(super) fn recount(&mut self, limits: &Limits) {
        for diverter in self.diverters.iter_mut().flatten() {
            diverter.recount(limits);
        }
    }

    /// Takes the next diversion, after everything else has failed. What a phone of the callee wants comes before call forwarding, and that
    /// before other contacts of an earlier redirection.
    fn next(&mut self) -> Option<Diversion> {
        let depth = self.path.len();
        let is_redirected = self.waiting.last().is_some_and(|(of, _)| *of == depth);
        let forwarded = self.forwarded().filter(|_| !is_redirected);
        self.callee = None;
        if self.is_closed || forwarded.is_some() {
            return forwarded;
        }
        let (depth, diversion) = self.waiting.pop()?;
        self.path.truncate(depth);
        self.diverters.truncate(depth);
        Some(diversion)
    }

    /// Where the callee forwards the call.
    fn forwarded(&self) -> Option<Diversion> {
        let forwarding = self.forwarding()?;
        let cause = match forwarding.always {
            Some(_) => Cause::Always,
            None => self.outcome.cause()?,
        };
        let target = match cause {
            Cause::Always => forwarding.always.as_ref(),
            Cause::Busy => forwarding.busy.as_ref(),
            Cause::NoAnswer => forwarding.no_answer.as_ref().map(|it| &it.target),
            Cause::NotRegistered => forwarding.not_registered.as_ref(),
            Cause::Redirected => None,
        };
        Some(Diversion {
            by: self.callee.as_ref()?.address.clone(),
            cause,
            target: target?.clone(),
        })
    }

    /// Whether this subscriber has diverted the call already.
    fn has_passed(&self, address: &[u8]) -> bool {
        self.path.iter().any(|diversion| *diversion.by == *address)
    }
}

impl Context {
    fn diversions(&self) -> Option<&Diversions> {
        self.policy.as_ref()?.diversions.as_ref()
    }

    fn diversions_mut(&mut self) -> Option<&mut Diversions> {
        self.policy.as_mut()?.diversions.as_mut()
    }

    /// Whether the call may still be diverted, so that the request must be kept.
    pub(super) fn may_divert(&self) -> bool {
        let diversions = self.diversions();
        diversions
            .is_some_and(|it| !it.is_closed && (it.callee.is_some() || !it.waiting.is_empty()))
    }

    /// Whether the failure of the present targets may lead to a diversion.
    pub(super) fn wants_diversion(&self) -> bool {
        let diversions = self.diversions();
        diversions.is_some_and(|it| it.forwarding().is_some() || !it.waiting.is_empty())
    }

    /// Diverts the call if the callee wants that. Returns whether there is something to try.
    pub(super) fn divert(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
    ) -> bool {
        if self.is_concluded || self.cancelled_by.is_some() {
            return false;
        }
        self.disarm_no_answer(scope);
        while let Some(diversion) = self.diversions_mut().and_then(Diversions::next) {
            match self.begin_diversion(scope, request, diversion) {
                Ok(true) => return true,
                // The next callee forwards all calls.
                Ok(false) => {}
                Err(failure) => self.note_failure(failure),
            }
        }
        false
    }

    /// Whether the present targets are those of a diversion.
    pub(super) fn is_diverted(&self) -> bool {
        let diversions = self.policy.as_ref().and_then(|it| it.diversions.as_ref());
        diversions.is_some_and(|it| !it.path.is_empty())
    }

    /// Replaces the targets by those of a diversion. Returns whether there are any.
    fn begin_diversion(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        diversion: Diversion,
    ) -> Result<bool, Failure> {
        let settings = scope.parts.settings;
        let earlier = request.values(HeaderName::Diversion).count();
        let first_branch = self.branches.len().min(usize::from(u8::MAX)) as u8;
        let Some(diversions) = self.diversions_mut() else {
            return Ok(false);
        };
        if earlier + diversions.count >= settings.proxy.diversions.most {
            return Err(Failure::DivertedTooOften);
        }
        let diverted = diversion::Diverted {
            request,
            by: &diversion.by,
            target: &diversion.target,
        };
        let onward = diversion::find(scope.parts, diverted)?;
        let mut found = onward.policy.map(|it| *it).unwrap_or_default();
        let callee = found.diversions.take().and_then(|it| it.callee);
        let cause = diversion.cause;
        let permits = found.permits.take().unwrap_or_default();
        let diverter = (!found.is_exempt()).then(|| Diverter {
            by: diversion.by.clone(),
            limit: found.limit().into(),
            permits,
        });
        diversions.path.push(diversion);
        if let Some(callee) = &callee
            && diversions.has_passed(&callee.address)
        {
            return Err(Failure::DivertedInCircle);
        }
        diversions.count += 1;
        diversions.diverters.push(diverter);
        diversions.callee = callee;
        diversions.first_branch = first_branch;
        diversions.outcome = Outcome::default();
        scope.parts.metrics.diverted(cause);
        self.leave_gateway(scope.parts.now);
        let goes_to_gateways = found.route.is_some();
        if let Some(policy) = self.policy.as_deref_mut() {
            policy.route = found.route;
            policy.rule = found.rule;
            policy.speaker = found.speaker.diverting();
            // They are for the gateway of the targets that have failed.
            policy.authorization = None;
        }
        self.targets = super::in_order(onward.targets, settings);
        Ok(goes_to_gateways || !self.targets.is_empty())
    }

    /// Notes a response that is not forwarded at once.
    pub(super) fn note_diverting_status(&mut self, status: u16) {
        if let Some(diversions) = self.diversions_mut() {
            diversions.outcome.note_status(status);
        }
    }

    /// Notes a target that has failed without a response.
    pub(super) fn note_diverting_failure(&mut self, failure: Failure) {
        if let Some(diversions) = self.diversions_mut() {
            diversions.outcome.is_refused |= failure == Failure::Overloaded;
        }
    }

    /// Notes that a phone of the present callee rings.
    pub(super) fn note_callee_rings(&mut self, branch: u8) {
        if let Some(diversions) = self.diversions_mut()
            && diversions.first_branch <= branch
        {
            diversions.outcome.has_rung = true;
        }
    }

    /// Takes the contacts of a redirection as further targets, if this server recurses. Only the phones of a subscriber are believed.
    pub(super) fn take_redirection(
        &mut self,
        settings: &Settings,
        place: u8,
        response: &Message<'_>,
    ) -> bool {
        let recurses = settings.proxy.diversions.redirects == Redirects::Recurse;
        if !recurses || !matches!(response.status(), 300..=302) {
            return false;
        }
        let Some(diversions) = self.diversions_mut().filter(|it| !it.is_closed) else {
            return false;
        };
        let Some(callee) = &diversions.callee else {
            return false;
        };
        if place < diversions.first_branch {
            return false;
        }
        let contacts = contacts(response);
        let depth = diversions.path.len();
        let redirected = contacts.iter().rev().map(|contact| {
            let diversion = Diversion {
                by: callee.address.clone(),
                cause: Cause::Redirected,
                target: contact.clone(),
            };
            (depth, diversion)
        });
        let room = MOST_CONTACTS.saturating_sub(diversions.waiting.len());
        diversions.waiting.extend(redirected.take(room));
        !contacts.is_empty()
    }

    /// Arms the timer of a callee that forwards calls that are not answered.
    pub(super) fn arm_no_answer(&mut self, scope: &mut ContextScope<'_, '_>) {
        let key = scope.key;
        let Some(diversions) = self.diversions_mut() else {
            return;
        };
        let no_answer = diversions.forwarding().and_then(|it| it.no_answer.as_ref());
        if let Some(no_answer) = no_answer
            && diversions.timer.is_none()
        {
            let at = scope.parts.now + no_answer.after;
            diversions.timer = Some(scope.wheel.arm(at, Deadline::NoAnswer(key)));
        }
    }

    fn disarm_no_answer(&mut self, scope: &mut ContextScope<'_, '_>) {
        let timer = self.diversions_mut().and_then(|it| it.timer.take());
        if let Some(timer) = timer {
            scope.wheel.cancel(timer);
        }
    }

    /// Gives up the phones that have rung for long enough. If one of them answers anyway, it gets the call.
    pub(super) fn no_answer(&mut self, scope: &mut ContextScope<'_, '_>) {
        let Some(diversions) = self.diversions_mut() else {
            return;
        };
        diversions.timer = None;
        diversions.outcome.is_unanswered = true;
        let first = diversions.first_branch;
        self.targets = Vec::new();
        for place in first..self.branches.len() as u8 {
            let state = self.branches.get(usize::from(place)).map(|it| it.state);
            match state {
                None | Some(BranchState::Ended) => {}
                Some(BranchState::Cancelling { .. } | BranchState::Resolving) => {
                    self.fail_branch(scope, place, Failure::Timeout);
                }
                Some(_) => self.give_up(scope, place),
            }
            self.retry = None;
        }
    }

    /// Ends all diversions: the call was answered, cancelled or declined, or is over.
    pub(super) fn stop_diverting(&mut self, scope: &mut ContextScope<'_, '_>) {
        self.disarm_no_answer(scope);
        if let Some(diversions) = self.diversions_mut() {
            diversions.is_closed = true;
        }
    }
}

/// The SIP URIs in the Contacts of a redirection, the best first.
fn contacts(response: &Message<'_>) -> Vec<Box<[u8]>> {
    let parsed = response.values(HeaderName::Contact).filter_map(|value| {
        let contact = NameAddr::parse(value)?;
        let uri = contact.uri_bytes.split(|byte| *byte == b'?').next()?;
        (uri.len() <= LONGEST_CONTACT).then(|| (contact.q().flatten().unwrap_or(1000), uri))
    });
    let mut contacts: SmallVec<[(u16, &[u8]); MOST_CONTACTS]> =
        parsed.take(MOST_CONTACTS).collect();
    contacts.sort_by_key(|(q, _)| std::cmp::Reverse(*q));
    contacts.into_iter().map(|(_, uri)| uri.into()).collect()
}
