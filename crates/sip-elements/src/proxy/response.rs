//! Responses on their way upstream (RFC 3261 section 16.7): which are forwarded at once, which wait for a better one,
//! and the final choice.

use super::calls::Accepted;
use super::context::{BranchState, Context, ContextScope};
use super::identity_headers::{Party, remove_untrusted};
use super::{reason, session_timer};
use crate::metrics::DropReason;
use crate::own_response::{own_tag, with_server_header};
use crate::routing::failure::Failure;
use crate::routing::record_route::{self, Recorded};
use sip_message::{HeaderName, Message, Patch, ResponseWriter};
use std::net::IpAddr;

/// Flow Failed (RFC 5626 section 7), from an edge proxy to us. It is not forwarded.
const FLOW_FAILED: u16 = 430;

/// Rank of a failure of our own, as in [`rank`]. It loses to any response from a phone. The exception is a timeout, which
/// ranks like a 408 (section 16.8).
const fn rank_of_failure(failure: Failure) -> u16 {
    match failure {
        Failure::Timeout | Failure::Cancelled => rank(failure.status()),
        Failure::UnsupportedScheme
        | Failure::BadRoute
        | Failure::OffLimits
        | Failure::NotSecure => 600,
        Failure::Overloaded
        | Failure::NotDiverted
        | Failure::DivertedInCircle
        | Failure::DivertedTooOften => 601,
        Failure::Gone | Failure::Unauthorized => 602,
        Failure::Unreachable | Failure::Unlocated | Failure::Unresolved => 603,
        Failure::NoGateway => 604,
    }
}

/// The best final response so far.
#[derive(Debug)]
pub(super) struct Best {
    rank: u16,
    outcome: Outcome,
    /// Challenges from the other 401 and 407 responses.
    challenges: Vec<(HeaderName, Box<[u8]>)>,
}

impl Best {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let challenges = self.challenges.iter().map(|(_, value)| value.len());
        let received = match &self.outcome {
            Outcome::Received(bytes, _) => bytes.len(),
            Outcome::Own(_) => 0,
        };
        received + challenges.sum::<usize>()
    }
}

#[derive(Debug)]
enum Outcome {
    /// The response and its sender.
    Received(Box<[u8]>, Party),
    Own(Failure),
}

/// Result of forwarding a response.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    is_sent: bool,
    /// Our Record-Route value in the response, if it got the caller's proof.
    recorded: Option<Recorded>,
}

impl Passed {
    /// Keyed hash of the Contact, if known.
    fn contact(&self) -> Option<u64> {
        self.recorded.map(|recorded| recorded.contact)
    }
}

/// Section 16.7 step 6: lower is better. 6xx comes first, then the lowest class. Within 4xx, responses that tell the
/// caller how to succeed come first. Responses that only say that no user was reached come last in their class.
const fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        401 | 407 => 400,
        415 | 420 | 484 => 401,
        408 | 487 => 499,
        400..=499 => 450,
        503 => 599,
        other => other / 100 * 100,
    }
}

const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

