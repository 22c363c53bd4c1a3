//! Deadlines of branches: timer C (RFC 3261 sections 16.6 step 11 and 16.8), the operator's bound on silence, and the time a
//! name may take to resolve. A branch has one timer at most.

use super::context::{BranchState, Context, Turn};
use super::reason;
use super::response::Failure;
use super::target::Target;
use crate::dead_targets::Death;
use sip_transport::Time;

impl Context {
    /// For an INVITE just sent: timer C, or less while nothing has been heard.
    pub(super) fn arm_invite(&mut self, turn: &mut Turn<'_, '_>, place: u8) {
        let proxy = &turn.round.settings.proxy;
        let silence = proxy
            .no_answer
            .map_or(proxy.timer_c, |no_answer| no_answer.min(proxy.timer_c));
        let timer_c = turn.round.now + proxy.timer_c;
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.timer_c = timer_c;
        }
        self.arm(turn, place, turn.round.now + silence);
    }

    /// Arms the branch's timer in place of the one there is.
    pub(super) fn arm(&mut self, turn: &mut Turn<'_, '_>, place: u8, at: Time) {
        self.disarm(turn, place);
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.deadline = Some(turn.wheel.arm(at, turn.key.owner(place)));
        }
    }

    pub(super) fn disarm(&mut self, turn: &mut Turn<'_, '_>, place: u8) {
        if let Some(timer) = self
            .branches
            .get_mut(usize::from(place))
            .and_then(|branch| branch.deadline.take())
        {
            turn.wheel.cancel(timer);
        }
    }

    /// A branch's timer has fired.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_, '_>, place: u8) {
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        branch.deadline = None;
        let (state, timer_c) = (branch.state, branch.timer_c);
        match state {
            BranchState::Resolving => {
                turn.round.metrics.questions_expired.increment();
                self.fail_branch(turn, place, Failure::Unresolved);
            }
            // A server has the request and works on it: Timer F ends it.
            BranchState::Trying | BranchState::Proceeding if !self.is_invite => {}
            // There is no alternative: wait until the transaction times out.
            BranchState::Calling if turn.round.now < timer_c && !self.has_other(place) => {
                self.look_again(turn, place, timer_c);
            }
            BranchState::Calling => {
                // Where no 100 is due, a server that waits for a slow phone is as silent as a dead one.
                if self.is_invite {
                    self.bury(turn, place, Death::Silent);
                }
                self.give_up(turn, place);
            }
            // 100 says no more than that the next hop had the request: it has died since, and whatever happens behind it can
            // not be told to us.
            BranchState::Trying if self.has_died(turn, place) => self.give_up(turn, place),
            // Provisional responses do not touch the wheel: the timer looks when it fires whether it has been moved.
            BranchState::Trying | BranchState::Proceeding if turn.round.now < timer_c => {
                self.look_again(turn, place, timer_c);
            }
            BranchState::Trying | BranchState::Proceeding => {
                self.cancel_branch(turn, place);
                if let Some(branch) = self.branches.get_mut(usize::from(place)) {
                    branch.state = BranchState::Cancelling { late: true };
                }
            }
            BranchState::Cancelling { .. } | BranchState::Ended => {}
        }
    }

    /// Whether something can be tried now in place of a branch: another candidate of its next hop, another flow to its phone, or the
    /// targets of lower `q`, whose turn does not come while another branch rings.
    pub(super) fn has_other(&self, place: u8) -> bool {
        let Some(branch) = self.branches.get(usize::from(place)) else {
            return false;
        };
        let has_next = branch.cursor.as_ref().is_some_and(|it| it.has_next());
        let is_other_flow =
            |target: &Target| branch.instance != 0 && target.instance == branch.instance;
        has_next
            || self.targets.iter().any(is_other_flow)
            || (!self.targets.is_empty() && !self.others_ring(place))
    }

    /// Whether a branch other than this one has had a provisional response and waits for the final one.
    fn others_ring(&self, place: u8) -> bool {
        let rings = |state| matches!(state, BranchState::Trying | BranchState::Proceeding);
        let mut branches = self.branches.iter().enumerate();
        branches.any(|(other, branch)| other != usize::from(place) && rings(branch.state))
    }

    /// Nobody is there any more: on to the next. Should somebody turn up all the same, the transaction cancels the call.
    fn give_up(&mut self, turn: &mut Turn<'_, '_>, place: u8) {
        self.cancel_branch(turn, place);
        self.fail_branch(turn, place, Failure::Timeout);
    }

    fn cancel_branch(&self, turn: &mut Turn<'_, '_>, place: u8) {
        let branch = self.branches.get(usize::from(place));
        if let Some(client) = branch.and_then(|branch| branch.client) {
            let round = &mut *turn.round;
            let reason = reason::of_status(Failure::Timeout.status());
            round
                .transactions
                .cancel_client(round.now, client, &reason, round.output);
        }
    }

    /// Arms the timer of a branch for timer C, or for an earlier look.
    fn look_again(&mut self, turn: &mut Turn<'_, '_>, place: u8, timer_c: Time) {
        let look = self.next_look(turn, place);
        self.arm(turn, place, look.map_or(timer_c, |look| look.min(timer_c)));
    }

    /// When to look again whether a branch is to be given up for something else; `None`: nothing can take its place.
    fn next_look(&self, turn: &Turn<'_, '_>, place: u8) -> Option<Time> {
        let branch = self.branches.get(usize::from(place))?;
        let can_move = match branch.state {
            // The targets of lower `q` have their turn once the other branches have stopped ringing.
            BranchState::Calling => !self.targets.is_empty(),
            // Other calls may find that the next hop is dead.
            BranchState::Trying => branch.cursor.as_ref().is_some_and(|it| it.has_next()),
            _ => false,
        };
        let no_answer = turn.round.settings.proxy.no_answer?;
        can_move.then(|| turn.round.now + no_answer)
    }
}
