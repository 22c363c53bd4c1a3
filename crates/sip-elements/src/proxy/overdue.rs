//! Bounds on how long an INVITE may stay without a final response, beside Timer C: of its gateway, and of the call as a whole. A
//! provisional response moves Timer C, but none of these. They use the timers of the branches.

use super::context::{BranchState, Context, ContextScope};
use super::reason;
use crate::routing::failure::Failure;
use sip_transport::Time;

impl Context {
    /// When a branch of an INVITE has to end, whatever it receives until then.
    pub(super) fn latest_end(&self, scope: &ContextScope<'_, '_>, place: u8) -> Time {
        let of_call = self.call_deadline(scope);
        let of_gateway = self.gateway_deadline(place);
        of_gateway.map_or(of_call, |at| at.min(of_call))
    }

    fn call_deadline(&self, scope: &ContextScope<'_, '_>) -> Time {
        self.received + scope.parts.settings.proxy.max_ringing
    }

    /// Ends a branch of an INVITE that waits for longer than allowed. Returns whether it does.
    pub(super) fn end_overdue(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) -> bool {
        let waits = matches!(
            self.branches
                .get(usize::from(place))
                .map(|branch| branch.state),
            Some(BranchState::Calling | BranchState::Trying | BranchState::Proceeding)
        );
        let now = scope.parts.now;
        if !self.is_invite || !waits || now < self.latest_end(scope, place) {
            return false;
        }
        if self.call_deadline(scope) <= now {
            self.end_call(scope);
        } else {
            self.end_attempt(scope, place);
        }
        true
    }

    /// Cancels the INVITE everywhere, and tries no other target. The caller gets 408.
    fn end_call(&mut self, scope: &mut ContextScope<'_, '_>) {
        self.leave_gateway(scope.parts.now);
        self.note_failure(Failure::Timeout);
        self.cancel_pending(scope, &reason::of_status(Failure::Timeout.status()));
    }

    /// Ends the attempt at a gateway. Another one is tried at once. Without another one, the gateway may still answer the CANCEL.
    fn end_attempt(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        // The time was that of the gateway, not of one of its servers.
        self.drop_other_candidates(place);
        if self.has_other(scope, place) {
            self.give_up(scope, place);
        } else {
            self.cancel_late(scope, place);
        }
    }
}