impl Context {
    /// Handles a response from a branch and the address that it came from. Returns whether it was a 2xx and went
    /// upstream.
    pub(super) fn receive(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, IpAddr),
    ) -> bool {
        let from = Party::new(from, self.trust_of(place).receiver);
        self.record_outcome(scope, place, response);
        let status = response.status();
        self.note_accepted(status);
        let is_for_us = response.values(HeaderName::Via).nth(1).is_none();
        match status {
            ..200 if is_for_us => scope.parts.metrics.dropped(DropReason::StrayResponse),
            ..200 => self.receive_provisional(scope, place, (response, from)),
            // The transaction has ended in any case, and so has the branch.
            _ if is_for_us => {
                scope.parts.metrics.dropped(DropReason::StrayResponse);
                self.fail_branch(scope, place, Failure::Unreachable);
            }
            200..300 => {
                self.receive_success(scope, place, (response, from));
                return true;
            }
            _ => self.receive_failure(scope, place, (response, from)),
        }
        false
    }

    /// Absorbs a 100. For an INVITE only, forwards any other provisional response and moves Timer C (steps 2 and 5;
    /// RFC 4320 section 4.1).
    fn receive_provisional(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, Party),
    ) {
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        if response.status() == 100 {
            if branch.state == BranchState::Calling {
                branch.state = BranchState::Trying;
            }
            return;
        }
        let has_ended = branch.state == BranchState::Ended;
        self.note_progress(scope, place);
        if self.is_invite && !self.is_concluded && !has_ended {
            let passed = self.forward_response(scope, response, from);
            self.note_early_target(place, passed.contact());
            if passed.is_sent {
                scope.calls.ringing(scope.parts, self.dialog.call());
                self.note_early_media(response);
            }
        }
    }

    /// Notes a provisional response other than 100, and moves Timer C.
    pub(super) fn note_progress(&mut self, scope: &ContextScope<'_, '_>, place: u8) {
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            if matches!(branch.state, BranchState::Calling | BranchState::Trying) {
                branch.state = BranchState::Proceeding;
            }
            branch.timer_c = scope.parts.now + scope.parts.settings.proxy.timer_c;
        }
        self.note_gateway_rings(place);
        self.note_callee_rings(place);
    }

    /// Forwards a 2xx at once, for an INVITE every one of them (step 5). The other branches are cancelled (step 10).
    fn receive_success(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, Party),
    ) {
        self.end_branch(scope, place);
        if !self.is_invite {
            self.gateway_refused(scope, place, response);
        }
        let passed = self.forward_response(scope, response, from);
        self.note_dialog(scope, place, response, passed.contact());
        self.note_answer(scope, place, response, passed.recorded);
        let passed = passed.is_sent;
        if !passed && self.is_invite {
            // The server transaction is over. A branch was cancelled after the 2xx of another one, and still accepted
            // the call more than 64*T1 after that 2xx. The callee considers the call established, so the caller must
            // learn about it.
            super::upstream::forward_statelessly(scope.parts, response, from);
        }
        self.conclude_with(scope, if passed { response.status() } else { 0 });
        if self.is_invite {
            self.cancel_pending(scope, reason::ANSWERED_ELSEWHERE);
        }
    }

    /// Confirms the dialog of an INVITE. The dialog takes over the places of the call.
    fn note_answer(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        response: &Message<'_>,
        recorded: Option<Recorded>,
    ) {
        if self.is_invite {
            let held = self.policy.as_deref_mut();
            let held = held.and_then(|it| it.answered(place, response.status(), scope.parts.now));
            let branch = self.branches.get(usize::from(place));
            let client = branch.and_then(|branch| branch.client);
            let accepted = Accepted {
                response,
                flow: client.and_then(|client| scope.parts.transactions.client_flow(client)),
                recorded,
                held,
            };
            scope
                .calls
                .answered(scope.parts, self.dialog.call(), accepted);
        }
    }

    fn receive_failure(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, Party),
    ) {
        self.note_dialog(scope, place, response, None);
        let status = response.status();
        let branch = self.branches.get(usize::from(place));
        let (state, instance, breadth) = branch.map_or((BranchState::Ended, 0, 0), |branch| {
            (branch.state, branch.instance, branch.breadth)
        });
        if state == BranchState::Ended || self.is_concluded {
            self.end_branch(scope, place);
            self.gateway_refused(scope, place, response);
            return;
        }
        if is_challenge(status) && self.authorization().is_some() {
            return self.receive_challenge(scope, place, response);
        }
        if status >= 600 {
            self.end_branch(scope, place);
            self.gateway_refused(scope, place, response);
            self.cancel_pending(scope, &reason::of_status(status));
        } else if state == (BranchState::Cancelling { late: true }) && status == 487 {
            return self.fail_branch(scope, place, Failure::Timeout);
        } else if self.take_redirection(scope.parts.settings, place, response) {
            self.end_branch(scope, place);
            return self.forget_other_flows(instance);
        } else if status == FLOW_FAILED && !self.goes_to_gateways() {
            return self.fail_branch(scope, place, Failure::Gone);
        } else {
            let cursor = self
                .branches
                .get_mut(usize::from(place))
                .and_then(|branch| branch.cursor.take());
            self.end_branch(scope, place);
            self.schedule_retry(cursor.filter(|_| status == 503));
            if self.retry.is_none() {
                self.gateway_refused(scope, place, response);
            }
            if status == 408 {
                self.try_other_flow(instance, breadth);
            } else {
                self.forget_other_flows(instance);
            }
        }
        let is_last = self.targets.is_empty()
            && self.retry.is_none()
            && self.best.is_none()
            && !self.is_pending()
            && !self.wants_gateway()
            && !self.wants_diversion();
        if is_last && !self.needs_translation(status) {
            self.forward_response(scope, response, from);
            self.conclude_with(scope, status);
        } else {
            self.note_response(response, from);
        }
    }

    /// Whether a response must not be forwarded as it is. 503 would say upstream that we are overloaded (step 6). 408
    /// is useless for a non-INVITE (RFC 4320 section 4.2).
    const fn needs_translation(&self, status: u16) -> bool {
        status == 503 || (status == 408 && !self.is_invite)
    }

    pub(super) fn end_branch(&mut self, scope: &mut ContextScope<'_, '_>, place: u8) {
        self.disarm(scope, place);
        if let Some(branch) = self.branches.get_mut(usize::from(place)) {
            branch.state = BranchState::Ended;
            branch.cursor = None;
        }
    }

    /// Keeps a final response if it is the best so far, and its challenges in any case (step 7).
    fn note_response(&mut self, response: &Message<'_>, from: Party) {
        let status = response.status();
        self.note_diverting_status(status);
        let rank = rank(status);
        match &mut self.best {
            Some(best) if best.rank <= rank => {
                if is_challenge(status) {
                    best.challenges.extend(challenges(response));
                }
            }
            best => {
                let outcome = Outcome::Received(response.bytes().into(), from);
                *best = Some(Box::new(Best {
                    rank,
                    outcome,
                    challenges: Vec::new(),
                }));
            }
        }
    }

    /// Keeps a failure if there is no better response.
    pub(super) fn note_failure(&mut self, failure: Failure) {
        self.note_diverting_failure(failure);
        let rank = rank_of_failure(failure);
        if self.best.as_ref().is_none_or(|best| rank < best.rank) {
            self.best = Some(Box::new(Best {
                rank,
                outcome: Outcome::Own(failure),
                challenges: Vec::new(),
            }));
        }
    }

    /// Forwards the best final response when everything has been tried (steps 6 to 9).
    pub(super) fn conclude(&mut self, scope: &mut ContextScope<'_, '_>, request: &Message<'_>) {
        if self.server.is_none() {
            // The next hop of an ACK did not resolve. There is no response to an ACK.
            scope.parts.metrics.dropped(DropReason::NoTarget);
            self.is_concluded = true;
            return;
        }
        let best = self.best.take();
        let received = best.as_ref().and_then(|best| match &best.outcome {
            Outcome::Received(bytes, from) => Some((Message::parse(bytes).ok()?, *from)),
            Outcome::Own(_) => None,
        });
        let own = match best.as_ref().map(|best| &best.outcome) {
            Some(Outcome::Own(failure)) => *failure,
            _ => Failure::Unreachable,
        };
        match received {
            Some((response, _)) if response.status() == 408 && !self.is_invite => {
                self.suppress_response(scope);
            }
            Some((response, from)) if response.status() != 503 => {
                let challenges = best.as_ref().filter(|_| is_challenge(response.status()));
                let challenges = challenges.map_or(&[][..], |best| &best.challenges);
                self.forward_response_with(scope, (&response, from), challenges);
                self.conclude_with(scope, response.status());
            }
            _ if self.cancelled_by.is_some() => self.respond(scope, request, Failure::Cancelled),
            _ if own == Failure::Timeout && !self.is_invite => self.suppress_response(scope),
            _ => self.respond(scope, request, own),
        }
    }

    /// Answers the request with a response of our own.
    fn respond(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        failure: Failure,
    ) {
        let parts = &mut *scope.parts;
        let (status, settings, source) = (failure.status(), parts.settings, self.source.remote);
        if let Some(server) = self.server {
            let tag = own_tag(parts, request);
            parts
                .transactions
                .respond(parts.now, server, status, parts.output, |into| {
                    let begun = ResponseWriter::begin(
                        into,
                        request,
                        source,
                        status,
                        failure.reason(),
                        Some(&tag),
                    );
                    let mut response = with_server_header(begun, &settings.server_header);
                    if matches!(failure, Failure::Overloaded | Failure::NoGateway) {
                        let seconds = settings.limits.retry_after.to_string();
                        response = response.header(HeaderName::RetryAfter, seconds.as_bytes());
                    }
                    response.finish();
                });
            parts.metrics.sent(usize::from(self.method), status);
        }
        self.conclude_with(scope, status);
    }

    /// Sends no response to a non-INVITE that timed out. Upstream has just timed out too, and a 408 would only race its
    /// timer (RFC 4320 section 4.2).
    fn suppress_response(&mut self, scope: &mut ContextScope<'_, '_>) {
        if let Some(server) = self.server {
            let now = scope.parts.now;
            scope.parts.transactions.silence_server(now, server);
        }
        self.end_dialog(scope, 408);
        self.is_concluded = true;
        self.request = None;
    }

    /// Forwards a response upstream: without our Via (step 3), and with the caller's proof in our Record-Route
    /// (step 8).
    fn forward_response(
        &self,
        scope: &mut ContextScope<'_, '_>,
        response: &Message<'_>,
        from: Party,
    ) -> Passed {
        self.forward_response_with(scope, (response, from), &[])
    }

    fn forward_response_with(
        &self,
        scope: &mut ContextScope<'_, '_>,
        (response, from): (&Message<'_>, Party),
        challenges: &[(HeaderName, Box<[u8]>)],
    ) -> Passed {
        let Some(server) = self.server else {
            return Passed::default();
        };
        let mut patch = Patch::with_scratch(response, std::mem::take(scope.scratch));
        patch.remove_first_values(HeaderName::Via, 1);
        // The caller may be on a stream, which needs Content-Length.
        patch.complete_content_length();
        let recorded = record_route::answer(&mut patch, response, scope.parts.view());
        session_timer::agree(&mut patch, response, scope.parts.settings);
        let trusted = &scope.parts.settings.proxy.trusted_peers;
        let to = Party::new(self.client, self.has_trusted_sender());
        remove_untrusted(&mut patch, response, trusted, from, to);
        for (name, value) in challenges {
            patch.append(*name, value);
        }
        let parts = &mut *scope.parts;
        let status = response.status();
        let sent = parts
            .transactions
            .respond(parts.now, server, status, parts.output, |into| {
                patch.write(into);
            });
        *scope.scratch = patch.into_scratch();
        // A phone rings for this call, so the connection of an unknown caller may stay open.
        if self.is_invite && matches!(status, 101..300) {
            parts.output.proven(self.source.connection);
        }
        // An empty range is a withheld response. The metrics do not count it, but it is reported as sent: it went
        // nowhere else.
        if sent.as_ref().is_some_and(|range| !range.is_empty()) {
            parts.metrics.sent(usize::from(self.method), status);
        }
        Passed {
            is_sent: sent.is_some(),
            recorded,
        }
    }

    /// Concludes the request after a final response went upstream: records how long it took, and drops the stored
    /// request. `status` is 0 if none was sent.
    fn conclude_with(&mut self, scope: &mut ContextScope<'_, '_>, status: u16) {
        if !self.is_concluded {
            let latency = &scope.parts.metrics.latency;
            if status >= 200
                && let Some(latency) = latency.get(usize::from(self.method))
            {
                latency.record(scope.parts.now - self.received);
            }
            self.end_dialog(scope, status);
        }
        self.stop_diverting(scope);
        self.is_concluded = true;
        self.request = None;
        self.best = None;
    }
}

/// Challenges in a 401 or 407.
fn challenges(response: &Message<'_>) -> impl Iterator<Item = (HeaderName, Box<[u8]>)> {
    [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate]
        .into_iter()
        .flat_map(move |name| response.values(name).map(move |value| (name, value.into())))
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn the_best_response_is_chosen_as_section_16_7_says() {
        let rows: &[(&[u16], u16)] = &[
            (&[404, 603, 302], 603),
            (&[404, 302, 500], 302),
            (&[500, 486], 486),
            (&[404, 407, 486], 407),
            (&[486, 484], 484),
            (&[420, 401], 401),
            (&[408, 486], 486),
            (&[487, 480], 480),
            (&[503, 500], 500),
            (&[503, 408], 408),
            (&[404, 480], 404),
        ];
        for (statuses, expected) in rows {
            let best = statuses.iter().copied().min_by_key(|status| rank(*status));
            assert_eq!(best, Some(*expected), "{statuses:?}");
        }
    }
}
