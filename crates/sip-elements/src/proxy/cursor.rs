//! The cursor of a target (RFC 3263 section 4.3): the candidates by which it can be reached, tried one after the other, each
//! call for itself. What becomes of a candidate that was found by name, or of a stream that a long request prefers, is remembered
//! for the other calls.

use super::context::{BranchState, Context, Launch, Retry, Turn};
use super::response::Failure;
use super::target::Target;
use crate::dead_targets::Death;
use crate::{Question, Round, Ticket};
use sip_message::{HeaderName, Message};
use sip_transport::selection::{Candidate, Destination, Reach, prefers_stream, streams_first};
use std::time::Duration;

/// What a copy has more than the request: Via, Record-Route, a longer Request-URI. More than that is rare, and leaves as UDP.
const ADDED: usize = 200;

/// A target with the candidates that are not yet tried.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) target: Target,
    /// Its share of the Max-Breadth.
    pub(super) breadth: u8,
    /// The best one last.
    left: Vec<Candidate>,
    /// The one that is being tried.
    current: Option<Candidate>,
    /// How many more may be tried.
    tries: usize,
    /// It came of a name: others may find it too.
    is_named: bool,
    /// The request is too long for UDP, and its URI leaves the protocol open.
    prefers_stream: bool,
}

/// Whether a copy of the request is too long for UDP (RFC 3261 section 18.1.1).
pub(super) fn is_long(request: &Message<'_>) -> bool {
    prefers_stream(request.bytes().len() + ADDED)
}

impl Cursor {
    /// A target that is reached by any of these candidates, best first.
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

    /// The next candidate: the best one that is not known to be dead, else the best one.
    fn advance(&mut self, round: &Round<'_>) -> Option<Candidate> {
        self.tries = self.tries.checked_sub(1)?;
        let dead = &round.shared.dead_targets;
        let lifetime = round.settings.proxy.dead_target_lifetime;
        let admitted = |candidate: &Candidate| dead.admits(*candidate, round.now, lifetime);
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

    /// Whether there is anything left to try.
    pub(super) fn has_next(&self) -> bool {
        self.tries > 0 && !self.left.is_empty()
    }
}

impl Context {
    /// Parks a branch on the name of its next hop.
    pub(super) fn resolve(
        &mut self,
        turn: &mut Turn<'_, '_>,
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
        turn.round.output.ask(Question::Resolve {
            ticket: Ticket(turn.key.owner(place)),
            destination,
            seed: turn.round.shared.hasher.hash(&[b"target", call]),
        });
        turn.round.metrics.questions.increment();
        let deadline = turn.round.now + turn.round.settings.question_deadline;
        self.arm(turn, place, deadline);
        Ok(())
    }

    /// The candidates of a branch that was parked on its name, best first.
    pub(super) fn resolved(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        place: u8,
        mut candidates: Vec<Candidate>,
    ) {
        self.disarm(turn, place);
        let Some(mut cursor) = self
            .branches
            .get_mut(usize::from(place))
            .and_then(|branch| branch.cursor.take())
        else {
            return;
        };
        if cursor.prefers_stream {
            let reach = Reach::of(&turn.round.settings.listeners);
            streams_first(&mut candidates, reach);
        }
        candidates.reverse();
        cursor.left = candidates;
        cursor.tries = turn.round.settings.proxy.max_targets.max(1);
        self.try_candidates(turn, request, Some(place), cursor);
    }

    /// Sends to the first candidate that can be sent to; the others stay with the branch for when it fails.
    pub(super) fn try_candidates(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        place: Option<u8>,
        mut cursor: Box<Cursor>,
    ) {
        let mut failure = if cursor.left.is_empty() {
            Failure::Unlocated
        } else {
            Failure::Unreachable
        };
        while let Some(candidate) = cursor.advance(turn.round) {
            let (target, breadth) = (&cursor.target, cursor.breadth);
            match self.launch(turn, request, target, breadth, place, Some(candidate)) {
                Ok(Launch::Sent(place)) => return self.await_answer(turn, place, cursor),
                Ok(Launch::Unresolved(_) | Launch::Either(_)) => {}
                Err(reason) => failure = reason,
            }
        }
        if let Some(branch) = place.and_then(|place| self.branches.get_mut(usize::from(place))) {
            branch.state = BranchState::Ended;
        }
        self.note_failure(failure);
        self.try_other_flow(cursor.target.instance, cursor.breadth);
    }

