//! Deadlines of branches: timer C (RFC 3261 sections 16.6 step 11 and 16.8), the operator's bound on silence, and the time a
//! name may take to resolve. A branch has one timer at most.

use super::context::{BranchState, Context, Turn};
use super::response::Failure;
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
        match branch.state {
            BranchState::Resolving => {
                turn.round.metrics.questions_expired.increment();
                self.fail_branch(turn, place, Failure::Unresolved);
            }
            // Nobody is there. Should somebody turn up all the same, the transaction cancels the call.
            BranchState::Calling => {
                if let Some(client) = branch.client {
                    turn.round.transactions.cancel_client(
                        turn.round.now,
                        client,
                        turn.round.output,
                    );
                }
                self.bury(turn, place, Death::Silent);
                self.fail_branch(turn, place, Failure::Timeout);
            }
            // Provisional responses do not touch the wheel: the timer looks when it fires whether it has been moved.
            BranchState::Proceeding if turn.round.now < branch.timer_c => {
                let at = branch.timer_c;
                self.arm(turn, place, at);
            }
            BranchState::Proceeding => {
                branch.state = BranchState::Cancelling { late: true };
                if let Some(client) = branch.client {
                    turn.round.transactions.cancel_client(
                        turn.round.now,
                        client,
                        turn.round.output,
                    );
                }
            }
            BranchState::Cancelling { .. } | BranchState::Ended => {}
        }
    }
}
