//! Deadlines of branches: Timer C (RFC 3261 sections 16.6 step 11 and 16.8), the operator's limit on silence, and the
//! time limit for resolving a name. A branch has at most one timer.

use super::context::{BranchState, Context, ContextScope};
use super::reason;
use super::timer::Deadline;
use crate::routing::dead_targets::TargetFailure;
use crate::routing::failure::Failure;
use crate::routing::target::Target;
use sip_transport::Time;

impl Context {
    /// Arms the timer of an INVITE that was just sent: Timer C, or less while there is no response.
    pub(super) fn arm_invite(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        let proxy = &scope.parts.settings.proxy;
        let silence = proxy
            .no_answer
            .map_or(proxy.timer_c, |no_answer| no_answer.min(proxy.timer_c));
        let timer_c = scope.parts.now + proxy.timer_c;
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.timer_c = timer_c;
        }
        let first = scope.parts.now + silence;
        self.arm(scope, place, first.min(self.latest_end(scope, place)));
    }

    /// Arms the timer of a request other than INVITE that something may replace. The request does not wait for Timer F, because its
    /// sender has given up by then. It waits at least 8*T1: over UDP a server may not send 100 before Timer E has reached T2, which
    /// takes 3.5 s (RFC 4320 section 4.1).
    pub(super) fn arm_other(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        if let Some(no_answer) = scope.parts.settings.proxy.no_answer {
            let least = scope.parts.settings.timers.t1.saturating_mul(8);
            self.arm(scope, place, scope.parts.now + no_answer.max(least));
        }
    }

    /// Arms the branch's timer and replaces the previous one.
    pub(super) fn arm(&mut self, scope: &mut ContextScope<'_, '_>, place: u8, at: Time) {
        self.disarm(scope, place);
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.deadline = Some(scope.wheel.arm(at, Deadline::Branch(scope.branch(place))));
        }
    }

    pub(super) fn disarm(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        if let Some(timer) = self
            .branches
            .get_mut(usize::from(place))
            .and_then(|branch| branch.deadline.take())
        {
            scope.wheel.cancel(timer);
        }
    }

    /// Handles a branch's timer that has fired.
    pub(super) fn expire(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        branch.deadline = None;
        if self.end_overdue(scope, place) {
            return;
        }
        let Some(branch) = self.branches.get(usize::from(place)) else {
            return;
        };
        let (state, timer_c) = (branch.state, branch.timer_c);
        match state {
            BranchState::Resolving => {
                scope.parts.metrics.questions_expired.increment();
                self.fail_branch(scope, place, Failure::Unresolved);
            }
            // A server has the request and works on it. Timer F ends it.
            BranchState::Trying | BranchState::Proceeding if !self.is_invite => {}
            // There is no alternative: Timer F ends it.
            BranchState::Calling if !self.is_invite && !self.has_other(scope, place) => {}
            // There is no alternative: wait until the transaction times out.
            BranchState::Calling if scope.parts.now < timer_c && !self.has_other(scope, place) => {
                self.rearm_check(scope, place, timer_c);
            }
            BranchState::Calling => {
                // Where no 100 is due, a server that waits for a slow phone is as silent as a failed one.
                if self.is_invite {
                    self.mark_failed(scope, place, TargetFailure::Silent);
                }
                self.give_up(scope, place);
            }
            // The 100 only says that the next hop had the request. It has failed since, so nothing that happens behind
            // it can reach us.
            BranchState::Trying if self.has_failed_elsewhere(scope, place) => {
                self.give_up(scope, place);
            }
            // Provisional responses do not touch the wheel. When the timer fires, it checks whether Timer C was moved.
            BranchState::Trying | BranchState::Proceeding if scope.parts.now < timer_c => {
                self.rearm_check(scope, place, timer_c);
            }
            BranchState::Trying | BranchState::Proceeding => self.cancel_late(scope, place),
            BranchState::Cancelling { .. } | BranchState::Ended => {}
        }
    }

    /// Whether something can replace a branch now: another candidate of its next hop, another flow to its phone, another
    /// gateway, or targets with a lower `q`. Those are not tried while another branch rings.
    pub(super) fn has_other(&self, scope: &ContextScope<'_, '_>, place: u8) -> bool {
        let Some(branch) = self.branches.get(usize::from(place)) else {
            return false;
        };
        let has_next = branch.cursor.as_ref().is_some_and(|it| it.has_next());
        let is_other_flow =
            |target: &Target| branch.instance != 0 && target.instance == branch.instance;
        has_next
            || self.targets.iter().any(is_other_flow)
            || (!self.targets.is_empty() && !self.others_ring(place))
            || self.has_other_gateway(scope)
    }

    /// Whether another branch has received a provisional response and waits for its final one.
    fn others_ring(&self, place: u8) -> bool {
        let rings = |state| matches!(state, BranchState::Trying | BranchState::Proceeding);
        let mut branches = self.branches.iter().enumerate();
        branches.any(|(other, branch)| other != usize::from(place) && rings(branch.state))
    }

    /// Gives up a branch without a response and fails over. If a response arrives later, the transaction cancels the
    /// call.
    pub(super) fn give_up(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        self.cancel_branch(scope, place);
        self.fail_branch(scope, place, Failure::Timeout);
    }

    /// Cancels a branch because its time is over, and waits for its final response.
    pub(super) fn cancel_late(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        self.cancel_branch(scope, place);
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.state = BranchState::Cancelling { late: true };
        }
    }

    fn cancel_branch(&self, scope: &mut ContextScope<'_, '_>, place: u8) {
        let branch = self.branches.get(usize::from(place));
        if let Some(client) = branch.and_then(|branch| branch.client) {
            let parts = &mut *scope.parts;
            let reason = reason::of_status(Failure::Timeout.status());
            parts
                .transactions
                .give_up_client(parts.now, client, &reason, parts.output);
        }
    }

    /// Arms the timer of a branch for Timer C, for another bound, or for an earlier check.
    fn rearm_check(&mut self, scope: &mut ContextScope<'_, '_>, place: u8, timer_c: Time) {
        let look = self.next_check(scope, place);
        let timer_c = timer_c.min(self.latest_end(scope, place));
        self.arm(scope, place, look.map_or(timer_c, |look| look.min(timer_c)));
    }

    /// When to check again whether to give up a branch for an alternative; `None` if nothing can replace it.
    fn next_check(&self, scope: &ContextScope<'_, '_>, place: u8) -> Option<Time> {
        let branch = self.branches.get(usize::from(place))?;
        let can_move = match branch.state {
            // Targets with a lower `q` are tried once the other branches have stopped ringing, and another gateway once it
            // is up.
            BranchState::Calling => !self.targets.is_empty() || self.may_repeat_to_gateway(),
            // Other calls may find that the next hop has failed.
            BranchState::Trying => branch.cursor.as_ref().is_some_and(|it| it.has_next()),
            _ => false,
        };
        let no_answer = scope.parts.settings.proxy.no_answer?;
        can_move.then(|| scope.parts.now + no_answer)
    }
}