    /// While there are other candidates, a request other than INVITE does not wait for Timer F: by then its sender has given up. It
    /// waits 8*T1 at least. Over UDP a server may not send 100 before Timer E has reached T2, which is 3.5 s (RFC 4320 section 4.1).
    fn await_answer(&mut self, turn: &mut Turn<'_, '_>, place: u8, cursor: Box<Cursor>) {
        let has_next = cursor.has_next();
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.cursor = Some(cursor).filter(|cursor| has_next || cursor.is_named);
        }
        if !self.is_invite
            && has_next
            && let Some(no_answer) = turn.round.settings.proxy.no_answer
        {
            let least = turn.round.settings.timers.t1.saturating_mul(8);
            let deadline = turn.round.now + no_answer.max(least);
            self.arm(turn, place, deadline);
        }
    }

    /// The candidate of a branch has the request: no other one gets it.
    pub(super) fn keep_to_candidate(&mut self, place: u8) {
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.cursor = None;
        }
    }

    /// Another candidate of the same target is to be tried (RFC 3263 section 4.3), unless the matter is settled.
    pub(super) fn try_again(&mut self, cursor: Option<Box<Cursor>>) {
        if !self.is_concluded && !self.is_cancelled {
            let cursor = cursor.filter(|cursor| cursor.has_next());
            self.retry = cursor.map(Retry::Candidate);
        }
    }

    /// The candidate that a branch is trying has failed: other calls try it last for a while.
    pub(super) fn bury(&self, turn: &Turn<'_, '_>, place: u8, why: Death) {
        self.bury_for(turn, place, why, None);
    }

    /// The network reports that the candidate of a branch cannot be reached. For datagrams this is a hint that whoever sees the request
    /// can forge until its first response. Peers send no 100 to requests other than INVITE, which leaves seconds for that. So an error
    /// for such a request makes other calls try the candidate last, but does not move those that it has already taken.
    pub(super) fn bury_unreachable(&self, turn: &Turn<'_, '_>, place: u8, is_datagram: bool) {
        if self.is_invite || !is_datagram {
            self.bury(turn, place, Death::Unreachable);
        } else if !self.is_gone(turn, place) {
            self.bury(turn, place, Death::Unavailable);
        }
    }

    fn bury_for(&self, turn: &Turn<'_, '_>, place: u8, why: Death, rest: Option<Duration>) {
        let round = &turn.round;
        let lifetime = round.settings.proxy.dead_target_lifetime;
        if let Some(candidate) = self.shared_candidate(place)
            && !lifetime.is_zero()
        {
            let until = round.now + rest.unwrap_or(lifetime);
            round.shared.dead_targets.bury(candidate, until, why);
        }
    }

    /// What a response says of the candidate that it comes from: 503 that others had better be asked (RFC 3261 section 21.5.4), anything
    /// else that it is alive. Whether the 503 is the candidate's own cannot be told: it may be relayed from the far end of a call, so it
    /// keeps other calls off for no longer than any other failure does.
    pub(super) fn note_life(&self, turn: &Turn<'_, '_>, place: u8, response: &Message<'_>) {
        if response.status() != 503 {
            if let Some(candidate) = self.shared_candidate(place) {
                let dead = &turn.round.shared.dead_targets;
                dead.revive(candidate, turn.round.now);
            }
            return;
        }
        match retry_after(response) {
            Some(rest) => {
                let rest = rest.min(turn.round.settings.proxy.dead_target_lifetime);
                self.bury_for(turn, place, Death::AskedForRest, Some(rest));
            }
            None => self.bury(turn, place, Death::Unavailable),
        }
    }

    /// Whether other calls have found the candidate dead that this branch is trying, and it has said nothing since; and there is
    /// another one.
    pub(super) fn has_died(&self, turn: &Turn<'_, '_>, place: u8) -> bool {
        let branch = self.branches.get(usize::from(place));
        let cursor = branch.and_then(|branch| branch.cursor.as_ref());
        cursor.is_some_and(|cursor| cursor.has_next()) && self.is_gone(turn, place)
    }

    fn is_gone(&self, turn: &Turn<'_, '_>, place: u8) -> bool {
        self.shared_candidate(place)
            .is_some_and(|candidate| turn.round.shared.dead_targets.is_gone(candidate))
    }

    /// The candidate that a branch is trying, where other calls may find it too: by its name, or as the stream that a long request
    /// to an address prefers.
    fn shared_candidate(&self, place: u8) -> Option<Candidate> {
        let cursor = self.branches.get(usize::from(place))?.cursor.as_ref()?;
        let is_shared = |candidate: &Candidate| cursor.is_named || candidate.protocol.is_reliable();
        cursor.current.filter(is_shared)
    }
}

/// The seconds of a Retry-After; what else it says is for people.
fn retry_after(response: &Message<'_>) -> Option<Duration> {
    let value = response.header(HeaderName::RetryAfter)?.trim_ascii();
    let digits = value.iter().take_while(|octet| octet.is_ascii_digit());
    let digits = value.get(..digits.count())?;
    let seconds = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
