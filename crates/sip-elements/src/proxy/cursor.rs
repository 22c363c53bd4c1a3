//! The cursor of a target (RFC 3263 section 4.3): the candidates of the target, tried one after the other by each call
//! on its own. The outcome is remembered for other calls if a candidate was found by name, or is the stream that a long
//! request prefers.

use super::context::{Attempt, BranchState, Context, ContextScope, Launch, Retry};
use crate::routing::dead_targets::TargetFailure;
use crate::routing::failure::Failure;
use crate::routing::target::Target;
use crate::{Question, WorkerParts};
use sip_message::{HeaderName, Message};
use sip_transport::selection::{Candidate, Destination, Reach, prefers_stream, streams_first};
use std::time::Duration;

/// Bytes that a copy adds to the request: Via, Record-Route, a longer Request-URI. A copy that adds more is rare, and
/// leaves over UDP.
const ADDED: usize = 200;

/// A target with the candidates that have not been tried.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) target: Target,
    /// Share of the Max-Breadth.
    pub(super) breadth: u8,
    /// Untried candidates, best last.
    left: Vec<Candidate>,
    /// The candidate that is being tried.
    current: Option<Candidate>,
    /// How many more candidates may be tried.
    tries: usize,
    /// The candidates were found by name, so other calls may find them too.
    is_named: bool,
    /// The request is too long for UDP, and its URI leaves the protocol open.
    prefers_stream: bool,
}

/// Whether a copy of the request is too long for UDP (RFC 3261 section 18.1.1).
pub(super) fn is_long(request: &Message<'_>) -> bool {
    prefers_stream(request.bytes().len() + ADDED)
}

impl Cursor {
    /// Creates a cursor for a target that any of these candidates reaches, best first.
    pub(super) fn new(target: Target, breadth: u8, mut candidates: Vec<Candidate>) -> Self {
        candidates.reverse();
        Self {
            target,
            breadth,
            tries: candidates.len(),
            left: candidates,
            current: None,
            is_named: false,
            prefers_stream: false,
        }
    }

    /// Takes the next candidate: the best one that is not marked as failed, else the best one.
    fn advance(&mut self, parts: &WorkerParts<'_>) -> Option<Candidate> {
        self.tries = self.tries.checked_sub(1)?;
        let dead = &parts.shared.dead_targets;
        let lifetime = parts.settings.proxy.dead_target_lifetime;
        let admitted = |candidate: &Candidate| dead.admits(*candidate, parts.now, lifetime);
        let place = if self.is_named {
            self.left.iter().rposition(admitted)
        } else {
            None
        };
        self.current = match place {
            Some(place) => Some(self.left.remove(place)),
            None => self.left.pop(),
        };
        self.current
    }

    /// Whether there is another candidate to try.
    pub(super) fn has_next(&self) -> bool {
        self.tries > 0 && !self.left.is_empty()
    }
}

impl Context {
    /// Parks a branch until the name of its next hop is resolved.
    pub(super) fn resolve(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        destination: Destination,
        target: Target,
        breadth: u8,
    ) -> Result<(), Failure> {
        let cursor = Cursor {
            is_named: true,
            prefers_stream: destination.protocol.is_none() && is_long(request),
            ..Cursor::new(target, breadth, Vec::new())
        };
        let place = self.add_branch(&cursor.target, breadth, BranchState::Resolving)?;
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.cursor = Some(Box::new(cursor));
        }
        let call = request.call_id().unwrap_or_default();
        scope.parts.output.ask(Question::Resolve {
            ticket: scope.branch(place),
            destination,
            seed: scope.parts.shared.hasher.hash(&[b"target", call]),
        });
        scope.parts.metrics.questions.increment();
        let deadline = scope.parts.now + scope.parts.settings.question_deadline;
        self.arm(scope, place, deadline);
        Ok(())
    }

    /// Continues a branch that was parked on its name, with the candidates, best first.
    pub(super) fn resolved(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        place: u8,
        mut candidates: Vec<Candidate>,
    ) {
        self.disarm(scope, place);
        let Some(mut cursor) = self
            .branches
            .get_mut(usize::from(place))
            .and_then(|branch| branch.cursor.take())
        else {
            return;
        };
        if cursor.prefers_stream {
            let reach = Reach::of(&scope.parts.settings.listeners);
            streams_first(&mut candidates, reach);
        }
        candidates.reverse();
        cursor.left = candidates;
        cursor.tries = scope.parts.settings.proxy.max_targets.max(1);
        self.try_candidates(scope, request, Some(place), cursor);
    }

    /// Sends to the first candidate that can be sent to. The others stay with the branch in case it fails.
    pub(super) fn try_candidates(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        place: Option<u8>,
        mut cursor: Box<Cursor>,
    ) {
        let mut failure = if cursor.left.is_empty() {
            Failure::Unlocated
        } else {
            Failure::Unreachable
        };
        while let Some(candidate) = cursor.advance(scope.parts) {
            let attempt = Attempt {
                target: &cursor.target,
                breadth: cursor.breadth,
                place,
                candidate: Some(candidate),
            };
            match self.launch(scope, request, attempt) {
                Ok(Launch::Sent(place)) => return self.await_answer(scope, place, cursor),
                Ok(Launch::Unresolved(_) | Launch::Either(_)) => {}
                Err(reason) => failure = reason,
            }
        }
        if let Some(branch) = place.and_then(|place| self.branches.get_mut(usize::from(place))) {
            branch.state = BranchState::Ended;
        }
        self.note_failure(failure);
        self.gateway_failed(scope, None, failure);
        self.try_other_flow(cursor.target.instance, cursor.breadth);
    }

    /// Sends to the same candidate once more.
    pub(super) fn try_same_candidate(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        mut cursor: Box<Cursor>,
    ) {
        cursor.left.extend(cursor.current.take());
        cursor.tries += 1;
        self.try_candidates(scope, request, None, cursor);
    }

    /// Keeps the cursor. A request other than INVITE does not wait for Timer F while there are other candidates.
    fn await_answer(&mut self, scope: &mut ContextScope<'_, '_>, place: u8, cursor: Box<Cursor>) {
        let has_next = cursor.has_next();
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.cursor = Some(cursor).filter(|cursor| has_next || cursor.is_named);
        }
        if !self.is_invite && has_next {
            self.arm_other(scope, place);
        }
    }

    /// Drops the other candidates of a branch: its candidate has the request, so no other one gets it.
    pub(super) fn drop_other_candidates(&mut self, place: u8) {
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.cursor = None;
        }
    }

    /// Retries with another candidate of the same target (RFC 3263 section 4.3), unless the request is concluded or
    /// cancelled.
    pub(super) fn schedule_retry(&mut self, cursor: Option<Box<Cursor>>) {
        if !self.is_concluded && self.cancelled_by.is_none() {
            let cursor = cursor.filter(|cursor| cursor.has_next());
            self.retry = cursor.map(Retry::Candidate);
        }
    }

    /// Marks the candidate that a branch is trying as failed: other calls try it last for a while.
    pub(super) fn mark_failed(&self, scope: &ContextScope<'_, '_>, place: u8, why: TargetFailure) {
        self.mark_failed_for(scope, place, why, None);
    }

    /// Marks the candidate of a branch as failed after the network has reported it unreachable.
    ///
    /// For datagrams, this report is only a hint. An attacker that sees the request can forge it until the first
    /// response. Peers send no 100 to requests other than INVITE, which leaves seconds to forge it. So an error for
    /// such a request makes other calls try the candidate last, but does not move the calls that it has already
    /// accepted.
    pub(super) fn mark_unreachable(
        &self,
        scope: &ContextScope<'_, '_>,
        place: u8,
        is_datagram: bool,
    ) {
        if self.is_invite || !is_datagram {
            self.mark_failed(scope, place, TargetFailure::Unreachable);
        } else if !self.is_gone(scope, place) {
            self.mark_failed(scope, place, TargetFailure::Unavailable);
        }
    }

    fn mark_failed_for(
        &self,
        scope: &ContextScope<'_, '_>,
        place: u8,
        why: TargetFailure,
        rest: Option<Duration>,
    ) {
        let parts = &scope.parts;
        let lifetime = parts.settings.proxy.dead_target_lifetime;
        if let Some(candidate) = self.shared_candidate(place)
            && !lifetime.is_zero()
        {
            let until = parts.now + rest.unwrap_or(lifetime);
            parts.shared.dead_targets.mark_failed(candidate, until, why);
        }
    }

    /// Updates the state of a candidate from its response. 503 means that other candidates should be preferred
    /// (RFC 3261 section 21.5.4). Any other response means that the candidate works.
    ///
    /// A 503 may be the candidate's own, or relayed from the far end of a call, and the two cannot be distinguished. So
    /// it diverts other calls for no longer than any other failure does.
    pub(super) fn record_outcome(
        &self,
        scope: &ContextScope<'_, '_>,
        place: u8,
        response: &Message<'_>,
    ) {
        if response.status() != 503 {
            if let Some(candidate) = self.shared_candidate(place) {
                let dead = &scope.parts.shared.dead_targets;
                dead.mark_available(candidate, scope.parts.now);
            }
            return;
        }
        match retry_after(response) {
            Some(rest) => {
                let rest = rest.min(scope.parts.settings.proxy.dead_target_lifetime);
                self.mark_failed_for(scope, place, TargetFailure::RetryAfter, Some(rest));
            }
            None => self.mark_failed(scope, place, TargetFailure::Unavailable),
        }
    }

    /// Whether other calls have marked the candidate of this branch as failed, it has sent nothing since, and there is
    /// another candidate.
    pub(super) fn has_failed_elsewhere(&self, scope: &ContextScope<'_, '_>, place: u8) -> bool {
        let branch = self.branches.get(usize::from(place));
        let cursor = branch.and_then(|branch| branch.cursor.as_ref());
        cursor.is_some_and(|cursor| cursor.has_next()) && self.is_gone(scope, place)
    }

    fn is_gone(&self, scope: &ContextScope<'_, '_>, place: u8) -> bool {
        self.shared_candidate(place)
            .is_some_and(|candidate| scope.parts.shared.dead_targets.is_gone(candidate))
    }

    /// Returns the candidate that a branch is trying, if other calls may find it too: by its name, or as the stream
    /// that a long request to an address prefers.
    fn shared_candidate(&self, place: u8) -> Option<Candidate> {
        let cursor = self.branches.get(usize::from(place))?.cursor.as_ref()?;
        let is_shared = |candidate: &Candidate| cursor.is_named || candidate.protocol.is_reliable();
        cursor.current.filter(is_shared)
    }
}

/// Returns the seconds of a Retry-After. The rest of the value is for humans.
pub(crate) fn retry_after(response: &Message<'_>) -> Option<Duration> {
    let value = response.header(HeaderName::RetryAfter)?.trim_ascii();
    let digits = value.iter().take_while(|octet| octet.is_ascii_digit());
    let digits = value.get(..digits.count())?;
    let seconds = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
